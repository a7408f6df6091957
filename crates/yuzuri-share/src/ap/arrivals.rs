//! Estimates how much traffic without a window has arrived at its destination. The gate cannot see
//! that directly. But queues are first in, first out, and segments of TCP connections pass the same
//! ones. For each segment that it times, the gate records how much of this traffic had passed
//! before it: a mark. The mark returns with the segment's ACK. No I/O and no clock.

use std::collections::{HashMap, VecDeque};
use yuzuri_gate::{FlowKey, FlowSeen as Gated, OtherTraffic};

/// How long the amounts that passed are kept, nanoseconds: longer than any queue.
pub(super) const HISTORY_NS: u64 = 20_000_000_000;
/// The minimum time between the return of two marks from which a rate is computed, nanoseconds.
const APART_NS: u64 = 500_000_000;
/// How long a mark is current.
const CURRENT_NS: u64 = 1_000_000_000;
/// A full queue drops bursts, and spares TCP connections, whose segments arrive at the rate at
/// which the queue drains: while these lose little, other traffic may lose half. From this fraction
/// of retransmitted segments on, the arrival of other traffic is unknown.
const LOST: f64 = 0.02;

/// The current arrivals.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) enum Arrives {
    /// There is no information from connections.
    #[default]
    Unknown,
    /// Connections provided information before, but not at present, for example during recovery.
    Unsure,
    /// The data that passed between these moments, ns, arrived in this many seconds; `surely`: the
    /// fraction that certainly was not dropped.
    Passed { from_ns: u64, to_ns: u64, in_s: f64, surely: f64 },
}

/// The data that passed the gate, and that arrived, until now.
#[derive(Debug, Default)]
pub(super) struct ArrivalEstimator {
    /// What each connection had sent and retransmitted, bytes and segments.
    before: HashMap<FlowKey, (u64, u64)>,
    /// The bytes that had passed at each tick.
    passed: VecDeque<(u64, f64)>,
    /// The bytes that had arrived when a mark returned.
    marks: VecDeque<(u64, f64)>,
    arrives: Arrives,
    /// The fraction of retransmissions in the arrived data, until each tick.
    again: VecDeque<(u64, f64)>,
}

impl ArrivalEstimator {
    /// Processes all connections, and the stations' traffic without a window, at `now_ns`.
    pub(super) fn observe<'a>(
        &mut self,
        now_ns: u64,
        flows: impl Iterator<Item = &'a Gated>,
        others: &[OtherTraffic],
    ) {
        let mut now = HashMap::new();
        let mut marks = Vec::new();
        let (mut up, mut again) = (0.0, 0.0);
        for flow in flows {
            let seen = (flow.up_bytes, flow.repeated_segments);
            let before = self.before.get(&flow.key).copied().unwrap_or_default();
            now.insert(flow.key, seen);
            let segment = flow.up_bytes as f64 / flow.up_segments.max(1) as f64;
            up += seen.0.saturating_sub(before.0) as f64;
            again += seen.1.saturating_sub(before.1) as f64 * segment;
            marks.extend(flow.arrived.map(|mark| (mark.at_ns, mark.other_bytes as f64)));
        }
        self.before = now;
        self.again.push_back((now_ns, if up > 0.0 { again / up } else { 0.0 }));
        let all = others.iter().map(|other| other.all_passed).max().unwrap_or(0) as f64;
        self.passed.push_back((now_ns, all.max(last(&self.passed).1)));
        marks.sort_by_key(|(at_ns, _)| *at_ns);
        for (at_ns, bytes) in marks {
            let (newest_ns, most) = last(&self.marks);
            if at_ns > newest_ns {
                self.marks.push_back((at_ns, bytes.max(most)));
            }
        }
        for kept in [&mut self.passed, &mut self.marks, &mut self.again] {
            while kept.get(1).is_some_and(|(at, _)| now_ns.saturating_sub(*at) > HISTORY_NS) {
                kept.pop_front();
            }
        }
        self.arrives = self.arriving(now_ns);
    }

    fn arriving(&self, now_ns: u64) -> Arrives {
        let Some((at_ns, bytes)) =
            self.marks.back().filter(|(at, _)| now_ns.saturating_sub(*at) < HISTORY_NS)
        else {
            return Arrives::Unknown;
        };
        let earlier = self.marks.iter().rfind(|(at, _)| at_ns - at >= APART_NS);
        match earlier.filter(|_| now_ns.saturating_sub(*at_ns) < CURRENT_NS) {
            Some((before_ns, before)) => Arrives::Passed {
                from_ns: when(&self.passed, *before),
                to_ns: when(&self.passed, *bytes),
                in_s: (at_ns - before_ns) as f64 / 1e9,
                surely: self.surely(*before_ns),
            },
            None => Arrives::Unsure,
        }
    }

    /// The current arrivals.
    pub(super) fn arrives(&self) -> Arrives {
        self.arrives
    }

    /// The fraction of the data arrived since then that certainly was not dropped: retransmissions
    /// follow when the next segments of the queue arrive.
    fn surely(&self, since_ns: u64) -> f64 {
        let again = self.again.iter().rev().take_while(|(until, _)| *until > since_ns).map(|(_, part)| *part);
        (1.0 - again.fold(0.0, f64::max) / LOST).max(0.0)
    }
}

fn last(of: &VecDeque<(u64, f64)>) -> (u64, f64) {
    of.back().copied().unwrap_or_default()
}

/// When this many bytes had passed: at the last tick if they have not yet.
fn when(passed: &VecDeque<(u64, f64)>, bytes: f64) -> u64 {
    let next = passed.partition_point(|(_, until)| *until < bytes);
    let Some((to, after)) = passed.get(next) else { return last(passed).0 };
    let Some((from, before)) = next.checked_sub(1).and_then(|before| passed.get(before)) else { return *to };
    from + ((to - from) as f64 * (bytes - before) / (after - before)) as u64
}

/// The bytes that had passed at a moment.
pub(super) fn passed_at(passed: &VecDeque<(u64, f64)>, at_ns: u64) -> f64 {
    let next = passed.partition_point(|(at, _)| *at <= at_ns);
    match (next.checked_sub(1).and_then(|before| passed.get(before)), passed.get(next)) {
        (Some((from, before)), Some((to, after))) => {
            before + (after - before) * (at_ns - from) as f64 / (to - from) as f64
        }
        (Some((_, bytes)), None) => *bytes,
        (None, first) => first.map_or(0.0, |(_, bytes)| *bytes),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use yuzuri_gate::{ArrivedTraffic, ConnectionState, FlowSeen};

    const TICK_NS: u64 = 500_000_000;
    const STEP_NS: u64 = 1_000_000;

    fn connection(port: u16) -> Gated {
        let station = format!("10.0.0.2:{port}").parse().unwrap();
        let key = FlowKey::new(station, "192.0.2.1:443".parse().unwrap()).unwrap();
        Gated { state: ConnectionState::Established, ..FlowSeen::opening(key, [2; 6], 1) }
    }

    /// A connection and traffic without a window in a queue in front of a wire.
    struct Wire {
        mbps: f64,
        now_ns: u64,
        queue: VecDeque<[f64; 2]>,
        tcp: Gated,
        other: OtherTraffic,
        /// The amounts of both that had passed with the segment being timed.
        timed: Option<[f64; 2]>,
        arrived: [f64; 2],
        passed: [f64; 2],
    }

    impl Wire {
        fn new(mbps: f64) -> Wire {
            Wire {
                mbps,
                now_ns: 0,
                queue: VecDeque::new(),
                tcp: connection(4000),
                other: OtherTraffic { mac: [2; 6], ..OtherTraffic::default() },
                timed: None,
                arrived: [0.0; 2],
                passed: [0.0; 2],
            }
        }

        /// Half a second in which both send at these rates, Mbit/s, at its beginning and at its
        /// end.
        fn pass(&mut self, begin: [f64; 2], end: [f64; 2]) {
            let bytes = |mbps: f64| mbps * 1e6 / 8.0 * STEP_NS as f64 / 1e9;
            let steps = TICK_NS / STEP_NS;
            for step in 0..steps {
                let part = step as f64 / steps as f64;
                // Exponential, as in slow start.
                let came = [0, 1].map(|n| bytes(begin[n] * (end[n] / begin[n]).powf(part)));
                self.queue.push_back(came);
                self.passed = [0, 1].map(|n| self.passed[n] + came[n]);
                self.timed.get_or_insert(self.passed);
                self.now_ns += STEP_NS;
                let mut left = bytes(self.mbps);
                while left > 1e-6 && !self.queue.is_empty() {
                    let first = self.queue.front_mut().unwrap();
                    let all = first[0] + first[1];
                    let part = (left / all).min(1.0);
                    self.arrived = [0, 1].map(|n| self.arrived[n] + first[n] * part);
                    *first = first.map(|bytes| bytes * (1.0 - part));
                    left -= all * part;
                    if part >= 1.0 {
                        self.queue.pop_front();
                    }
                }
                if let Some(mark) = self.timed.take_if(|mark| self.arrived[0] >= mark[0] - 0.5) {
                    let other_bytes = mark[1] as u64;
                    self.tcp.arrived = Some(ArrivedTraffic { at_ns: self.now_ns, other_bytes });
                }
            }
            self.other.all_passed = self.passed[1] as u64;
        }
    }

    /// Traffic without a window rises to twice the wire's rate, as in slow start, and falls to a
    /// quarter: arrivals are estimated within a tenth while the queue grows, stands and drains.
    #[test]
    fn arrivals_are_estimated_through_a_queue() {
        let mut wire = Wire::new(20.0);
        let (mut arrivals, mut history) = (ArrivalEstimator::default(), VecDeque::from([(0, 0.0)]));
        let rates = [[1.0, 1.0], [20.0, 40.0], [5.0, 20.0], [5.0, 15.0], [5.0, 5.0]];
        let (mut before, mut worst) = (VecDeque::from([0.0]), 0.0_f64);
        for number in 0..24 {
            let rate = |n: usize| rates[n.min(rates.len() - 1)];
            wire.pass(rate(number), rate(number + 1));
            arrivals.observe(wire.now_ns, [&wire.tcp].into_iter(), &[wire.other]);
            history.push_back((wire.now_ns, wire.passed[1]));
            before.push_back(wire.arrived[1]);
            let Arrives::Passed { from_ns, to_ns, in_s, .. } = arrivals.arrives() else {
                assert!(number < 3, "{number}");
                continue;
            };
            let mbps = |bytes: f64, s: f64| bytes * 8.0 / 1e6 / s;
            let seen = mbps(passed_at(&history, to_ns) - passed_at(&history, from_ns), in_s);
            // The recent arrivals, in ticks: two marks are up to a queue apart.
            let ago = [1, 2, 3].map(|ticks| {
                before
                    .len()
                    .checked_sub(1 + ticks)
                    .map_or(f64::NAN, |n| mbps(wire.arrived[1] - before[n], ticks as f64 / 2.0))
            });
            let near = ago.into_iter().map(|mbps| (seen / mbps - 1.0).abs()).fold(f64::INFINITY, f64::min);
            println!("{number}: {seen:.2} Mbit/s are seen, {ago:.2?} arrived");
            worst = worst.max(near);
        }
        assert!(worst < 0.1, "{worst}");
        assert!(wire.queue.is_empty(), "it has drained");
    }

    #[test]
    fn retransmissions_make_other_arrivals_unknown() {
        let mut arrivals = ArrivalEstimator::default();
        let mut one = connection(4000);
        for observe in 1..10 {
            one.up_bytes += 100_000;
            one.up_segments += 100;
            one.repeated_segments += [0, 1, 10, 0][observe as usize % 4];
            arrivals.observe(observe * TICK_NS, [&one].into_iter(), &[]);
            let surely = |ticks: u64| arrivals.surely((observe - ticks) * TICK_NS);
            assert!((surely(1) - [1.0, 0.5, 0.0, 1.0][observe as usize % 4]).abs() < 1e-9);
            // Over more than one tick: the worst value.
            assert!(
                observe < 3 || (surely(3) - [0.0, 0.5, 0.0, 0.0][observe as usize % 4]).abs() < 1e-9,
                "{observe}"
            );
            assert_eq!(arrivals.arrives(), Arrives::Unknown, "no mark came back");
        }
    }

    /// If connections fall silent, the information ends.
    #[test]
    fn old_marks_are_ignored() {
        let mut wire = Wire::new(20.0);
        let mut arrivals = ArrivalEstimator::default();
        for _ in 0..4 {
            wire.pass([5.0, 5.0], [5.0, 5.0]);
            arrivals.observe(wire.now_ns, [&wire.tcp].into_iter(), &[wire.other]);
        }
        let Arrives::Passed { to_ns, in_s, .. } = arrivals.arrives() else { panic!("{arrivals:?}") };
        assert!(wire.now_ns - to_ns < 2 * STEP_NS && in_s < 0.6, "{in_s}");
        arrivals.observe(wire.now_ns + CURRENT_NS, [].into_iter(), &[wire.other]);
        assert_eq!(arrivals.arrives(), Arrives::Unsure);
        arrivals.observe(wire.now_ns + HISTORY_NS, [].into_iter(), &[wire.other]);
        assert_eq!(arrivals.arrives(), Arrives::Unknown);
    }
}
