//! The history of a flow at three resolutions, in bounded memory.

use crate::dominant_limit::DominantLimit;
use serde::Serialize;
use std::collections::VecDeque;
use yuzuri_limits::{Limit, LimitInterval};
use yuzuri_trace::{Event, Kind, Marks};

/// What happened to a flow in one interval. Extremes survive every merge.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bucket {
    /// Start of the interval, `CLOCK_MONOTONIC`, nanoseconds.
    pub start_ns: u64,
    /// Time of the last event in it.
    pub last_ns: u64,
    /// Number of events.
    pub events: u32,
    /// cwnd, segments: smallest, largest, last.
    pub cwnd: (u32, u32, u32),
    /// Last ssthresh, segments (`Snapshot::SSTHRESH_INFINITE` where none).
    pub ssthresh: u32,
    /// srtt, microseconds: smallest, largest, last; 0 where unmeasured.
    pub srtt_us: (u32, u32, u32),
    /// Last minimum RTT of the kernel, microseconds; `u32::MAX` where unmeasured.
    pub min_rtt_us: u32,
    /// Largest number of segments in flight.
    pub in_flight: u32,
    /// Sent and not yet cumulatively acknowledged at the last event, bytes (`snd_nxt - snd_una`;
    /// `packets_out` segments of `mss_cache` for records without these fields).
    pub outstanding_bytes: u32,
    /// Selectively acknowledged at the last event, bytes (`sacked_out` segments of `mss_cache`).
    pub sacked_bytes: u32,
    /// Written by the application and not yet sent at the last event, bytes; `u32::MAX` where
    /// unknown.
    pub notsent_bytes: u32,
    /// The last upper bound of the window by sharing that follows from the records
    /// ([`ShownBound`]), segments; 0 if there is none.
    ///
    /// [`ShownBound`]: crate::ShownBound
    pub bound: u32,
    /// The peer's receive window at the last event, bytes.
    pub snd_wnd: u32,
    /// Our receive window at the last event, bytes.
    pub rcv_wnd: u32,
    /// Counter of acknowledged bytes at the end.
    pub bytes_acked: u64,
    /// Counter of received bytes at the end.
    pub bytes_received: u64,
    /// Congestion states (`icsk_ca_state`) seen, a bit each (bit 0: Open ... bit 4: Loss).
    pub states: u8,
    /// Last state.
    pub state: u8,
    /// Marks seen.
    pub marks: Marks,
    /// Kinds of events seen, a bit each (bit 0: sample ...).
    pub kinds: u16,
    /// Segments retransmitted (counted from `Kind::Retransmit` events).
    pub retransmits: u32,
    /// What limited the flow from the bucket's start to its last event, as far as it is known.
    pub limit: DominantLimit,
    /// What limited it from the previous event until the bucket's start; `None` where that is
    /// unknown.
    #[serde(skip)]
    pub limit_before: Option<Limit>,
}

impl Bucket {
    /// Written by the application and not yet sent, bytes, if it is known.
    pub fn known_notsent_bytes(&self) -> Option<u32> {
        (self.notsent_bytes != u32::MAX).then_some(self.notsent_bytes)
    }

    /// The other end's window, bytes, if it is known and can limit.
    pub fn known_snd_wnd_bytes(&self) -> Option<u32> {
        (self.snd_wnd != u32::MAX).then_some(self.snd_wnd)
    }

    fn new(start_ns: u64, event: &Event, limits: &[LimitInterval], bound: Option<u32>) -> Bucket {
        let s = &event.snapshot;
        let start_us = start_ns / 1000;
        let (mut limit, mut before) = (DominantLimit::NOTHING, DominantLimit::NOTHING);
        for known in limits {
            before.add(known.limit, known.to_us.min(start_us).saturating_sub(known.from_us));
            limit.add(known.limit, known.to_us.saturating_sub(known.from_us.max(start_us)));
        }
        Bucket {
            start_ns,
            last_ns: event.mono_ns,
            events: 1,
            cwnd: (s.cwnd, s.cwnd, s.cwnd),
            ssthresh: s.ssthresh,
            srtt_us: (s.srtt_us, s.srtt_us, s.srtt_us),
            min_rtt_us: s.min_rtt_us,
            in_flight: s.in_flight(),
            outstanding_bytes: match s.sender.outstanding_bytes {
                u32::MAX => s.packets_out.saturating_mul(s.mss),
                bytes => bytes,
            },
            sacked_bytes: s.sacked_out.saturating_mul(s.mss),
            notsent_bytes: s.notsent,
            bound: bound.unwrap_or(0),
            snd_wnd: s.snd_wnd,
            rcv_wnd: s.rcv_wnd,
            bytes_acked: s.bytes_acked,
            bytes_received: s.bytes_received,
            states: 1 << event.ca_state as u8 | 1 << event.ca_before as u8,
            state: event.ca_state as u8,
            marks: event.marks,
            kinds: 1 << event.kind as u16,
            retransmits: u32::from(event.kind == Kind::Retransmit),
            limit,
            limit_before: before.known(),
        }
    }

    /// Merges another bucket into this one. The last values are those of the bucket with the later
    /// record; where that bucket has no measurement, the other's stays.
    pub fn merge(&mut self, other: &Bucket) {
        self.events += other.events;
        self.cwnd = (self.cwnd.0.min(other.cwnd.0), self.cwnd.1.max(other.cwnd.1), self.cwnd.2);
        self.srtt_us = match (self.srtt_us, other.srtt_us) {
            ((0, ..), other) => other,
            (own, (0, ..)) => own,
            (own, other) => (own.0.min(other.0), own.1.max(other.1), own.2),
        };
        self.in_flight = self.in_flight.max(other.in_flight);
        self.bytes_acked = self.bytes_acked.max(other.bytes_acked);
        self.bytes_received = self.bytes_received.max(other.bytes_received);
        self.states |= other.states;
        self.marks.insert(other.marks);
        self.kinds |= other.kinds;
        self.retransmits += other.retransmits;
        let is_later = other.last_ns >= self.last_ns;
        if let (true, Some(between)) = (is_later, other.limit_before) {
            // The time before the other bucket's start lies within the merged bucket.
            self.limit.add(between, (other.start_ns / 1000).saturating_sub(self.last_ns / 1000));
        }
        self.limit.merge(other.limit);
        if other.bound > 0 && (is_later || self.bound == 0) {
            self.bound = other.bound;
        }
        if other.min_rtt_us != u32::MAX && (is_later || self.min_rtt_us == u32::MAX) {
            self.min_rtt_us = other.min_rtt_us;
        }
        if other.known_notsent_bytes().is_some() && (is_later || self.known_notsent_bytes().is_none()) {
            self.notsent_bytes = other.notsent_bytes;
        }
        if !is_later {
            return;
        }
        self.last_ns = other.last_ns;
        self.cwnd.2 = other.cwnd.2;
        self.ssthresh = other.ssthresh;
        self.outstanding_bytes = other.outstanding_bytes;
        self.sacked_bytes = other.sacked_bytes;
        self.snd_wnd = other.snd_wnd;
        self.rcv_wnd = other.rcv_wnd;
        if other.srtt_us.2 > 0 {
            self.srtt_us.2 = other.srtt_us.2;
        }
        self.state = other.state;
    }
}

/// Buckets of one width, oldest first; an interval without events has no bucket.
#[derive(Debug, Clone)]
pub struct Level {
    width_ns: u64,
    max_buckets: usize,
    buckets: VecDeque<Bucket>,
}

impl Level {
    /// Buckets of `width_ns`, at most `max_buckets` of them; the oldest is dropped first.
    pub fn new(width_ns: u64, max_buckets: usize) -> Level {
        Level { width_ns, max_buckets: max_buckets.max(1), buckets: VecDeque::new() }
    }

    /// Width of a bucket, nanoseconds.
    pub fn width_ns(&self) -> u64 {
        self.width_ns
    }

    /// The buckets.
    pub fn buckets(&self) -> &VecDeque<Bucket> {
        &self.buckets
    }

    /// Adds an event, what limited the flow since the previous one, and the bound that follows from
    /// it, segments. An event older than the last bucket counts in the last bucket.
    pub fn push(&mut self, event: &Event, limits: &[LimitInterval], bound: Option<u32>) {
        let start = event.mono_ns - event.mono_ns % self.width_ns;
        let bucket = Bucket::new(start, event, limits, bound);
        match self.buckets.back_mut() {
            Some(last) if start <= last.start_ns => last.merge(&bucket),
            _ => {
                if self.buckets.len() == self.max_buckets {
                    self.buckets.pop_front();
                }
                self.buckets.push_back(bucket);
            }
        }
    }

    /// Removes and returns all buckets that ended before `now_ns`, for a feed that passes each on
    /// once.
    pub fn take_finished(&mut self, now_ns: u64) -> Vec<Bucket> {
        let open = self.buckets.iter().rposition(|b| b.start_ns + self.width_ns <= now_ns);
        match open {
            Some(last) => self.buckets.drain(..=last).collect(),
            None => Vec::new(),
        }
    }
}

/// Width and number of buckets per level: half a minute at 32 ms, 4 minutes at 256 ms, 70 minutes
/// at 2 s. A level takes memory only once a flow has lived long enough to fill it: at most about
/// 400 kB per flow.
const LEVELS: [(u64, usize); 3] = [(32_000_000, 1024), (256_000_000, 1024), (2_048_000_000, 2048)];

/// The history of a flow, with a finer resolution for recent times.
#[derive(Debug, Clone)]
pub struct History {
    levels: [Level; LEVELS.len()],
}

impl Default for History {
    fn default() -> Self {
        History { levels: LEVELS.map(|(width_ns, max_buckets)| Level::new(width_ns, max_buckets)) }
    }
}

impl History {
    /// Adds an event, what limited the flow since the previous one, and the bound that follows from
    /// it, segments.
    pub fn push(&mut self, event: &Event, limits: &[LimitInterval], bound: Option<u32>) {
        for level in &mut self.levels {
            level.push(event, limits, bound);
        }
    }

    /// What happened between two times, in at most `max_buckets` buckets, from the finest level
    /// that reaches back to `from_ns` (or else as far as any level does). Each bucket keeps its
    /// extremes.
    pub fn window(&self, from_ns: u64, to_ns: u64, max_buckets: usize) -> Vec<Bucket> {
        let reaches = |level: &&Level| {
            level.buckets.len() < level.max_buckets
                || level.buckets.front().is_some_and(|b| b.start_ns <= from_ns)
        };
        let level = self.levels.iter().find(reaches).unwrap_or(&self.levels[LEVELS.len() - 1]);
        let span = to_ns.saturating_sub(from_ns).max(1);
        let width = level.width_ns.max(span.div_ceil(max_buckets.max(1) as u64));
        let mut out: Vec<Bucket> = Vec::new();
        let mut group = u64::MAX;
        let first = level.buckets.partition_point(|b| b.start_ns + level.width_ns <= from_ns);
        for bucket in level.buckets.range(first..) {
            if bucket.start_ns > to_ns {
                break;
            }
            let this = bucket.start_ns.saturating_sub(from_ns) / width;
            match out.last_mut() {
                Some(last) if this == group => last.merge(bucket),
                _ => out.push(*bucket),
            }
            group = this;
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use yuzuri_trace::Snapshot;

    fn event(mono_ns: u64, cwnd: u32) -> Event {
        let snapshot = Snapshot { cwnd, srtt_us: 1000 + cwnd, bytes_acked: mono_ns, ..Default::default() };
        Event { mono_ns, snapshot, ..Default::default() }
    }

    proptest! {
        #[test]
        fn extremes_and_counts_survive(values in prop::collection::vec((1u64..20_000_000, 1u32..1000), 1..500), max_buckets in 1usize..50) {
            let mut history = History::default();
            let mut now = 0;
            for (gap, cwnd) in &values {
                now += gap;
                history.push(&event(now, *cwnd), &[], None);
            }
            let window = history.window(0, now, max_buckets);
            prop_assert!(window.len() <= max_buckets + 1);
            prop_assert_eq!(window.iter().map(|b| b.events as usize).sum::<usize>(), values.len());
            prop_assert_eq!(window.iter().map(|b| b.cwnd.1).max(), values.iter().map(|v| v.1).max());
            prop_assert_eq!(window.iter().map(|b| b.cwnd.0).min(), values.iter().map(|v| v.1).min());
            prop_assert_eq!(window.last().map(|b| b.bytes_acked), Some(now));
        }
    }

    #[test]
    fn memory_is_bounded_and_old_times_come_from_a_coarser_level() {
        let mut history = History::default();
        for ms in 0..300_000u64 {
            history.push(&event(ms * 1_000_000, 10), &[], None);
        }
        assert!(history.levels.iter().all(|l| l.buckets.len() <= l.max_buckets));
        let recent = history.window(290_000_000_000, 300_000_000_000, 10_000);
        assert!(recent.len() > 300);
        let whole = history.window(0, 300_000_000_000, 10_000);
        assert_eq!(whole.iter().map(|b| u64::from(b.events)).sum::<u64>(), 300_000);
    }

    #[test]
    fn finished_buckets_are_taken_once() {
        let mut level = Level::new(4_000_000, 100);
        for ms in 0..10 {
            level.push(&event(ms * 1_000_000, 10), &[], None);
        }
        let taken = level.take_finished(10_000_000);
        assert_eq!(taken.iter().map(|b| b.events).collect::<Vec<_>>(), [4, 4]);
        assert_eq!(level.take_finished(10_000_000), []);
        assert_eq!(level.take_finished(12_000_000).len(), 1);
    }

    #[test]
    fn limits_stay_where_they_were_at_every_width() {
        let mut history = History::default();
        let ms = |n: u64| n * 1_000_000;
        let known = |from_ms: u64, to_ms: u64, limit| LimitInterval {
            from_us: from_ms * 1000,
            to_us: to_ms * 1000,
            limit,
        };
        history.push(&event(ms(64), 10), &[], None);
        history.push(&event(ms(90), 10), &[known(64, 90, Limit::Path)], None);
        // Idle for five seconds, then full of data again for the last 30 ms.
        history.push(
            &event(ms(5_200), 10),
            &[known(90, 5_170, Limit::Application), known(5_170, 5_200, Limit::Path)],
            None,
        );
        let limits = |max_buckets| {
            let window = history.window(0, ms(6_000), max_buckets);
            window.iter().map(|b| (b.limit_before, b.limit.known())).collect::<Vec<_>>()
        };
        assert_eq!(
            limits(1000),
            [(None, Some(Limit::Path)), (Some(Limit::Application), Some(Limit::Path))],
            "the gap is of the limit that held in it"
        );
        assert_eq!(limits(1), [(None, Some(Limit::Application))], "it held for most of the time");
    }

    #[test]
    fn the_last_known_unsent_data_of_a_bucket_remains() {
        let bucket = |last_ns, notsent| {
            let snapshot = Snapshot { notsent, ..Snapshot::default() };
            Bucket::new(0, &Event { mono_ns: last_ns, snapshot, ..Event::default() }, &[], None)
        };
        let merged = |first: (u64, u32), then: (u64, u32)| {
            let mut bucket_of_first = bucket(first.0, first.1);
            bucket_of_first.merge(&bucket(then.0, then.1));
            bucket_of_first.notsent_bytes
        };
        assert_eq!(merged((1, 5_000), (2, u32::MAX)), 5_000);
        assert_eq!(merged((2, u32::MAX), (1, 5_000)), 5_000);
        assert_eq!(merged((1, 5_000), (2, 0)), 0);
        assert_eq!(merged((2, 5_000), (1, 0)), 5_000);
        assert_eq!(merged((1, u32::MAX), (2, u32::MAX)), u32::MAX);
    }

    #[test]
    fn outstanding_data_comes_from_the_record_that_has_it() {
        let mut level = Level::new(1_000_000, 10);
        let mut event = event(0, 10);
        (event.snapshot.packets_out, event.snapshot.mss) = (3, 1000);
        level.push(&event, &[], None);
        event.mono_ns = 1_000_000;
        event.snapshot.sender.outstanding_bytes = 2_100;
        level.push(&event, &[], None);
        assert_eq!(level.buckets().iter().map(|b| b.outstanding_bytes).collect::<Vec<_>>(), [3_000, 2_100]);
    }
}
