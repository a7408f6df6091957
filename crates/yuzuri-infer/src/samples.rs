//! Builds a window trace from samples of a sender's variables.
//!
//! A round ends when a byte is acknowledged that was sent after its start, or if no sequence
//! numbers are known, after a smoothed round-trip time. Reductions are taken from the congestion
//! state if it is known, otherwise from signs of loss with a falling window.

use crate::window_trace::{CapturePoint, Cause, LeastWindow, Reduction, Round, RttTally, WindowTrace};
use std::collections::HashMap;
use yuzuri_cca::CaState;
use yuzuri_stats::upper_median_by;

/// If the congestion state is unknown: the number of consecutive duplicate acknowledgements, or
/// retransmissions, from which on a falling window is a reduction.
const SIGNS: u32 = 2;
/// The smallest retransmission timeout (`TCP_RTO_MIN`: 200 ms), less the uncertainty of clocks.
const MIN_SILENCE_NS: i64 = 180_000_000;
/// The longest round: more is a clock that jumped.
const MAX_ROUND_NS: i64 = 3_600_000_000_000;
/// The fraction of the window in flight below which something else limited.
const FULL: f32 = 0.9;
/// The largest segment, bytes.
const MAX_SIZE: u32 = 65_535;
/// A pacing sender fills at least one part in this many of its window.
const MAX_PARTS: u32 = 8;
/// The segment size if nothing shows it: Ethernet's with timestamps.
const USUAL_MSS: u32 = 1448;

/// A sender's variables at one moment, and the events since the last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sample {
    /// Nanoseconds of the log's clock.
    pub at_ns: i64,
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Slow start threshold, segments; `None`: infinite or unknown.
    pub ssthresh: Option<u32>,
    /// Smoothed round-trip time, µs; 0: none yet.
    pub srtt_us: u32,
    /// The kernel's minimum round-trip time, µs; 0: unknown.
    pub min_rtt_us: u32,
    /// Bytes acknowledged, since some origin.
    pub acked_bytes: u64,
    /// Bytes selectively acknowledged and outstanding; `None`: unknown, derived from duplicate
    /// acknowledgements.
    pub sacked_bytes: Option<u64>,
    /// Bytes sent, since the same origin; `None`: unknown.
    pub sent_bytes: Option<u64>,
    /// Segments in flight, if the kernel reports them.
    pub flight: Option<u32>,
    /// Acknowledgements since the last sample, including this one.
    pub acks: u32,
    /// Segments retransmitted, since some origin; `None`: unknown.
    pub retransmitted: Option<u64>,
    /// The receiver's window, bytes; 0: unknown.
    pub window_bytes: u64,
    /// Congestion state; `None`: unknown.
    pub state: Option<CaState>,
    /// Whether the sender is in loss recovery, if sequence numbers and state are unknown.
    pub repairing: bool,
    /// Signs of loss since the last sample: duplicate acknowledgements, retransmissions.
    pub loss_signs: u32,
    /// The kernel undid a reduction.
    pub undone: bool,
    /// The delivery-rate sample was limited by the application.
    pub application: bool,
    /// Acknowledgements with ECN-Echo since the last sample.
    pub ece: u32,
    /// Taken during an acknowledgement's processing: its window may be set later.
    pub midway: bool,
    /// Bytes of a full segment; 0: unknown.
    pub mss_bytes: u32,
}

impl Sample {
    /// Limits all values to a plausible range: untrusted files may hold any numbers, and sums must
    /// not overflow.
    fn bounded(&self) -> Sample {
        const MAX: u64 = 1 << 60;
        // Until the year 2116.
        const MAX_NS: i64 = 1 << 62;
        Sample {
            at_ns: self.at_ns.clamp(0, MAX_NS),
            acked_bytes: self.acked_bytes.min(MAX),
            sacked_bytes: self.sacked_bytes.map(|bytes| bytes.min(MAX)),
            sent_bytes: self.sent_bytes.map(|bytes| bytes.min(MAX)),
            retransmitted: self.retransmitted.map(|segments| segments.min(MAX)),
            window_bytes: self.window_bytes.min(MAX),
            // The IP limit.
            mss_bytes: self.mss_bytes.min(65_535),
            ..*self
        }
    }

    /// Whether the sender is in loss recovery.
    pub(crate) fn is_in_recovery(&self) -> bool {
        self.repairing || matches!(self.state, Some(CaState::Recovery | CaState::Loss))
    }
}

/// The current round.
#[derive(Debug, Clone, Copy, Default)]
struct Open {
    round: Round,
    acked_bytes: u64,
    flight: Flight,
    rtts: RttTally,
    samples: u32,
    application: u32,
    until: Option<u64>,
    receiver_full: bool,
    /// The smallest window.
    least_window: Option<LeastWindow>,
}

/// The largest flight: bytes of sequence numbers, or the kernel's own segments.
#[derive(Debug, Clone, Copy, Default)]
struct Flight {
    bytes: u64,
    segments: u32,
}

#[derive(Debug, Clone, Copy)]
struct Repair {
    reduction: Reduction,
    until: Option<u64>,
}

/// Groups samples of one flow into rounds.
#[derive(Debug, Clone, Default)]
pub struct Rounds {
    last: Option<Sample>,
    /// Consecutive duplicate acknowledgements.
    duplicates: u32,
    open: Open,
    repair: Option<Repair>,
    window_trace: WindowTrace,
    /// By round: bytes acknowledged and the largest flight, until the segment size is known.
    raw: Vec<(u64, Flight)>,
    /// How often a flight was a whole number of windows of this size, bytes.
    sizes: HashMap<u64, u32>,
    /// The most frequent of them.
    best_size: Option<(u32, u32)>,
    /// The increments, in bytes, of sent or acknowledged data from sample to sample, and their
    /// counts.
    steps: HashMap<u64, u32>,
    /// Bytes assumed to be selectively acknowledged and outstanding.
    sacked_bytes: u64,
    first_acked: u64,
    sent_bytes: u64,
    /// The window after the last reduction is that of the next sample.
    unsettled: bool,
    /// ssthresh before the last loss recovery; `None` before the first, or if it was infinite.
    ssthresh_before_recovery: Option<u32>,
}

impl Rounds {
    /// The number of completed rounds.
    pub fn count(&self) -> usize {
        self.window_trace.rounds.len()
    }

    /// Adds a sample; samples are in order of time.
    pub fn push(&mut self, sample: &Sample) {
        let sample = &sample.bounded();
        let Some(last) = self.last.replace(*sample) else {
            self.first(sample);
            return;
        };
        // A clock that went back, or a log merged from several: no time has passed.
        let now = sample.at_ns.max(last.at_ns);
        self.last = Some(Sample { at_ns: now, ..*sample });
        self.guess_size(sample);
        self.count_steps(&last, sample);
        let acked = sample.acked_bytes.saturating_sub(last.acked_bytes);
        let delivered = self.delivered(acked, &last, sample);
        let open = &mut self.open;
        if delivered > 0 {
            open.acked_bytes = open.acked_bytes.saturating_add(delivered);
            open.round.acks = open.round.acks.saturating_add(sample.acks.max(1));
        }
        if acked > 0 {
            self.duplicates = 0;
        }
        self.duplicates = self.duplicates.saturating_add(sample.loss_signs);
        open.round.ece = open.round.ece.saturating_add(sample.ece);
        if let (Some(before), Some(after)) = (last.retransmitted, sample.retransmitted) {
            let again = u32::try_from(after.saturating_sub(before)).unwrap_or(u32::MAX);
            open.round.retransmitted = open.round.retransmitted.saturating_add(again);
            self.window_trace.retransmitted += u64::from(again);
        }
        if std::mem::take(&mut self.unsettled)
            && let Some(reduction) = self.window_trace.reductions.last_mut()
        {
            reduction.after = sample.cwnd as f32;
        }
        if sample.is_in_recovery() && !last.is_in_recovery() {
            self.ssthresh_before_recovery = last.ssthresh;
        }
        self.window_trace.ssthresh_changes.observe(&last, sample);
        self.timed(&last, sample, delivered > 0);
        self.reductions(&last, sample);
        self.ends(&last, sample);
        self.emptied(acked, &last, sample);
        self.fold(sample);
    }

    /// A single acknowledgement of all that was in flight: the sender had nothing outstanding when
    /// it resumed, and its algorithm is notified (`CA_EVENT_TX_START`; Vegas forgets its
    /// round-trip times).
    fn emptied(&mut self, acked: u64, last: &Sample, sample: &Sample) {
        let size = u64::from(self.size());
        let Some(flight) = last.flight.filter(|flight| *flight > 0 && sample.sent_bytes.is_none()) else {
            return;
        };
        if sample.acks == 1 && acked >= u64::from(flight) * size && self.repair.is_none() && !sample.repairing
        {
            if self.open.acked_bytes > 0 {
                self.close(sample.at_ns.max(last.at_ns), last);
            }
            self.open.round.idle_us = sample.srtt_us;
        }
    }

    /// Bytes that arrived since the last sample: some of the acknowledged data had been selectively
    /// acknowledged before (RFC 6675; without options each duplicate acknowledgement stands for a
    /// segment, as in `tcp_add_reno_sack`).
    fn delivered(&mut self, acked: u64, last: &Sample, sample: &Sample) -> u64 {
        if let (Some(before), Some(after)) = (last.sacked_bytes, sample.sacked_bytes) {
            return (acked + after).saturating_sub(before);
        }
        let size = u64::from(self.size());
        if acked == 0 {
            let arrived = u64::from(sample.loss_signs) * size;
            self.sacked_bytes = self.sacked_bytes.saturating_add(arrived);
            return arrived;
        }
        let former = self.sacked_bytes.min(acked.saturating_sub(size));
        let whole = sample.sent_bytes.is_none_or(|sent| sent <= sample.acked_bytes);
        self.sacked_bytes = if whole { 0 } else { self.sacked_bytes - former };
        acked - former
    }

    /// The segment size, as far as it is known.
    fn size(&self) -> u32 {
        match (self.window_trace.mss_bytes, self.best_size) {
            (0, Some((size, _))) => self.whole(size),
            (0, None) => USUAL_MSS,
            (known, _) => known,
        }
    }

    /// A pacing sender fills a part of its window, so the quotient is a part of a segment: nothing
    /// is ever sent or acknowledged in such units. The smallest multiple that does occur is a
    /// segment.
    fn whole(&self, size: u32) -> u32 {
        let multiples = (1..=MAX_PARTS).map(|parts| size * parts);
        let seen = |size: &u32| self.steps.get(&u64::from(*size)).is_some_and(|count| *count > 1);
        multiples.take_while(|size| *size <= MAX_SIZE).find(seen).unwrap_or(size)
    }

    fn first(&mut self, sample: &Sample) {
        self.first_acked = sample.acked_bytes;
        self.open.round.start_ns = sample.at_ns;
        self.open.until = sample.sent_bytes.map(|sent| sent + 1);
        self.guess_size(sample);
        self.fold(sample);
        let size = u64::from(self.size());
        // The minimum RTT of data so far is at most the smoothed RTT. Less than a segment
        // acknowledged is an opening message before the data.
        if sample.srtt_us > 0 && sample.sent_bytes.is_none() && sample.acked_bytes > size {
            self.open.rtts.add(sample.srtt_us, &mut self.open.round, &mut self.window_trace.min_rtt_us);
        }
    }

    /// Derives the round-trip time measured by an acknowledgement, or the mean of several, from the
    /// change of srtt (RFC 6298, section 2.3: alpha is 1/8). In a polled log, srtt may still
    /// contain the flow's first measurements, from before a queue built up.
    fn timed(&mut self, last: &Sample, sample: &Sample, acked: bool) {
        if sample.srtt_us == 0 || !acked {
            return;
        }
        let (before, after) = (i64::from(last.srtt_us), i64::from(sample.srtt_us));
        let measured = if before == 0 { after } else { mean_measured(before, after, sample.acks) };
        // The smoothed value is truncated to whole µs, an error of up to 8; implausible results
        // come from several measurements.
        let sane = (after / 16..=after * 16).contains(&measured) && measured > 0;
        let rtt_us = if sane { measured } else { after };
        let rtt_us = u32::try_from(rtt_us).unwrap_or(u32::MAX).max(sample.min_rtt_us);
        self.open.rtts.add(rtt_us, &mut self.open.round, &mut self.window_trace.min_rtt_us);
    }

    /// Begins and updates reductions.
    fn reductions(&mut self, last: &Sample, sample: &Sample) {
        let silence_ns = MIN_SILENCE_NS.max(i64::from(sample.srtt_us) * 900);
        let cause = match sample.state {
            Some(CaState::Open | CaState::Disorder) => None,
            Some(CaState::Recovery) => Some(Cause::Recovery),
            Some(CaState::Loss) => Some(Cause::Timeout),
            Some(CaState::Cwr) => Some(Cause::Ecn),
            None => {
                let silent = sample.at_ns - last.at_ns >= silence_ns || sample.sent_bytes.is_none();
                let falls = sample.cwnd < last.cwnd
                    || sample.ssthresh.is_some_and(|now| last.ssthresh.is_none_or(|before| now < before));
                if sample.cwnd <= 2 && last.cwnd >= 4 && silent {
                    Some(Cause::Timeout)
                } else {
                    (falls && (self.duplicates >= SIGNS || sample.repairing)).then_some(Cause::Recovery)
                }
            }
        };
        let Some(cause) = cause else { return };
        match &mut self.repair {
            Some(repair) if cause == Cause::Timeout && repair.reduction.cause != Cause::Timeout => {
                repair.reduction.cause = Cause::Timeout;
                repair.until = sample.sent_bytes;
            }
            Some(_) => {}
            None => {
                // In recovery the window follows the flight (RFC 6937), which is larger than the
                // window was if that had just fallen without a loss.
                let drains = last.flight.is_some_and(|flight| flight > last.cwnd);
                let before = if drains { last.cwnd } else { last.cwnd.max(sample.cwnd) } as f32;
                // In slow start a window doubles in a round trip, and may leave it far below
                // (Vegas): between two polls it is unknown.
                let starts = last.ssthresh.is_none_or(|threshold| last.cwnd < threshold);
                let before = if starts && sample.sent_bytes.is_none() { 0.0 } else { before };
                let at_ns = sample.at_ns.max(last.at_ns);
                let reduction = Reduction::begun(at_ns, cause, before);
                self.repair = Some(Repair { reduction, until: sample.sent_bytes });
            }
        }
    }

    /// Ends the reduction or the round when it is complete.
    fn ends(&mut self, last: &Sample, sample: &Sample) {
        let now = sample.at_ns.max(last.at_ns);
        if let Some(repair) = &mut self.repair {
            repair.reduction.undone |= sample.undone;
            let over = match (sample.state, repair.until) {
                (Some(state), _) => matches!(state, CaState::Open | CaState::Disorder),
                (None, Some(until)) => sample.acked_bytes >= until,
                (None, None) => {
                    !sample.repairing && now - repair.reduction.at_ns >= i64::from(sample.srtt_us) * 1000
                }
            };
            if over {
                let mut reduction = Reduction { over_ns: now, after: sample.cwnd as f32, ..repair.reduction };
                // The window came back: undone, or of an algorithm that does not respond to losses.
                let came_back = reduction.before > 0.0 && reduction.after >= 0.95 * reduction.before;
                reduction.undone |= sample.state.is_none() && came_back;
                self.repair = None;
                self.duplicates = 0;
                self.open.round.limits.recovery = true;
                self.close(now, last);
                reduction.round = self.window_trace.rounds.len() as u32;
                self.window_trace.reductions.push(reduction);
                self.unsettled = sample.midway;
                return;
            }
        }
        let over = match self.open.until {
            Some(until) => sample.acked_bytes >= until,
            None => sample.srtt_us > 0 && now - self.open.round.start_ns >= i64::from(sample.srtt_us) * 1000,
        };
        if over {
            self.close(now, last);
        }
    }

    fn close(&mut self, now: i64, last: &Sample) {
        let open = std::mem::take(&mut self.open);
        let mut round = open.round;
        round.end_ns = now.min(round.start_ns + MAX_ROUND_NS);
        round.rtt_mean_us = open.rtts.mean_us();
        round.limits.recovery |= self.repair.is_some();
        round.limits.receiver |= open.receiver_full;
        round.limits.application |= open.application * 2 > open.samples;
        if open.acked_bytes > 0 || round.retransmitted > 0 {
            if self.window_trace.keep(round) {
                self.raw.push((open.acked_bytes, open.flight));
                self.window_trace.least_windows.push(open.least_window.unwrap_or_default());
            }
        } else {
            // What was measured before the first row belongs to the first round with an
            // acknowledgement.
            self.open = Open { rtts: open.rtts, round: round.with_rtts_only(), ..Open::default() };
        }
        self.open.round.start_ns = now;
        self.open.until = last.sent_bytes.map(|sent| sent + 1);
    }

    /// Adds the sample to the round.
    fn fold(&mut self, sample: &Sample) {
        let open = &mut self.open;
        open.samples += 1;
        open.application += u32::from(sample.application);
        open.round.window = open.round.window.max(sample.cwnd as f32);
        let keeps_ssthresh = sample.ssthresh.is_some() && sample.ssthresh == self.ssthresh_before_recovery;
        let least = open.least_window.get_or_insert(LeastWindow { segments: u32::MAX, keeps_ssthresh });
        if sample.cwnd < least.segments {
            *least = LeastWindow { segments: sample.cwnd, keeps_ssthresh };
        } else if sample.cwnd == least.segments {
            least.keeps_ssthresh |= keeps_ssthresh;
        }
        if self.window_trace.mss_bytes < sample.mss_bytes {
            self.window_trace.mss_bytes = sample.mss_bytes;
        }
        if let Some(sent) = sample.sent_bytes {
            let flight = sent.saturating_sub(sample.acked_bytes);
            self.sent_bytes = self.sent_bytes.max(sent);
            if self.duplicates == 0 && flight > open.flight.bytes {
                open.flight.bytes = flight;
                let room = sample.window_bytes.saturating_sub(flight);
                open.receiver_full =
                    sample.window_bytes > 0 && room < u64::from(sample.mss_bytes.max(USUAL_MSS));
            }
        }
        open.flight.segments = open.flight.segments.max(sample.flight.unwrap_or(0));
    }

    /// A full window is a whole number of segments: the most frequent quotient is their size.
    fn guess_size(&mut self, sample: &Sample) {
        let Some(sent) = sample.sent_bytes.filter(|_| sample.mss_bytes == 0 && sample.cwnd > 0) else {
            return;
        };
        let flight = sent.saturating_sub(sample.acked_bytes);
        let size = flight / u64::from(sample.cwnd);
        if flight.is_multiple_of(u64::from(sample.cwnd))
            && (200..=u64::from(MAX_SIZE)).contains(&size)
            && self.sizes.len() < 4096
        {
            let count = self.sizes.entry(size).or_default();
            *count += 1;
            if self.best_size.is_none_or(|(_, most)| *count > most) {
                self.best_size = Some((size as u32, *count));
            }
        }
    }

    fn count_steps(&mut self, last: &Sample, sample: &Sample) {
        if sample.mss_bytes > 0 {
            return;
        }
        let sent = sample.sent_bytes.zip(last.sent_bytes).map(|(now, before)| now.saturating_sub(before));
        let acked = sample.acked_bytes.saturating_sub(last.acked_bytes);
        for step in [sent.unwrap_or(0), acked] {
            if step > 0 && (self.steps.len() < 4096 || self.steps.contains_key(&step)) {
                *self.steps.entry(step).or_default() += 1;
            }
        }
    }

    /// The window trace, at the end of the samples.
    pub fn finish(mut self) -> WindowTrace {
        let size = self.size();
        let window_trace = &mut self.window_trace;
        window_trace.capture_point = CapturePoint::Kernel;
        window_trace.polled = self.last.is_some_and(|last| last.sent_bytes.is_none());
        window_trace.mss_bytes = size;
        let mss = window_trace.mss_bytes as f32;
        let last = self.last.unwrap_or_default();
        window_trace.acked_bytes = last.acked_bytes.saturating_sub(self.first_acked);
        let sent = self.sent_bytes.saturating_sub(self.first_acked).max(window_trace.acked_bytes);
        window_trace.segments = sent.div_ceil(u64::from(window_trace.mss_bytes)) + window_trace.retransmitted;
        let mut fullness: Vec<f32> = Vec::new();
        for (round, (acked_bytes, flight)) in window_trace.rounds.iter_mut().zip(&self.raw) {
            round.acked = *acked_bytes as f32 / mss;
            round.acks = round.acks.min(round.acked.ceil() as u32);
            round.sent = round.acked.round() as u32;
            let flight = flight.segments(mss);
            if !round.limits.any() && flight > 0.0 {
                fullness.push(flight / round.window.max(1.0));
            }
        }
        // An algorithm that paces always keeps its window above its flight; its flight is taken as
        // its window.
        let fullness = upper_median_by(&mut fullness, f32::total_cmp);
        let paced = fullness.is_some_and(|median| median < FULL);
        window_trace.filled = fullness.is_some_and(|median| median >= FULL);
        for (round, (_, flight)) in window_trace.rounds.iter_mut().zip(&self.raw) {
            let flight = flight.segments(mss);
            if flight <= 0.0 || round.limits.recovery {
                continue;
            }
            if paced {
                round.window = round.window.min(flight);
            } else if flight < FULL * round.window - 2.0 && !round.limits.receiver {
                round.limits.application = true;
            }
        }
        if paced {
            for reduction in &mut window_trace.reductions {
                let after = reduction.round as usize;
                let quiet = |round: &&Round| !round.limits.recovery;
                let before =
                    window_trace.rounds[..after.min(window_trace.rounds.len())].iter().rev().find(quiet);
                reduction.before = before.map_or(reduction.before, |round| round.window);
                reduction.after =
                    window_trace.rounds.get(after).map_or(reduction.after, |round| round.window);
            }
        }
        self.window_trace
    }
}

/// The mean of the measurements that moved the smoothed round-trip time from one value to another,
/// µs: each leaves seven eighths of the previous value.
fn mean_measured(before: i64, after: i64, acks: u32) -> i64 {
    let left = 0.875_f64.powi(i32::try_from(acks.max(1)).unwrap_or(i32::MAX));
    ((after as f64 - left * before as f64) / (1.0 - left)).round() as i64
}

impl Flight {
    fn segments(self, mss: f32) -> f32 {
        if self.bytes > 0 { self.bytes as f32 / mss } else { self.segments as f32 }
    }
}

#[cfg(test)]
mod tests {
    use super::{Rounds, Sample, mean_measured};

    /// Vegas at the end of slow start, as in `ss`: the window falls to the path's capacity, and
    /// before the flight has followed, a loss is noticed.
    #[test]
    fn the_window_before_a_loss_is_not_what_a_recovery_makes_of_the_flight() {
        let sample = |n: u64, cwnd: u32, flight: u32, retransmitted: u64| Sample {
            at_ns: n as i64 * 80_000_000,
            cwnd,
            ssthresh: Some(if retransmitted > 0 { 7 } else { 14 }),
            srtt_us: 80_000,
            acked_bytes: n * 1448,
            flight: Some(flight),
            acks: 1,
            retransmitted: Some(retransmitted),
            repairing: retransmitted > 0 && n < 8,
            loss_signs: u32::from(retransmitted > 0),
            mss_bytes: 1448,
            ..Sample::default()
        };
        let mut rounds = Rounds::default();
        let samples = [
            (0, 42, 42, 0),
            (1, 42, 42, 0),
            (2, 14, 41, 0),
            (3, 35, 35, 2),
            (4, 26, 26, 5),
            (8, 7, 7, 5),
            (9, 7, 7, 5),
        ];
        for (n, cwnd, flight, retransmitted) in samples {
            rounds.push(&sample(n, cwnd, flight, retransmitted));
        }
        let window_trace = rounds.finish();
        let [reduction] = &window_trace.reductions[..] else { panic!("{:?}", window_trace.reductions) };
        assert_eq!((reduction.before, reduction.after), (14.0, 7.0));
    }

    #[test]
    fn the_rtt_measured_by_acks_is_recovered() {
        for (before, measured, acks) in [(100_000, 180_000, 1), (700, 205_000, 4), (205_000, 250_000, 40)] {
            let mut smoothed = f64::from(before);
            (0..acks).for_each(|_| smoothed += (f64::from(measured) - smoothed) / 8.0);
            let found = mean_measured(i64::from(before), smoothed.round() as i64, acks as u32);
            assert!(
                (found - i64::from(measured)).abs() <= 8,
                "{found} of {measured}, {acks} acknowledgements"
            );
        }
        assert_eq!(mean_measured(100, 110, 0), 180, "a row without a count is of one");
    }
}
