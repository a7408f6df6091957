//! Converts a flow's buckets to chart columns.

use yuzuri_limits::Limit;
use yuzuri_trace::{CaState, Kind, Marks};
use yuzuri_view::{Bucket, DominantLimit};

/// Minimum, maximum and last value within a dot column, so that extremes narrower than a dot remain
/// visible.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Range {
    pub(crate) min: u32,
    pub(crate) max: u32,
    pub(crate) last: u32,
}

impl Range {
    fn join(a: Option<Range>, b: Range) -> Range {
        a.map_or(b, |a| Range { min: a.min.min(b.min), max: a.max.max(b.max), last: b.last })
    }

    pub(crate) fn held(value: u32) -> Range {
        Range { min: value, max: value, last: value }
    }
}

/// Minimum averaging time of the throughput: over only a few RTTs it would show ACK bursts.
pub(crate) const RATE_OVER_NS: u64 = 500_000_000;

/// A time range of a flow in chart columns, each two dots wide.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    pub(crate) from_ns: u64,
    /// Width of a column; a dot column is half of it.
    pub(crate) column_ns: u64,
    /// Per dot column; the previous value is held where there is no event.
    pub(crate) cwnd: Vec<Option<Range>>,
    /// Per dot column, if set.
    pub(crate) ssthresh: Vec<Option<u32>>,
    /// Per dot column, microseconds; `None` if unmeasured.
    pub(crate) srtt_us: Vec<Option<Range>>,
    /// Per column: acknowledged plus received bits per second, averaged over the column or
    /// [`RATE_OVER_NS`] before its end.
    pub(crate) rate_bps: Vec<Option<f64>>,
    /// Per column: the most severe state.
    pub(crate) state: Vec<Option<CaState>>,
    /// Per column: what limited the flow for most of it; `None` if that is unknown.
    pub(crate) limit: Vec<Option<Limit>>,
    /// Per column: the most severe event, as a letter (see [`MARKS`]).
    pub(crate) mark: Vec<Option<char>>,
    /// Per column: the values for the cursor.
    pub(crate) bucket: Vec<Option<Bucket>>,
}

/// Letters of the marks row and their meaning, most severe first.
pub(crate) const MARKS: [(char, &str); 9] = [
    ('T', "retransmission timeout"),
    ('r', "retransmission"),
    ('u', "undone reduction"),
    ('e', "ECN echo"),
    ('o', "reordering"),
    ('d', "DSACK"),
    ('c', "congestion control changed"),
    ('^', "opened"),
    ('x', "closed"),
];

fn mark(bucket: &Bucket) -> Option<char> {
    let kind = |kind: Kind| bucket.kinds & (1 << kind as u16) != 0;
    let occurred = [
        kind(Kind::Timeout),
        kind(Kind::Retransmit),
        kind(Kind::Undo),
        bucket.marks.contains(Marks::ECE),
        kind(Kind::Reordering),
        bucket.marks.contains(Marks::DSACK),
        kind(Kind::Control),
        kind(Kind::Open),
        kind(Kind::Close),
    ];
    occurred.iter().position(|h| *h).map(|n| MARKS[n].0)
}

fn worst_state(states: u8) -> Option<CaState> {
    CaState::ALL.into_iter().rev().find(|state| states & (1 << *state as u8) != 0)
}

impl Series {
    /// Arranges buckets (oldest first, starting before `from_ns` if available) into `columns` of
    /// `column_ns`. Columns after `end_ns` (now, or when the flow closed) are empty.
    pub(crate) fn new(
        buckets: &[Bucket],
        from_ns: u64,
        column_ns: u64,
        columns: usize,
        end_ns: u64,
    ) -> Series {
        let dots = columns * 2;
        let dot_ns = (column_ns / 2).max(1);
        let mut series = Series {
            from_ns,
            column_ns,
            cwnd: vec![None; dots],
            ssthresh: vec![None; dots],
            srtt_us: vec![None; dots],
            rate_bps: vec![None; columns],
            state: vec![None; columns],
            limit: vec![None; columns],
            mark: vec![None; columns],
            bucket: vec![None; columns],
        };
        let mut states = vec![0u8; columns];
        for bucket in buckets {
            // Placed by its last event: the bucket's last values apply to that time.
            let Some(since) = bucket.last_ns.checked_sub(from_ns) else { continue };
            let dot = (since / dot_ns) as usize;
            if dot >= dots {
                continue;
            }
            let (min, max, last) = bucket.cwnd;
            series.cwnd[dot] = Some(Range::join(series.cwnd[dot], Range { min, max, last }));
            series.ssthresh[dot] = Some(bucket.ssthresh);
            if bucket.srtt_us.0 > 0 {
                let (min, max, last) = bucket.srtt_us;
                series.srtt_us[dot] = Some(Range::join(series.srtt_us[dot], Range { min, max, last }));
            }
            let column = dot / 2;
            states[column] |= bucket.states;
            let rank =
                |c: Option<char>| c.and_then(|c| MARKS.iter().position(|m| m.0 == c)).unwrap_or(usize::MAX);
            if rank(mark(bucket)) < rank(series.mark[column]) {
                series.mark[column] = mark(bucket);
            }
            match &mut series.bucket[column] {
                Some(joined) => joined.merge(bucket),
                empty => *empty = Some(*bucket),
            }
        }
        series.hold(buckets, &states, dot_ns, end_ns);
        series.place_limits(buckets);
        series
    }

    /// Places the limits of the buckets: only within the time between their records.
    fn place_limits(&mut self, buckets: &[Bucket]) {
        let mut dominant = vec![DominantLimit::NOTHING; self.limit.len()];
        let (from_ns, column_ns) = (self.from_ns, self.column_ns.max(1));
        // `lead` is the part of that time by which the limit led.
        let mut place = |limit: Limit, begin_ns: u64, end_ns: u64, lead: f64| {
            let begin_ns = begin_ns.max(from_ns);
            if begin_ns >= end_ns {
                return;
            }
            let last = ((end_ns - 1 - from_ns) / column_ns) as usize;
            for (column, column_limit) in dominant
                .iter_mut()
                .enumerate()
                .take(last + 1)
                .skip(((begin_ns - from_ns) / column_ns) as usize)
            {
                let left_ns = from_ns + column as u64 * column_ns;
                let time_ns = end_ns.min(left_ns + column_ns) - begin_ns.max(left_ns);
                column_limit.add(limit, (time_ns as f64 / 1e3 * lead).ceil() as u64);
            }
        };
        let mut known_ns = None;
        for bucket in buckets {
            if let (Some(known_ns), Some(before)) = (known_ns, bucket.limit_before) {
                place(before, known_ns, bucket.start_ns, 1.0);
            }
            // Before the first record the limit is unknown.
            let lead_ns = u64::from(bucket.limit.lead_us) * 1000;
            let begin_ns = bucket.start_ns.max(known_ns.unwrap_or(bucket.last_ns.saturating_sub(lead_ns)));
            if let Some(limit) = bucket.limit.known() {
                let time_us = bucket.last_ns.saturating_sub(begin_ns) as f64 / 1e3;
                place(limit, begin_ns, bucket.last_ns, f64::from(bucket.limit.lead_us) / time_us.max(1.0));
            }
            known_ns = Some(bucket.last_ns);
        }
        self.limit = dominant.into_iter().map(DominantLimit::known).collect();
    }

    /// Fills the gaps between events: the kernel's variables keep their values.
    fn hold(&mut self, buckets: &[Bucket], states: &[u8], dot_ns: u64, end_ns: u64) {
        let before = buckets.iter().rev().find(|b| b.last_ns < self.from_ns);
        let mut cwnd = before.map(|b| b.cwnd.2);
        let mut ssthresh = before.map(|b| b.ssthresh);
        let mut srtt = before.map(|b| b.srtt_us.2).filter(|us| *us > 0);
        let mut state = before.and_then(|b| CaState::from_kernel(b.state));
        let mut bucket = before.copied();
        let is_recorded = |at_ns: u64| at_ns <= end_ns;
        for dot in 0..self.cwnd.len() {
            let at = self.from_ns + dot as u64 * dot_ns;
            for (now, held) in [(&mut self.cwnd[dot], &mut cwnd), (&mut self.srtt_us[dot], &mut srtt)] {
                match now {
                    Some(range) => *held = Some(range.last),
                    None if is_recorded(at) => *now = held.map(Range::held),
                    None => {}
                }
            }
            match self.ssthresh[dot] {
                Some(value) => ssthresh = Some(value),
                None if is_recorded(at) => self.ssthresh[dot] = ssthresh,
                None => {}
            }
            let finite = |value: &u32| *value < yuzuri_trace::Snapshot::SSTHRESH_INFINITE;
            self.ssthresh[dot] = self.ssthresh[dot].filter(finite);
        }
        let counter = Counter::new(buckets);
        for (column, states) in states.iter().enumerate() {
            let at = self.from_ns + column as u64 * self.column_ns;
            match self.bucket[column] {
                Some(here) => {
                    self.state[column] = worst_state(*states);
                    state = CaState::from_kernel(here.state);
                    bucket = Some(here);
                }
                None if is_recorded(at) => {
                    self.state[column] = state;
                    self.bucket[column] = bucket;
                }
                None => {}
            }
            if is_recorded(at) {
                let to = (at + self.column_ns).min(end_ns);
                self.rate_bps[column] =
                    counter.rate_bps(to.saturating_sub(self.column_ns.max(RATE_OVER_NS)), to);
            }
        }
    }

    /// The column of a time.
    pub(crate) fn column_of(&self, at_ns: u64) -> Option<usize> {
        let column = (at_ns.checked_sub(self.from_ns)? / self.column_ns.max(1)) as usize;
        (column < self.state.len()).then_some(column)
    }
}

/// Cumulative bytes acknowledged and received over time, linear within buckets and constant between
/// them.
struct Counter {
    points: Vec<(u64, u64)>,
}

impl Counter {
    fn new(buckets: &[Bucket]) -> Counter {
        let mut points: Vec<(u64, u64)> = Vec::with_capacity(buckets.len() * 2);
        for bucket in buckets {
            let bytes = bucket.bytes_acked + bucket.bytes_received;
            match points.last() {
                Some(&(last_ns, last)) => {
                    if bucket.start_ns > last_ns {
                        points.push((bucket.start_ns, last));
                    }
                    points.push((bucket.last_ns.max(last_ns), bytes.max(last)));
                }
                None => points.push((bucket.last_ns, bytes)),
            }
        }
        Counter { points }
    }

    fn at(&self, ns: u64) -> Option<f64> {
        let next = self.points.partition_point(|p| p.0 <= ns);
        let before = self.points.get(next.checked_sub(1)?)?;
        let Some(after) = self.points.get(next) else { return Some(before.1 as f64) };
        let share = (ns - before.0) as f64 / (after.0 - before.0) as f64;
        Some(before.1 as f64 + share * (after.1 - before.1) as f64)
    }

    fn rate_bps(&self, from_ns: u64, to_ns: u64) -> Option<f64> {
        let (first_ns, _) = *self.points.first()?;
        // Over less than 100 ms a rate would be noise.
        let from_ns = from_ns.max(first_ns);
        let span = to_ns.checked_sub(from_ns).filter(|span| *span >= 100_000_000)?;
        Some((self.at(to_ns)? - self.at(from_ns)?) * 8e9 / span as f64)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use yuzuri_limits::LimitInterval;
    use yuzuri_trace::{Event, Snapshot};
    use yuzuri_view::History;

    const MS: u64 = 1_000_000;

    /// 10 Mbit/s from 1 s to 3 s, cwnd 20 except one instant of 90, Recovery at 2 s, nothing after
    /// 3 s.
    fn buckets() -> Vec<Bucket> {
        let mut history = History::default();
        for ms in 1000..3000u64 {
            let recovery = ms == 2000;
            let event = Event {
                mono_ns: ms * MS,
                kind: if recovery { Kind::Retransmit } else { Kind::Sample },
                ca_state: if recovery { CaState::Recovery } else { CaState::Open },
                snapshot: Snapshot {
                    cwnd: if ms == 1500 { 90 } else { 20 },
                    ssthresh: if ms < 2000 { Snapshot::SSTHRESH_INFINITE } else { 14 },
                    srtt_us: 30_000,
                    bytes_acked: (ms - 1000) * 1250,
                    ..Snapshot::default()
                },
                ..Event::default()
            };
            history.push(&event, &[], None);
        }
        history.window(0, 10_000 * MS, 4096)
    }

    #[test]
    fn extremes_states_and_marks_keep_their_place() {
        let series = Series::new(&buckets(), 0, 100 * MS, 50, 4_000 * MS);
        assert!(series.cwnd[..19].iter().all(Option::is_none));
        let highest = series.cwnd.iter().position(|r| r.is_some_and(|r| r.max == 90)).unwrap();
        assert!((29..=31).contains(&highest), "{highest}");
        assert_eq!(series.cwnd[70], Some(Range::held(20)), "held while silent");
        assert_eq!(series.cwnd[81], None, "nothing after the end");
        let recovery = series.state.iter().position(|s| *s == Some(CaState::Recovery)).unwrap();
        assert!((19..=21).contains(&recovery), "{recovery}");
        assert_eq!(series.mark[recovery], Some('r'));
        assert_eq!(series.ssthresh[30], None);
        assert_eq!(series.ssthresh[60], Some(14));
    }

    #[test]
    fn limits_are_placed_where_they_applied() {
        let mut history = History::default();
        let mut push = |ms: u64, known: &[(u64, u64, Limit)]| {
            let known: Vec<_> = known
                .iter()
                .map(|(from, to, limit)| LimitInterval {
                    from_us: from * 1000,
                    to_us: to * 1000,
                    limit: *limit,
                })
                .collect();
            history.push(&Event { mono_ns: ms * MS, ..Event::default() }, &known, None);
        };
        push(1000, &[]);
        for ms in 1001..2000 {
            push(ms, &[(ms - 1, ms, Limit::Path)]);
        }
        // Idle, then limited by the receiver.
        push(4000, &[(1999, 3960, Limit::Application), (3960, 4000, Limit::ReceiverWindow)]);
        push(4500, &[(4000, 4500, Limit::ReceiverWindow)]);
        let buckets = history.window(0, 10_000 * MS, 4096);
        let series = Series::new(&buckets, 0, 100 * MS, 60, 6_000 * MS);
        let expect = |column: usize| match column {
            10..20 => Some(Limit::Path),
            20..39 => Some(Limit::Application),
            39 => series.limit[39],
            40..45 => Some(Limit::ReceiverWindow),
            _ => None,
        };
        for (column, limit) in series.limit.iter().enumerate() {
            assert_eq!(*limit, expect(column), "column {column}: {:?}", series.limit);
        }
    }

    #[test]
    fn throughput_is_the_counters_slope() {
        let series = Series::new(&buckets(), 0, 100 * MS, 50, 4_000 * MS);
        let rate = series.rate_bps[25].unwrap();
        assert!((rate / 10e6 - 1.0).abs() < 0.02, "{rate}");
        assert_eq!(series.rate_bps[39], Some(0.0));
        assert_eq!(series.rate_bps[5], None);
    }

    #[test]
    fn a_view_that_begins_between_two_samples_shows_the_earlier_values() {
        let series = Series::new(&buckets(), 3_200 * MS, 100 * MS, 10, 4_000 * MS);
        assert_eq!(series.cwnd[0], Some(Range::held(20)));
        assert_eq!(series.state[0], Some(CaState::Open));
        assert_eq!(series.column_of(3_250 * MS), Some(0));
        assert_eq!(series.column_of(3_100 * MS), None);
    }
}
