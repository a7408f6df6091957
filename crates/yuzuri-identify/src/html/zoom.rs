//! The data that the page's script redraws when the reader zooms: the rounds of a flow, what
//! limited its sender, and its segments. Without the script the page shows static pictures.

use super::limits::intervals;
use crate::report::FlowReport;
use crate::sequence::{MarkKind, Sequence};
use serde::Serialize;
use yuzuri_infer::window_trace::{Cause, Round};
use yuzuri_limits::Limit;

/// The script and its style (crates/yuzuri-web/ui/src/report.ts).
pub(super) const SCRIPT: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../yuzuri-web/ui/dist-report/report.js"));
pub(super) const STYLE: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../yuzuri-web/ui/dist-report/report.css"));

/// Bytes for the data of all flows of a page, and for the segments of one.
pub(super) const MAX_BYTES: usize = 220_000;
const MAX_MARK_BYTES: usize = 150_000;
/// Maximum number of rounds; more are merged.
const MAX_ROUNDS: usize = 2000;
/// The shortest time within which segments are merged if there are too many, as a fraction of the
/// flow's duration.
const FINEST: i64 = 1 << 17;

/// A round: start, length, segments acknowledged, window, the algorithm's window, and least, mean
/// and greatest RTT.
type RoundColumns = (i64, i64, u32, f32, Option<f32>, u32, u32, u32);

/// As `Data` of `reportdata.ts`; times in µs since the flow's beginning.
#[derive(Serialize)]
struct Data {
    end: i64,
    mss: u32,
    rounds: Vec<RoundColumns>,
    losses: Vec<(i64, f32, bool)>,
    bands: Vec<(i64, i64, bool)>,
    limits: Vec<(i64, i64, Limit)>,
    marks: Vec<i64>,
}

/// A number with one decimal place: more would not be visible.
fn short(value: f32) -> f32 {
    (value * 10.0).round() / 10.0
}

fn rounds(flow: &FlowReport, us: impl Fn(i64) -> i64) -> Vec<RoundColumns> {
    let all = &flow.verdict.window_trace.rounds;
    let group = all.len().div_ceil(MAX_ROUNDS).max(1);
    let columns = |(n, group_of): (usize, &[Round])| {
        let (first, last) = (group_of.first()?, group_of.last()?);
        let measured = || group_of.iter().filter(|round| round.rtt_mean_us > 0);
        let count = measured().count().max(1) as u64;
        let mean = measured().map(|round| u64::from(round.rtt_mean_us)).sum::<u64>() / count;
        let predicted = flow.verdict.predicted.get(n * group + group_of.len() - 1).copied();
        Some((
            us(first.start_ns),
            us(last.end_ns) - us(first.start_ns),
            group_of.iter().map(|round| round.acked).sum::<f32>().round() as u32,
            short(last.window),
            predicted.filter(|window| window.is_finite()).map(short),
            measured().map(|round| round.rtt_min_us).min().unwrap_or(0),
            u32::try_from(mean).unwrap_or(u32::MAX),
            measured().map(|round| round.rtt_max_us).max().unwrap_or(0),
        ))
    };
    all.chunks(group).enumerate().filter_map(columns).collect()
}

/// A mark in its output form: its kind, its time, and the first and last byte; for an
/// acknowledgement, its number and the right edge of the window, or -1.
type MarkColumns = (usize, i64, i64, i64);

/// Merges marks of one kind within `step_us`; of acknowledgements the last one counts.
fn joined(sequence: &Sequence, us: impl Fn(i64) -> i64, step_us: i64) -> Vec<MarkColumns> {
    let mut all: Vec<MarkColumns> = Vec::new();
    let mut last = [None::<usize>; 4];
    let place = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    for mark in &sequence.marks {
        let at = us(mark.time_ns) / step_us * step_us;
        let (kind, from, to) = match mark.what {
            MarkKind::Sent(from, to) => (0, place(from), place(to)),
            MarkKind::Again(from, to) => (1, place(from), place(to)),
            MarkKind::Selective(from, to) => (2, place(from), place(to)),
            MarkKind::Acknowledged(ack, end) => (3, place(ack), end.map_or(-1, place)),
        };
        let before = last[kind].and_then(|n| all.get_mut(n)).filter(|(_, when, ..)| *when == at);
        match before {
            Some(before) if kind == 3 => *before = (kind, at, from, to),
            Some((_, _, low, high)) if from <= *high && to >= *low => {
                (*low, *high) = ((*low).min(from), (*high).max(to));
            }
            _ => {
                last[kind] = Some(all.len());
                all.push((kind, at, from, to));
            }
        }
    }
    all
}

/// Each mark in four numbers: its kind, the time since the mark before, its distance from the last
/// of its kind, and its length.
fn flat(marks: &[MarkColumns]) -> Vec<i64> {
    let (mut time, mut last) = (0, [0; 4]);
    let mut numbers = Vec::with_capacity(marks.len() * 4);
    for &(kind, at, from, to) in marks {
        let length = if kind == 3 && to < 0 { -1 } else { to - from };
        numbers.extend([kind as i64, at - time, from - last[kind], length]);
        time = at;
        last[kind] = if kind == 3 { from } else { to };
    }
    numbers
}

/// Chooses the finest resolution that fits.
fn marks(sequence: &Sequence, us: impl Fn(i64) -> i64 + Copy, end: i64, room: usize) -> Vec<i64> {
    let mut step_us = 1;
    loop {
        let numbers = flat(&joined(sequence, us, step_us));
        let bytes: usize = numbers.iter().map(|n| n.unsigned_abs().max(1).ilog10() as usize + 2).sum();
        if bytes <= room {
            return numbers;
        }
        if step_us > end {
            return Vec::new();
        }
        step_us = (step_us * 2).max(end / FINEST);
    }
}

/// The data of a flow, in at most this many bytes; `None` if these do not suffice.
pub(super) fn data(flow: &FlowReport, room: usize) -> Option<String> {
    let trace = &flow.verdict.window_trace;
    let (first, last) = (trace.rounds.first()?, trace.rounds.last()?);
    let segments = flow.sequence.as_deref().filter(|sequence| !sequence.marks.is_empty());
    let (mut zero_ns, mut end_ns) = (first.start_ns, last.end_ns);
    if let Some([first, .., last]) = segments.map(|sequence| sequence.marks.as_slice()) {
        (zero_ns, end_ns) = (zero_ns.min(first.time_ns), end_ns.max(last.time_ns));
    }
    let us = |ns: i64| ns.saturating_sub(zero_ns) / 1000;
    let end = us(end_ns).max(1000);
    let mut data = Data {
        end,
        mss: trace.mss_bytes,
        rounds: rounds(flow, us),
        losses: trace
            .reductions
            .iter()
            .map(|reduction| {
                (us(reduction.at_ns), short(reduction.before), reduction.cause == Cause::Timeout)
            })
            .collect(),
        bands: Vec::new(),
        limits: intervals(&trace.rounds)
            .into_iter()
            .map(|(from, to, limit)| (us(from), us(to), limit))
            .collect(),
        marks: Vec::new(),
    };
    for round in trace.rounds.iter().filter(|round| round.limits.any()) {
        let (from, to, repair) = (us(round.start_ns), us(round.end_ns), round.limits.recovery);
        match data.bands.last_mut() {
            Some((_, end, of)) if *of == repair && from - *end <= 1 => *end = to,
            _ => data.bands.push((from, to, repair)),
        }
    }
    let without = serde_json::to_string(&data).ok()?;
    let left = room.checked_sub(without.len())?;
    if let Some(sequence) = segments {
        data.marks = marks(sequence, us, end, left.min(MAX_MARK_BYTES));
        // A picture without segments would show less than the static one.
        if data.marks.is_empty() {
            return None;
        }
    }
    serde_json::to_string(&data).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::sequence::Mark;
    use proptest::prelude::*;

    fn sequence(marks: impl IntoIterator<Item = (i64, MarkKind)>) -> Sequence {
        let marks = marks.into_iter().map(|(us, what)| Mark { time_ns: us * 1000, what });
        Sequence { marks: marks.collect(), is_cut: false }
    }

    const US: fn(i64) -> i64 = |ns| ns / 1000;

    #[test]
    fn marks_closer_than_a_step_are_merged() {
        let of = sequence([
            (1, MarkKind::Sent(0, 10)),
            (2, MarkKind::Sent(10, 20)),
            (2, MarkKind::Acknowledged(5, Some(90))),
            (3, MarkKind::Sent(30, 40)),
            (4, MarkKind::Acknowledged(10, None)),
            (12, MarkKind::Sent(40, 50)),
        ]);
        assert_eq!(joined(&of, US, 10), [(0, 0, 0, 20), (3, 0, 10, -1), (0, 0, 30, 40), (0, 10, 40, 50)]);
        assert_eq!(joined(&of, US, 1).len(), 6, "at the finest step each is its own");
    }

    #[test]
    fn stored_marks_are_bounded() {
        let many = (0..50_000).map(|n| (n * 7, MarkKind::Sent(n as u64 * 1448, (n as u64 + 1) * 1448)));
        let of = sequence(many);
        let numbers = marks(&of, US, 350_000, 20_000);
        let text = serde_json::to_string(&numbers).unwrap();
        assert!((5_000..20_002).contains(&text.len()), "{}", text.len());
        let sent: i64 = numbers.chunks(4).map(|mark| mark[3]).sum();
        assert_eq!(sent, 50_000 * 1448, "nothing is left out");
    }

    proptest! {
        /// Decodes the marks like `Marks` of `reportdata.ts`.
        #[test]
        fn delta_encoded_marks_decode_to_the_same_marks(
            of in prop::collection::vec((0..4usize, 0..1000i64, 0..9000i64, 0..3000i64), 0..60),
        ) {
            let mut time = 0;
            let columns: Vec<MarkColumns> = of.into_iter().map(|(kind, later, from, length)| {
                time += later;
                (kind, time, from, if kind == 3 && length % 3 == 0 { -1 } else { from + length })
            }).collect();
            let (mut time, mut last, mut read) = (0, [0; 4], Vec::new());
            for mark in flat(&columns).chunks(4) {
                let kind = mark[0] as usize;
                time += mark[1];
                let from = last[kind] + mark[2];
                let to = if kind == 3 && mark[3] < 0 { -1 } else { from + mark[3] };
                last[kind] = if kind == 3 { from } else { to };
                read.push((kind, time, from, to));
            }
            prop_assert_eq!(read, columns);
        }
    }
}
