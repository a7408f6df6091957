//! Files that contain windows, so that these need not be reconstructed: recordings and logs of the
//! sender's own kernel.

mod polls;
pub mod probe_csv;
pub mod probe_trace;
pub mod recording;
pub mod ss;
mod time;

use crate::analyse::{Options, flow_report};
use crate::error::IdentifyError;
use crate::input::{Kind, RewoundFile};
use crate::live::VerdictSchedule;
use crate::report::{Counted, FileReport, FlowReport, LogFacts};
use polls::Polls;
use std::collections::HashMap;
use std::hash::Hash;
use std::io::{BufRead, BufReader};
use yuzuri_capture::Unpacked;
use yuzuri_infer::samples::{Rounds, Sample};
use yuzuri_infer::verdict::Answer;
use yuzuri_infer::window_trace::WindowTrace;
use yuzuri_trace::Flow;

/// Maximum number of flows followed at a time, as many as the sockets of a busy server; rows of
/// further flows are ignored.
const MAX_FLOWS: usize = 100_000;
/// Maximum bytes of a line; the rest of a longer one is ignored.
const MAX_LINE_BYTES: u64 = 64 << 10;

/// The flows of a log, by their key in it.
#[derive(Debug)]
pub(crate) struct LogFlows<'a, K> {
    options: &'a Options,
    open: HashMap<K, LogFlow>,
    counted: Counted,
    done: Vec<FlowReport>,
    log: LogFacts,
}

/// A flow of a log.
#[derive(Debug)]
pub(crate) struct LogFlow {
    flow: Flow,
    rounds: Rounds,
    chosen: bool,
    pace: VerdictSchedule,
    polls: Polls,
}

impl<'a, K: Eq + Hash + Copy> LogFlows<'a, K> {
    pub(crate) fn new(options: &'a Options) -> LogFlows<'a, K> {
        let (open, done) = (HashMap::new(), Vec::new());
        LogFlows { options, open, counted: Counted::default(), done, log: LogFacts::default() }
    }

    /// A sample of a flow; `flow` creates its identity if it is new.
    pub(crate) fn sample(&mut self, key: K, flow: impl FnOnce() -> Flow, sample: &Sample) {
        if !self.open.contains_key(&key) {
            if self.open.len() >= MAX_FLOWS {
                self.log.unreadable += 1;
                return;
            }
            let flow = flow();
            let chosen = self.options.filter.matches(&flow, |_, _| false);
            self.counted.flows += 1;
            self.counted.filtered += u64::from(!chosen);
            self.open.insert(
                key,
                LogFlow {
                    flow,
                    rounds: Rounds::default(),
                    chosen,
                    pace: VerdictSchedule::default(),
                    polls: Polls::default(),
                },
            );
        }
        self.log.rows += 1;
        if let Some(log_flow) = self.open.get_mut(&key)
            && log_flow.chosen
        {
            log_flow.polls.row(sample);
            log_flow.rounds.push(sample);
            if let Some(live) = &self.options.live
                && log_flow.pace.is_due(log_flow.rounds.count())
            {
                let window_trace = log_flow.rounds.clone().finish();
                if window_trace.segments >= self.options.min_segments.max(1) {
                    log_flow
                        .pace
                        .report_change(live, log_report(window_trace, &log_flow.flow, log_flow.polls));
                }
            }
        }
    }

    /// Replaces the identity of a flow.
    pub(crate) fn rename(&mut self, key: K, flow: &Flow) {
        if let Some(log_flow) = self.open.get_mut(&key) {
            log_flow.flow = flow.clone();
        }
    }

    /// A flow has ended.
    pub(crate) fn end(&mut self, key: K) {
        let Some(log_flow) = self.open.remove(&key).filter(|log_flow| log_flow.chosen) else { return };
        let window_trace = log_flow.rounds.finish();
        if window_trace.segments < self.options.min_segments.max(1) {
            self.counted.little_data += 1;
            return;
        }
        self.done.push(log_report(window_trace, &log_flow.flow, log_flow.polls));
    }

    /// The log has ended.
    pub(crate) fn finish(mut self, report: &mut FileReport) {
        let keys: Vec<K> = self.open.keys().copied().collect();
        for key in keys {
            self.end(key);
        }
        report.flows = self.done;
        report.counted = self.counted;
        report.log = Some(self.log);
    }
}

/// The report of a flow: unknown if its rows are too far apart.
fn log_report(window_trace: WindowTrace, flow: &Flow, polls: Polls) -> FlowReport {
    let mut report = flow_report(window_trace, flow, None);
    if let Some(because) = polls.too_rare() {
        report.verdict.answer = Answer::Unknown { because };
    }
    report
}

/// Reads a file of known windows.
pub(crate) fn read(
    kind: Kind,
    whole: RewoundFile<'_>,
    report: &mut FileReport,
    options: &Options,
) -> Result<(), IdentifyError> {
    let name = report.path.clone();
    let open = |source| IdentifyError::Open { name: name.clone(), source };
    let reader = BufReader::with_capacity(256 << 10, Unpacked::new(whole).map_err(open)?.0);
    match kind {
        Kind::Recording => recording::read(reader, report, options),
        Kind::ProbeCsv => lines(reader, report, options, probe_csv::Reader::default()),
        Kind::ProbeTrace => lines(reader, report, options, probe_trace::Reader::default()),
        Kind::Ss => lines(reader, report, options, ss::Reader::default()),
        Kind::Capture => Ok(()),
    }
}

/// Reads a log line by line.
pub(crate) trait LineReader {
    /// The key of a flow.
    type Key: Eq + Hash + Copy;

    /// Processes a line; `false`: it belongs to the log, but could not be read.
    fn line(&mut self, line: &str, log_flows: &mut LogFlows<'_, Self::Key>) -> bool;

    /// Checks the log after its last line.
    fn check(&self, _name: &str) -> Result<(), IdentifyError> {
        Ok(())
    }
}

fn lines<L: LineReader>(
    mut reader: impl BufRead,
    report: &mut FileReport,
    options: &Options,
    mut of: L,
) -> Result<(), IdentifyError> {
    let mut log_flows = LogFlows::new(options);
    let mut line = Vec::new();
    let mut result = Ok(());
    loop {
        line.clear();
        match std::io::Read::take(&mut reader, MAX_LINE_BYTES).read_until(b'\n', &mut line) {
            Ok(0) => break,
            Ok(_) => {}
            Err(source) => {
                // A stream that ends early is a truncated log; everything before that was read.
                if source.kind() == std::io::ErrorKind::UnexpectedEof {
                    log_flows.log.cut = true;
                } else {
                    let (name, rows) = (report.path.clone(), log_flows.log.rows);
                    result = Err(IdentifyError::Log { name, rows, source });
                }
                break;
            }
        }
        if !of.line(&String::from_utf8_lossy(&line), &mut log_flows) {
            log_flows.log.unreadable += 1;
        }
    }
    log_flows.finish(report);
    result.and_then(|()| of.check(&report.path))
}

/// Converts a 32-bit sequence number to a 64-bit position in the flow.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sequence {
    last: Option<u64>,
}

impl Sequence {
    /// The first position, far enough from 0 for older numbers.
    const ORIGIN: u64 = 1 << 32;

    /// The position of the number that is nearest to the last one.
    pub(crate) fn place(&mut self, number: u32) -> u64 {
        let place = match self.last {
            None => Sequence::ORIGIN | u64::from(number),
            Some(last) => last.wrapping_add_signed(i64::from(number.wrapping_sub(last as u32) as i32)),
        };
        self.last = Some(place);
        place
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    const CSV: &str = "t_mono,snd_nxt,snd_una,snd_cwnd,ssthresh,snd_wnd,srtt_us";
    const TRACE: &str = "<idle>-0 [000] ..s2. 75.901249: tcp_probe: family=AF_INET src=10.0.1.2:1 dest=10.0.2.2:2 mark=0x0 data_len=0 \
                         snd_nxt=0x2710 snd_una=0x3e8 snd_cwnd=10 ssthresh=2147483647 snd_wnd=65160 srtt=100 rcv_wnd=1 sock_cookie=1f";
    const STATE: &str = "<idle>-0 [000] ..s2. 75.903669: tcp_cong_state_set: family=AF_INET sport=1 dport=2 saddr=10.0.1.2 \
                         daddr=10.0.2.2 saddrv6=::ffff:10.0.1.2 daddrv6=::ffff:10.0.2.2 cong_state=3";
    const SS: &str = "ESTAB 0 0 [fe80::1]%eth0:1 [fe80::2]%eth0:2 users:((\"x\",pid=1,fd=3)) ts sack cubic wscale:7,7 rto:204 \
                      rtt:3.5/1 mss:1448 cwnd:10 ssthresh:7 bytes_acked:99 segs_in:5 retrans:0/3 lost:1 unacked:4";

    /// Processes lines, which must not panic.
    fn feed<L: LineReader>(mut of: L, text: &str) -> FileReport {
        let options = Options { min_segments: 1, ..Options::default() };
        let mut log_flows = LogFlows::new(&options);
        let mut unreadable = 0;
        for line in text.lines() {
            unreadable += u64::from(!of.line(line, &mut log_flows));
        }
        let mut report = FileReport::default();
        log_flows.finish(&mut report);
        report.log.as_mut().unwrap().unreadable += unreadable;
        report
    }

    fn feed_all(text: &str) {
        feed(probe_csv::Reader::default(), text);
        feed(probe_trace::Reader::default(), text);
        feed(ss::Reader::default(), text);
    }

    #[test]
    fn rows_of_each_kind_are_read() {
        let csv = format!(
            "{CSV}\n1.5,2000,1000,10,2147483647,65535,100\n1.6,x,1000,10,1,1,1\n1.7,4000,3000,11,7,65535,100\n"
        );
        let log = feed(probe_csv::Reader::default(), &csv).log.unwrap();
        assert_eq!((log.rows, log.unreadable), (1, 1));
        let trace = format!("# tracer: nop\n{TRACE}\n{STATE}\n{}\n", TRACE.replace("0x3e8", "0x7d0"));
        let report = feed(probe_trace::Reader::default(), &trace);
        assert_eq!(
            (report.log.clone().unwrap().rows, report.log.unwrap().unreadable, report.counted.flows),
            (1, 0, 1)
        );
        let ss = format!("1.25\n{SS}\n1.50\n{SS}\n ts cubic cwnd:3 rtt:1/1\n");
        let report = feed(ss::Reader::default(), &ss);
        let log = report.log.unwrap();
        // The last has no socket before it.
        assert_eq!((log.rows, log.unreadable, report.counted.flows), (2, 1, 1));
    }

    #[test]
    fn headers_are_distinguished_from_other_tables() {
        assert!(probe_csv::is_header(CSV));
        assert!(probe_csv::is_header("time, snd_una ,cwnd,snd_nxt"));
        assert!(!probe_csv::is_header("time,cwnd,rtt"));
        assert!(!probe_csv::is_header(""));
    }

    #[test]
    fn sequence_numbers_go_on_beyond_32_bits_and_back() {
        let mut sequence = Sequence::default();
        let start = sequence.place(u32::MAX - 9);
        assert_eq!(sequence.place(90), start + 100);
        assert_eq!(sequence.place(u32::MAX), start + 9);
    }

    /// Samples as they come, in any order and with any numbers.
    fn sample() -> impl Strategy<Value = Sample> {
        let numbers = (
            any::<i64>(),
            0..3000u32,
            any::<Option<u32>>(),
            any::<u32>(),
            any::<u64>(),
            any::<Option<u64>>(),
        );
        let more = (
            any::<Option<u32>>(),
            any::<u32>(),
            any::<Option<u64>>(),
            any::<u64>(),
            0..6u8,
            any::<[bool; 4]>(),
            any::<u32>(),
        );
        (numbers, more).prop_map(|(a, b)| Sample {
            at_ns: a.0,
            cwnd: a.1,
            ssthresh: a.2,
            srtt_us: a.3,
            min_rtt_us: b.1,
            acked_bytes: a.4,
            sacked_bytes: b.2,
            sent_bytes: a.5,
            flight: b.0,
            acks: b.1,
            retransmitted: b.2,
            window_bytes: b.3,
            state: yuzuri_trace::CaState::from_kernel(b.4),
            repairing: b.5[0],
            loss_signs: b.6,
            undone: b.5[1],
            application: b.5[2],
            ece: b.1,
            midway: b.5[3],
            mss_bytes: b.6,
        })
    }

    fn sane(window_trace: &WindowTrace) {
        assert!(
            window_trace
                .rounds
                .iter()
                .all(|round| round.end_ns >= round.start_ns && round.window.is_finite())
        );
        assert!(
            window_trace
                .reductions
                .iter()
                .all(|reduction| reduction.round as usize <= window_trace.rounds.len())
        );
        assert!(window_trace.reductions.is_sorted_by_key(|reduction| reduction.round));
    }

    /// A sender of pairs of 1448 bytes that fills one of `parts` parts of its window.
    fn size_seen(parts: u64) -> u32 {
        let mut rounds = Rounds::default();
        for pair in 0..400_u64 {
            let acked_bytes = pair * 2896;
            let sent = acked_bytes + 1448 * (80 / parts) + 1448 * (pair % 2);
            let sample = Sample {
                at_ns: pair as i64 * 1_000_000,
                acked_bytes,
                sent_bytes: Some(sent),
                cwnd: 80,
                ..Sample::default()
            };
            rounds.push(&sample);
        }
        rounds.finish().mss_bytes
    }

    #[test]
    fn a_paced_senders_segment_size_is_the_full_size() {
        assert_eq!(size_seen(1), 1448);
        assert_eq!(size_seen(2), 1448);
        assert_eq!(size_seen(4), 1448);
    }

    proptest! {
        #[test]
        fn arbitrary_text_is_parsed_or_refused(text in "(\\PC{0,60}\n){0,20}") {
            feed_all(&text);
        }

        /// Lines that are nearly right.
        #[test]
        fn damaged_lines_do_not_stop_a_reader(
            damages in prop::collection::vec((0..4usize, any::<prop::sample::Index>(), any::<Option<char>>()), 1..40),
        ) {
            let whole = [CSV, TRACE, STATE, SS];
            let mut text = format!("{CSV}\n1.5,2000,1000,10,7,65535,100\n12.5\n");
            for (line, place, with) in damages {
                let mut line: Vec<char> = whole[line].chars().collect();
                let place = place.index(line.len());
                match with {
                    Some(with) => line[place] = with,
                    None => line.truncate(place),
                }
                text.extend(line);
                text.push('\n');
            }
            feed_all(&text);
        }

        #[test]
        fn no_samples_make_an_impossible_window_trace(samples in prop::collection::vec(sample(), 0..200)) {
            let mut rounds = Rounds::default();
            for sample in &samples {
                rounds.push(sample);
            }
            sane(&rounds.finish());
        }

        /// Irregular steps, but of plausible size.
        #[test]
        fn each_window_trace_gets_a_verdict(
            steps in prop::collection::vec((0..3_000_000_000i64, 0..5000u32, 0..2_000_000u32, 0..3_000_000u64, 0..5u8), 0..300),
        ) {
            let mut rounds = Rounds::default();
            let mut sample = Sample { mss_bytes: 1448, acks: 1, ..Sample::default() };
            for (ns, cwnd, srtt_us, bytes, state) in steps {
                sample.at_ns += ns;
                sample.acked_bytes += bytes;
                sample.sent_bytes = Some(sample.acked_bytes + u64::from(cwnd) * 1448);
                (sample.cwnd, sample.srtt_us) = (cwnd, srtt_us);
                sample.state = yuzuri_trace::CaState::from_kernel(state);
                rounds.push(&sample);
            }
            let window_trace = rounds.finish();
            sane(&window_trace);
            let rounds = window_trace.rounds.len();
            let verdict = yuzuri_infer::identify(window_trace, None, None, None);
            prop_assert_eq!(verdict.predicted.len(), rounds);
        }
    }
}
