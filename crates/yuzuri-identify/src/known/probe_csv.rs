//! Rows of the tracepoint `tcp:tcp_probe` as CSV, one flow in a file: a header, then times in
//! seconds, sequence numbers and windows.

use super::time::seconds_ns;
use super::{LineReader, LogFlows, Sequence};
use yuzuri_infer::samples::Sample;
use yuzuri_trace::{Flow, Snapshot};

/// Names of a column; the first is the one documented.
type Names = &'static [&'static str];
const TIME: Names = &["t_mono", "time_s", "time", "t"];
const NXT: Names = &["snd_nxt"];
const UNA: Names = &["snd_una"];
const CWND: Names = &["snd_cwnd", "cwnd"];
const SSTHRESH: Names = &["ssthresh", "snd_ssthresh"];
const WINDOW: Names = &["snd_wnd"];
const SRTT: Names = &["srtt_us", "srtt"];

fn place(header: &str, names: Names) -> Option<usize> {
    let mut columns = header.split(',').map(|column| column.trim().trim_matches('"'));
    columns.position(|column| names.contains(&column))
}

/// Whether a line is the header of such a file.
pub(crate) fn is_header(line: &str) -> bool {
    [TIME, NXT, UNA, CWND].into_iter().all(|names| place(line, names).is_some())
}

#[derive(Debug, Clone, Copy)]
struct Columns {
    time: usize,
    nxt: usize,
    una: usize,
    cwnd: usize,
    ssthresh: Option<usize>,
    window: Option<usize>,
    srtt: Option<usize>,
}

/// A row of the tracepoint: the sender's state before an acknowledgement was processed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub at_ns: i64,
    pub nxt: u32,
    pub una: u32,
    pub cwnd: u32,
    pub ssthresh: Option<u32>,
    pub window_bytes: u64,
    pub srtt_us: u32,
}

/// Converts rows to samples: the effect of an acknowledgement shows in the row of the next one.
#[derive(Debug, Clone, Default)]
pub(super) struct Rows {
    former: Option<Row>,
    nxt: Sequence,
    una: Sequence,
}

impl Rows {
    /// The sample of the row before, whose outcome this row shows.
    pub(super) fn sample(&mut self, row: Row) -> Option<Sample> {
        let former = self.former.replace(row);
        let acked_bytes = self.una.place(row.una);
        self.nxt.last = self.nxt.last.or(Some(acked_bytes));
        let sent_bytes = self.nxt.place(row.nxt);
        let former = former?;
        let duplicate = former.una == row.una && former.nxt != former.una;
        Some(Sample {
            at_ns: former.at_ns,
            cwnd: row.cwnd,
            ssthresh: row.ssthresh,
            srtt_us: row.srtt_us,
            acked_bytes,
            sent_bytes: Some(sent_bytes),
            acks: 1,
            window_bytes: row.window_bytes,
            loss_signs: u32::from(duplicate),
            ..Sample::default()
        })
    }
}

/// `None` if it is infinite, as until the first reduction.
pub(super) fn finite(ssthresh: u32) -> Option<u32> {
    (ssthresh < Snapshot::SSTHRESH_INFINITE).then_some(ssthresh)
}

/// Reads the file.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    columns: Option<Columns>,
    rows: Rows,
}

impl LineReader for Reader {
    type Key = ();

    fn line(&mut self, line: &str, log_flows: &mut LogFlows<'_, ()>) -> bool {
        let line = line.trim();
        if line.is_empty() {
            return true;
        }
        let Some(columns) = self.columns else {
            let found = |names| place(line, names);
            let required = (found(TIME), found(NXT), found(UNA), found(CWND));
            let (Some(time), Some(nxt), Some(una), Some(cwnd)) = required else { return false };
            let (ssthresh, window, srtt) = (found(SSTHRESH), found(WINDOW), found(SRTT));
            self.columns = Some(Columns { time, nxt, una, cwnd, ssthresh, window, srtt });
            return true;
        };
        let Some(row) = row(line, &columns) else { return false };
        if let Some(sample) = self.rows.sample(row) {
            log_flows.sample((), Flow::default, &sample);
        }
        true
    }
}

fn row(line: &str, columns: &Columns) -> Option<Row> {
    let cell = |place: usize| line.split(',').nth(place).map(str::trim);
    let number = |place: usize| cell(place)?.parse::<u32>().ok();
    let optional = |place: Option<usize>| place.map_or(Some(0), number);
    Some(Row {
        at_ns: seconds_ns(cell(columns.time)?)?,
        nxt: number(columns.nxt)?,
        una: number(columns.una)?,
        cwnd: number(columns.cwnd)?,
        ssthresh: match columns.ssthresh {
            Some(place) => finite(number(place)?),
            None => None,
        },
        window_bytes: u64::from(optional(columns.window)?),
        srtt_us: optional(columns.srtt)?,
    })
}
