//! Whether the path has room beyond a flow's upper bound.
//!
//! A window at its bound without a queue leaves capacity unused, unless the minimum RTT contains a
//! queue itself: a flow that began late has never measured the path without one. Therefore the
//! terminal first halves its own window, and compares the round-trip times. On a full path of
//! capacity `C` with the windows `W` of all its senders, the round-trip time is `W / C` (Little's
//! law). If a terminal with an `n`-th of `W` halves its window, the round-trip time falls by the
//! fraction `1 / 2n`, or by the whole queue if that is less. On a path that has room it does not
//! fall.
//!
//! `n` counts only the senders that proved their liveness: invented senders have no part of the
//! path. A terminal that carries several shares counts as several senders. The threshold is midway
//! between both cases: there is room if the round-trip time varies by less than that, before the
//! step and after it. Where it varies more, the test has no result, and the bound stays.

use crate::Moment;
use crate::capacity::{AGAIN, AGAIN_AT_LATEST, GROWS, STEP, drains, settles};
use std::time::Duration;

/// A flow that has a share, at one decision.
#[derive(Debug, Clone, Copy)]
pub(super) struct BoundedFlow {
    /// Its smoothed RTT, µs.
    pub(super) srtt_us: u32,
    /// Its minimum RTT, µs.
    pub(super) min_rtt_us: u32,
    /// Its window, segments, and whether that is at its bound.
    pub(super) cwnd: u32,
    pub(super) at_bound: bool,
    /// The multiple of its share that its bound carries.
    pub(super) stretch: f64,
    /// The least window that can be tested, segments.
    pub(super) min_window: f64,
    /// Its share as a fraction of all senders' shares.
    pub(super) part: f64,
    /// The queue that windows within their shares leave, as announced, seconds.
    pub(super) queue_s: f64,
    /// The queue up to which it grows, seconds.
    pub(super) target_s: f64,
}

impl BoundedFlow {
    /// The fall of the round-trip time midway between a full path and one with room, if the window
    /// is halved, µs.
    fn midway_us(&self) -> f64 {
        let part = (self.stretch * self.part).min(1.0);
        let falls_us = (STEP * part * f64::from(self.srtt_us)).min(self.queue_s * 1e6);
        falls_us / 2.0
    }

    /// The queue above its minimum RTT, µs.
    fn queue_us(&self) -> f64 {
        f64::from(self.srtt_us.saturating_sub(self.min_rtt_us))
    }
}

/// How the bound changes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Answer {
    /// It shrinks towards the share.
    Shrink,
    /// It stays, while round-trip times are observed.
    Stay,
    /// It is half of the window, segments: the test.
    Halve(f64),
    /// It grows.
    Grow,
    /// The path is full: the bound is the share.
    Share,
}

/// The least and the largest round-trip time of a test, µs.
#[derive(Debug, Clone, Copy)]
struct Seen {
    least_us: u32,
    most_us: u32,
}

impl Seen {
    fn with(before: Option<Seen>, srtt_us: u32) -> Seen {
        let Seen { least_us, most_us } = before.unwrap_or(Seen { least_us: srtt_us, most_us: srtt_us });
        Seen { least_us: least_us.min(srtt_us), most_us: most_us.max(srtt_us) }
    }

    fn varies_us(&self) -> f64 {
        f64::from(self.most_us - self.least_us)
    }
}

#[derive(Debug, Clone, Copy, Default)]
enum Test {
    #[default]
    No,
    /// The round-trip times of a constant window are observed.
    Before { since: Moment, seen: Seen },
    /// The window is halved to this, segments.
    Halved { since: Moment, seen: Seen, window: f64 },
}

/// The state of a flow's test.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    test: Test,
    /// The multiple of the share for which there is room; 1: none.
    up_to: f64,
    /// When that was found, and for how long it holds.
    found: Option<(Moment, Duration)>,
}

impl Default for Room {
    fn default() -> Room {
        Room { test: Test::No, up_to: 1.0, found: None }
    }
}

impl Room {
    /// Follows a decision; `None`: there are no shares.
    pub(super) fn follow(&mut self, now: Moment, flow: Option<BoundedFlow>) -> Answer {
        let flow = flow.filter(|flow| flow.queue_us() < STEP * flow.target_s * 1e6);
        if let Test::Halved { since, seen, window } = self.test {
            let Some(flow) = flow.filter(|flow| flow.at_bound) else {
                self.test = Test::No;
                self.find(now, false, 1.0);
                return Answer::Shrink;
            };
            // Until the queue has drained, round-trip times change because of the step itself.
            if now.since(since) < drains(Duration::from_micros(flow.srtt_us.into())) {
                return Answer::Halve(window);
            }
            let seen = Seen::with(Some(seen), flow.srtt_us);
            let has_room = seen.varies_us() < flow.midway_us() && f64::from(flow.cwnd) <= window + 1.0;
            self.test = Test::No;
            self.find(now, has_room, flow.stretch);
            return if has_room { Answer::Grow } else { Answer::Share };
        }
        let Some(flow) = flow else {
            self.test = Test::No;
            return Answer::Shrink;
        };
        let is_known = self.found.is_some_and(|(at, holds)| now.since(at) < holds);
        if is_known && (self.up_to == 1.0 || flow.stretch < self.up_to / GROWS.sqrt()) {
            return match (self.up_to > 1.0, flow.at_bound) {
                (true, true) => Answer::Grow,
                // The window has not grown that far yet.
                (true, false) => Answer::Stay,
                (false, _) => Answer::Shrink,
            };
        }
        // With a measured queue, a test would show nothing new.
        let window = STEP * f64::from(flow.cwnd);
        if !flow.at_bound || window < flow.min_window || flow.queue_us() >= flow.midway_us() {
            self.test = Test::No;
            return Answer::Shrink;
        }
        let (since, before) = match self.test {
            Test::Before { since, seen } => (since, Some(seen)),
            _ => (now, None),
        };
        let seen = Seen::with(before, flow.srtt_us);
        if now.since(since) < settles(Duration::from_micros(flow.srtt_us.into())) {
            self.test = Test::Before { since, seen };
            return Answer::Stay;
        }
        if seen.varies_us() >= flow.midway_us() {
            // The variation would hide the result of a step.
            self.test = Test::No;
            self.find(now, false, flow.stretch);
            return Answer::Share;
        }
        self.test = Test::Halved { since: now, seen, window };
        Answer::Halve(window)
    }

    /// Stores a result. The same result again is valid for twice as long.
    fn find(&mut self, now: Moment, has_room: bool, stretch: f64) {
        let before = self.found.filter(|_| (self.up_to > 1.0) == has_room);
        let holds = before.map_or(AGAIN, |(_, holds)| (2 * holds).min(AGAIN_AT_LATEST));
        self.found = Some((now, holds));
        self.up_to = if has_room { stretch / STEP } else { 1.0 };
    }

    /// Whether the window is halved now.
    pub(super) fn is_testing(&self) -> bool {
        matches!(self.test, Test::Halved { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(500);
    const TARGET_S: f64 = 0.020;

    /// A first-in, first-out path, and the windows of the other senders on it.
    #[derive(Debug, Clone, Copy)]
    struct Path {
        segments_per_s: f64,
        base_s: f64,
        others: f64,
        /// The round-trip time varies by this from decision to decision, seconds.
        varies_s: f64,
    }

    impl Path {
        fn round_trip_s(&self, window: f64) -> f64 {
            self.base_s.max((self.others + window) / self.segments_per_s)
        }
    }

    /// The largest multiple of the share that a window reaches within two minutes, and for how many
    /// decisions it is halved. Its minimum RTT contains whatever queue there is.
    fn reaches(path: Path, senders: u16, share: f64) -> (f64, u32) {
        let (mut room, mut stretch, mut window) = (Room::default(), 1.0_f64, share);
        let (mut min_s, mut most, mut halved) = (f64::INFINITY, stretch, 0);
        for tick in 0..240_u32 {
            let varies_s = path.varies_s * [0.0, 1.0, 0.4, 0.9, 0.2][tick as usize % 5];
            let srtt_s = path.round_trip_s(window) + varies_s;
            min_s = min_s.min(srtt_s);
            let flow = BoundedFlow {
                srtt_us: (srtt_s * 1e6) as u32,
                min_rtt_us: (min_s * 1e6) as u32,
                cwnd: window as u32,
                at_bound: true,
                stretch,
                min_window: 4.0,
                part: 1.0 / f64::from(senders),
                queue_s: TARGET_S,
                target_s: TARGET_S,
            };
            let answer = room.follow(Moment::at(TICK * tick), Some(flow));
            stretch = match answer {
                Answer::Grow => stretch * GROWS.sqrt(),
                Answer::Shrink => (stretch * 0.85).max(1.0),
                Answer::Share => 1.0,
                Answer::Stay | Answer::Halve(_) => stretch,
            };
            window = if let Answer::Halve(window) = answer { window } else { share * stretch };
            halved += u32::from(room.is_testing());
            most = most.max(stretch);
        }
        (most, halved)
    }

    /// A full path: all windows are equal, and leave the target queue.
    fn full(senders: u16, base_s: f64, varies_s: f64) -> (Path, f64) {
        let segments_per_s = 4_000.0;
        let share = segments_per_s * (base_s + TARGET_S) / f64::from(senders);
        (Path { segments_per_s, base_s, others: share * f64::from(senders - 1), varies_s }, share)
    }

    #[test]
    fn a_latecomer_at_its_share_of_a_full_path_finds_no_room() {
        for senders in [2, 3, 4, 8] {
            for base_s in [0.0005, 0.002, 0.010, 0.050, 0.200] {
                for varies_s in [0.0, 0.0005, 0.002, 0.010] {
                    let (path, share) = full(senders, base_s, varies_s);
                    let (most, halved) = reaches(path, senders, share);
                    assert_eq!(most, 1.0, "{path:?}, {senders} senders");
                    assert!(halved <= 8, "{halved}: {path:?}, {senders} senders");
                }
            }
        }
    }

    #[test]
    fn a_bound_that_leaves_the_path_empty_grows_until_the_path_is_full() {
        for base_s in [0.010, 0.050, 0.200] {
            for part in [0.1, 0.3, 0.7] {
                let (path, all) = full(1, base_s, 0.0);
                let (most, halved) = reaches(path, 2, part * all);
                let carried = most * part * all / (path.segments_per_s * base_s);
                assert!(carried >= 1.0, "{carried}: {path:?}, {part} of the path announced");
                assert!(halved <= 40, "{halved}: {path:?}, {part} of the path announced");
            }
        }
    }

    /// What is within the variation of the round-trip time is no room.
    #[test]
    fn a_bound_stays_where_round_trips_vary_as_much_as_a_full_path_would_show() {
        let (path, all) = full(1, 0.010, 0.004);
        assert_eq!(reaches(path, 2, 0.3 * all).0, 1.0);
    }
}
