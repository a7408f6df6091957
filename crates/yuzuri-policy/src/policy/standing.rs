//! Whether a queue stays although the leader announces a shorter one.
//!
//! In the phase `hold`, a leader announces the queue that windows leave. If the queue is longer, an
//! honest leader halves the data in flight, and judges the response once it shows ([`settles`]):
//! the queue has become shorter, or the leader announces smaller windows again, or another phase.
//! If the path has become slower, it knows the former rates for longer ([`memory`]). So a longer
//! queue without any of these after both times is not the group's own: somebody fills it who does
//! not obey the bounds, and obeying them does not shorten it. Then the terminal does by itself what
//! the leader should announce: its windows carry its share behind that queue.
//!
//! A terminal may also have a longer queue than others, for example that of its own radio, of which
//! a leader knows only the mean. Then larger windows lengthen the queue, and carry no more, so that
//! the terminal obeys again.

use crate::Moment;
use crate::capacity::{AGAIN, AGAIN_AT_LATEST, HALF_STEP, STEADY, STEP, memory, settles};
use crate::own::{MAX_SPAN, MIN_SPAN};
use std::time::Duration;

/// What a flow with an announced queue shows at one decision.
#[derive(Debug, Clone, Copy)]
pub(super) struct Announced {
    /// Its rate, bit/s.
    pub(super) rate_bps: f64,
    /// Its queue, µs.
    pub(super) queue_us: u32,
    /// Its smoothed RTT, and the group's largest, µs.
    pub(super) srtt_us: u32,
    pub(super) group_srtt_us: u32,
    /// Its round-trip time with the announced queue, seconds.
    pub(super) round_trip_s: f64,
    /// Its announced window, and the least one that its bound can be, segments.
    pub(super) window: f64,
    pub(super) min_window: f64,
    /// Whether its window is at its bound.
    pub(super) at_bound: bool,
}

impl Announced {
    /// Whether obeying carries less than half of the announced share, which is what a terminal
    /// guarantees itself.
    fn is_exceeded(&self) -> bool {
        self.round_trip_s < STEP * f64::from(self.srtt_us) / 1e6
    }

    /// The largest round-trip time, as far as the leader allows for it.
    fn round_trip(&self) -> Duration {
        Duration::from_micros(self.srtt_us.max(self.group_srtt_us).into()).min(MAX_SPAN / 2)
    }

    /// The time in which a leader judges the response to a step.
    fn settles(&self) -> Duration {
        settles(self.round_trip())
    }

    /// The time after which an honest leader has responded to a queue.
    fn responds(&self) -> Duration {
        memory(self.round_trip()) + self.settles()
    }
}

/// What was found when the queue had been longer than announced for too long.
#[derive(Debug, Clone, Copy)]
struct Found {
    at: Moment,
    /// For how long the result holds.
    holds: Duration,
    /// Round-trip times and rates until then.
    before: Sums,
    /// Larger windows have only lengthened the queue since.
    is_own: bool,
}

/// Sums of round-trip times, µs, and rates, bit/s, over some decisions.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    srtt_us: f64,
    rate_bps: f64,
    decisions: f64,
}

impl Sums {
    fn mean_srtt_us(&self) -> f64 {
        self.srtt_us / self.decisions.max(1.0)
    }

    fn mean_bps(&self) -> f64 {
        (self.rate_bps / self.decisions.max(1.0)).max(1.0)
    }
}

/// The state of a flow's evidence.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Standing {
    judged: Option<Moment>,
    /// For how long the queue has been longer than announced, less the time in which it was not.
    exceeded: Duration,
    /// The announced window before that, or since the leader's last step, segments.
    window: f64,
    /// The sums over the decisions since then.
    sums: Sums,
    found: Option<Found>,
}

impl Standing {
    /// Follows a decision; `None`: no queue is announced. Returns the queue that stays, µs.
    pub(super) fn follow(&mut self, now: Moment, flow: Option<Announced>) -> Option<u32> {
        // Decisions are half a second apart.
        let since_last = self.judged.map_or(Duration::ZERO, |at| now.since(at)).min(MIN_SPAN);
        self.judged = Some(now);
        if let Some(found) = self.found.as_mut().filter(|found| now.since(found.at) < found.holds) {
            self.exceeded = Duration::ZERO;
            let flow = flow?;
            if now.since(found.at) > flow.settles() {
                // The queue of the terminal's own windows grows with them, and carries no more.
                let time = f64::from(flow.srtt_us) / found.before.mean_srtt_us();
                let rate = flow.rate_bps / found.before.mean_bps();
                found.is_own |= rate <= time || rate * STEADY <= 1.0;
            }
            return Some(flow.queue_us).filter(|_| !found.is_own);
        }
        // A window at its minimum shows nothing: the leader cannot announce a smaller one.
        let shows = |flow: &Announced| {
            flow.is_exceeded() && flow.at_bound && HALF_STEP * flow.window >= flow.min_window
        };
        let Some(flow) = flow.filter(shows) else {
            self.window = flow.map_or(self.window, |flow| flow.window);
            self.exceeded = self.exceeded.saturating_sub(since_last);
            return None;
        };
        // A step of the leader explains the queue for as long as it takes to judge it.
        if flow.window < HALF_STEP * self.window {
            self.exceeded = self.exceeded.saturating_sub(flow.settles());
            self.window = flow.window;
        } else if self.exceeded.is_zero() {
            (self.window, self.sums) = (flow.window, Sums::default());
        }
        self.exceeded += since_last;
        self.sums.srtt_us += f64::from(flow.srtt_us);
        self.sums.rate_bps += flow.rate_bps;
        self.sums.decisions += 1.0;
        if self.exceeded <= flow.responds() {
            return None;
        }
        let before = self.found.filter(|found| now.since(found.at) < 2 * AGAIN_AT_LATEST);
        let holds = before.map_or(AGAIN, |found| (2 * found.holds).min(AGAIN_AT_LATEST));
        self.found = Some(Found { at: now, holds, before: self.sums, is_own: false });
        Some(flow.queue_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(500);

    /// A path of 10 ms with 100 ms of queue. 20 ms of it are announced, with this window.
    fn announced(window: f64) -> Announced {
        Announced {
            rate_bps: 4e6,
            queue_us: 100_000,
            srtt_us: 110_000,
            group_srtt_us: 110_000,
            round_trip_s: 0.030,
            window,
            min_window: 4.0,
            at_bound: true,
        }
    }

    /// At which of these decisions the queue is found to stay, if larger windows carry this much.
    fn stays(decisions: impl IntoIterator<Item = Option<Announced>>, rate_bps: f64) -> Vec<usize> {
        let mut standing = Standing::default();
        let mut stays = false;
        let mut found = Vec::new();
        for (tick, flow) in decisions.into_iter().enumerate() {
            let flow = flow.map(|flow| Announced { rate_bps: if stays { rate_bps } else { 4e6 }, ..flow });
            let now_stays = standing.follow(Moment::at(TICK * (tick as u32 + 1)), flow).is_some();
            // Without an announced queue there is no bound either.
            stays = if flow.is_some() { now_stays } else { stays };
            found.extend(now_stays.then_some(tick));
        }
        found
    }

    #[test]
    fn a_queue_that_no_step_answers_is_not_the_groups_own() {
        let found = stays([Some(announced(40.0)); 100], 9e6);
        // 5.5 s, and half a second until the next decision.
        assert_eq!(found[0], 12);
        // It holds for 16 s; then bounds are obeyed for 5.5 s; then it holds for 32 s.
        assert_eq!(found.iter().filter(|tick| **tick < 50).count(), 32);
        assert_eq!(found.iter().filter(|tick| **tick >= 50).count(), 100 - 55);
    }

    #[test]
    fn a_queue_of_its_own_windows_is_left_after_a_step() {
        let found = stays([Some(announced(40.0)); 100], 4e6);
        // 1.5 s, and half a second until the next decision; not again within 16 s.
        assert_eq!(found.iter().filter(|tick| **tick < 12 + 32).count(), 4, "{found:?}");
        assert!(found.len() <= 8, "{found:?}");
    }

    #[test]
    fn a_leader_that_steps_down_keeps_its_word_until_windows_are_least() {
        // Each step takes 1.5 s.
        let steps = (0..60).map(|tick| Some(announced((1000.0 * 0.5_f64.powi(tick / 3)).max(4.0))));
        assert_eq!(stays(steps, 9e6), []);
    }

    #[test]
    fn a_queue_that_drains_or_has_another_phase_is_the_leaders_business() {
        let drains = |tick: u32| Announced {
            srtt_us: 110_000 >> (tick % 6 / 2),
            ..announced(if tick % 6 < 4 { 20.0 } else { 40.0 })
        };
        assert_eq!(stays((0..60).map(|tick| Some(drains(tick))), 9e6), []);
        let contends = |tick| Some(announced(40.0)).filter(|_| tick % 6 < 3);
        assert_eq!(stays((0..60).map(contends), 9e6), []);
    }

    /// Other phases in between do not make it forget.
    #[test]
    fn a_queue_that_stays_most_of_the_time_is_found() {
        let most = |tick| Some(announced(40.0)).filter(|_| tick % 10 < 8);
        let found = stays((0..100).map(most), 9e6);
        assert!(found.len() > 40, "{found:?}");
    }
}
