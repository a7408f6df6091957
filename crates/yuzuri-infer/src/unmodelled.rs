//! A flight that follows no known algorithm: the alternative that an algorithm must outperform to
//! be named.
//!
//! Other causes than a window move a flight, too: an application, a pacing rate, the sender's own
//! device, an unknown algorithm. If all candidates are wrong, one of them is still nearest, and a
//! longer flow makes it seem more certain. Therefore it must also be nearer than a flight without
//! congestion control. Such a flight continues from the same windows as a replay does, with the
//! simplest growth, and with constants fitted to the flow.

use crate::replay::{Backoff, Replay};
use crate::score;
use crate::verdict::Measured;
use crate::window_trace::WindowTrace;
use serde::{Deserialize, Serialize};

/// The growth of a flight that follows no algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Growth {
    /// None.
    #[default]
    Constant,
    /// By a fixed number of segments each round.
    ByAddition,
    /// By a fixed fraction each round.
    ByFactor,
}

/// A flight that follows no algorithm.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unmodelled {
    pub(crate) growth: Growth,
    /// Segments, or fraction, per round.
    pub(crate) step: f64,
    /// The standard error of the step for a single epoch, and the number of epochs.
    spread: f64,
    epochs: f64,
    /// The fraction of the window that remains after a loss.
    pub(crate) beta: f64,
    pub(crate) replay: Replay,
}

/// The scale of steps, in segments per round and as fractions of the window: other growth has about
/// the same magnitude as that of algorithms.
const USUAL_STEPS: (f64, f64) = (1.0, 0.05);

/// The number of losses of a flow with persistent losses, and the fraction of the flight that
/// remains after each if the sender does not respond: the flight is slightly smaller during loss
/// recovery.
const MANY_LOSSES: usize = 8;
const IGNORES_LOSSES: f64 = 0.8;

impl Unmodelled {
    /// Whether the remaining fraction was fitted.
    pub(crate) fn has_beta(&self) -> bool {
        !self.replay.backoff.is_empty() || !self.replay.cuts.is_empty()
    }

    /// Whether a step was fitted.
    pub(crate) fn steps(&self) -> bool {
        self.growth != Growth::Constant
    }

    /// Whether it may be a rate-based algorithm in a queue that is too short for it: it has
    /// persistent losses and responds to none, so its flight is constant except in loss recovery.
    pub(crate) fn is_by_rate_among_losses(&self) -> bool {
        self.growth == Growth::Constant
            && self.replay.backoff.len() >= MANY_LOSSES
            && self.beta >= IGNORES_LOSSES
    }

    /// The cost of fitting the step: the fraction of its prior (Cauchy's distribution) that
    /// remains. `repeated`: how many epochs count as one.
    pub(crate) fn step_cost(&self, repeated: f64) -> f64 {
        let usual = match self.growth {
            Growth::Constant => return 0.0,
            Growth::ByAddition => USUAL_STEPS.0,
            Growth::ByFactor => USUAL_STEPS.1,
        };
        let density = 1.0 / (std::f64::consts::PI * usual * (1.0 + (self.step / usual).powi(2)));
        let known = self.spread / (self.epochs / repeated).max(1.0).sqrt();
        -(density * known * (2.0 * std::f64::consts::PI).sqrt()).min(1.0).ln()
    }
}

/// The remaining fraction that best explains the windows after losses, given the likelihood of an
/// error.
fn fitted_beta(windows: impl Iterator<Item = (f32, f32)> + Clone, off: impl Fn(f32, f32, f32) -> f64) -> f64 {
    if windows.clone().next().is_none() {
        return 1.0;
    }
    let hundredths = MIN_KEPT_HUNDREDTHS..=MAX_KEPT_HUNDREDTHS;
    let likelihood = |hundredth: &u8| {
        let part = f32::from(*hundredth) / 100.0;
        windows.clone().map(|(seen, before)| off(part * before, seen, before)).sum::<f64>()
    };
    let best = hundredths.max_by(|a, b| likelihood(a).total_cmp(&likelihood(b)));
    best.map_or(1.0, |hundredth| f64::from(hundredth) / 100.0)
}

/// The fractions of a window that are tried: BBR does not reduce it, and a flight measured a round
/// late may have grown.
const MIN_KEPT_HUNDREDTHS: u8 = 20;
const MAX_KEPT_HUNDREDTHS: u8 = 120;

/// Such flights, from the replay of an algorithm: rounds, reductions and falls are the same for
/// all.
pub(crate) fn unmodelled(window_trace: &WindowTrace, of: &Replay) -> Vec<Unmodelled> {
    let mut additions = Vec::new();
    let mut factors = Vec::new();
    let mut spreads = (Vec::new(), Vec::new());
    for epoch in of.rounds.chunk_by(|a, b| a.epoch == b.epoch) {
        let counted: Vec<f64> = epoch.iter().filter(|f| f.counts).map(|f| f64::from(f.seen)).collect();
        if let [first, .., last] = counted[..] {
            let rounds = (counted.len() - 1) as f64;
            additions.push((last - first) / rounds);
            factors.push((last / first.max(1.0)).max(0.01).ln() / rounds);
            let noise = f64::from(score::window_noise(last as f32)) * std::f64::consts::SQRT_2 / rounds;
            spreads.0.push(noise);
            spreads.1.push(noise / last.max(1.0));
        }
    }
    let read = |backoff: &Backoff| {
        window_trace.reductions.get(backoff.reduction).is_some_and(|reduction| reduction.before > 0.0)
    };
    let beta = fitted_beta(
        of.backoff.iter().filter(|b| read(b)).map(|b| (b.seen, b.before)),
        score::off_by_reduction,
    );
    let fallen = fitted_beta(of.cuts.iter().map(|c| (c.seen, c.before)), score::off_by_fall);
    let epochs = additions.len() as f64;
    let median = |values: Vec<f64>| Measured::of(values).map(|measured| measured.median);
    let spread = [0.0, median(spreads.0).unwrap_or(1.0), median(spreads.1).unwrap_or(1.0)];
    let (addition, factor) = (median(additions).unwrap_or(0.0), median(factors).unwrap_or(0.0));
    let steps = [(Growth::Constant, 0.0), (Growth::ByAddition, addition), (Growth::ByFactor, factor)];
    steps
        .into_iter()
        .zip(spread)
        .map(|((growth, step), spread)| {
            let mut replay = of.clone();
            (replay.held_rounds, replay.hold_periods) = (0, 0);
            let mut cuts = replay.cuts.iter_mut().peekable();
            let (mut epoch, mut from, mut since) = (None, 0.0, 0.0);
            let at = |from: f64, since: f64| match growth {
                Growth::Constant => from,
                Growth::ByAddition => from + step * since,
                Growth::ByFactor => from * (step * since).exp(),
            };
            for f in replay.rounds.iter_mut() {
                while let Some(cut) = cuts.next_if(|cut| cut.round <= f.round) {
                    cut.predicted = if epoch.is_some() { at(from, since) as f32 } else { cut.before };
                    cut.if_reduced = Some(cut.before * fallen as f32);
                }
                if !f.counts {
                    continue;
                }
                if epoch != Some(f.epoch) {
                    (epoch, from, since) = (Some(f.epoch), f64::from(f.seen), 0.0);
                }
                f.predicted = at(from, since) as f32;
                since += 1.0;
            }
            let mut left = None;
            for backoff in &mut replay.backoff {
                // Before a second reduction in a row no flight shows the window: it is the result
                // of the first reduction.
                let before = if read(backoff) { backoff.before } else { left.unwrap_or(backoff.before) };
                backoff.predicted = before * beta as f32;
                left = Some(backoff.seen);
            }
            Unmodelled { growth, step, spread, epochs, beta, replay }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{Backoff, Growth, Replay, Unmodelled};
    use crate::identify;
    use crate::name::{candidates, rank};
    use crate::verdict::Answer;
    use crate::window_trace::{CapturePoint, Cause, Reduction, Round, WindowTrace};
    use yuzuri_cca::CcaKind;
    use yuzuri_limits::Limit;

    const RTT_NS: i64 = 20_000_000;

    /// Slow start, and then epochs of `rounds` rounds with these windows, with a loss between them.
    fn trace(epochs: usize, rounds: usize, window: impl Fn(usize) -> f32) -> WindowTrace {
        let mut trace = WindowTrace {
            capture_point: CapturePoint::Sender,
            mss_bytes: 1448,
            min_rtt_us: 20_000,
            handshake_rtt_us: Some(20_000),
            ..WindowTrace::default()
        };
        let round = |trace: &mut WindowTrace, window: f32| {
            let start_ns = trace.rounds.len() as i64 * RTT_NS;
            trace.rounds.push(Round {
                start_ns,
                end_ns: start_ns + RTT_NS,
                window,
                acked: window,
                acks: window as u32,
                sent: window as u32,
                rtt_first_us: 20_000,
                rtt_min_us: 20_000,
                rtt_max_us: 20_000,
                rtt_last_us: 20_000,
                rtt_mean_us: 20_000,
                ..Round::default()
            });
        };
        [4.0, 8.0, 16.0].into_iter().for_each(|window| round(&mut trace, window));
        for epoch in 0..epochs {
            if epoch > 0 {
                let at_ns = trace.rounds.len() as i64 * RTT_NS;
                let (before, place) = (window(rounds - 1), trace.rounds.len() as u32);
                let reduction = Reduction::begun(at_ns, Cause::Recovery, before);
                trace.reductions.push(Reduction { after: window(0), round: place, ..reduction });
            }
            (0..rounds).for_each(|n| round(&mut trace, window(n)));
        }
        trace
    }

    #[test]
    fn a_constant_window_follows_no_algorithm() {
        // Like an application that writes at a steady rate, with an occasional late write.
        let swings = |n: usize| if n % 20 == 10 { 16.0 } else { 10.0 };
        let verdict = identify(trace(1, 400, swings), None, None, None);
        assert!(matches!(verdict.answer, Answer::Unknown { .. }), "{:?}", verdict.answer);
        let by_window =
            verdict.ranked.iter().find(|ranked| CcaKind::of(&ranked.name) != Some(CcaKind::Model)).unwrap();
        assert!(verdict.none.probability > 10.0 * by_window.probability, "{:?} {by_window:?}", verdict.none);
    }

    #[test]
    fn an_algorithm_explains_its_own_windows_with_fewer_constants() {
        let reno = rank(&trace(12, 21, |n| 20.0 + n as f32), &candidates());
        let best = &reno.candidates.first().unwrap().0;
        assert_eq!(best.name, "reno");
        assert!(reno.none.probability < 0.1 && best.probability > 0.5, "{:?} {best:?}", reno.none);
    }

    #[test]
    fn rounds_limited_elsewhere_are_no_evidence_for_a_window() {
        let answer = |limit, part: usize| {
            let mut reno = trace(12, 21, |n| 20.0 + n as f32);
            for (place, round) in reno.rounds.iter_mut().enumerate() {
                round.limited_by = Some(if place % 10 < part { limit } else { Limit::Loss });
            }
            identify(reno, None, None, None).answer
        };
        assert!(matches!(answer(Limit::Pacing, 3), Answer::Named { name, .. } if name == "reno"));
        assert!(matches!(answer(Limit::Path, 9), Answer::Named { name, .. } if name == "reno"));
        for (limit, word) in [(Limit::Pacing, "pacing"), (Limit::SendBuffer, "send buffer")] {
            let Answer::Unknown { because } = answer(limit, 8) else { panic!("{limit} is not the window") };
            assert!(because.contains(word) && because.contains("Mbit/s"), "{because}");
        }
    }

    /// Reno gets its name: a certain answer of LP would be wrong.
    fn named(trace: WindowTrace) -> (String, f64) {
        let verdict = identify(trace, None, None, None);
        let Answer::Named { name, set } = &verdict.answer else { panic!("{:?}", verdict.answer) };
        assert!(set.contains(&"lp".to_owned()), "nothing distinguishes LP from it: {set:?}");
        (name.clone(), verdict.ranked[0].probability)
    }

    #[test]
    fn a_sender_stalled_for_a_round_has_not_reduced_its_window() {
        let mut reno = trace(12, 21, |n| 20.0 + n as f32);
        let before = named(reno.clone());
        for place in [60, 100, 160] {
            reno.rounds[place].window *= 0.5;
        }
        let after = named(reno);
        assert_eq!((&*before.0, &*after.0), ("reno", "reno"));
        assert!((before.1 - after.1).abs() < 0.1, "{before:?} {after:?}");
    }

    #[test]
    fn a_sender_stalled_in_slow_start_is_still_in_slow_start() {
        let mut reno = trace(12, 21, |n| 20.0 + n as f32);
        let before = named(reno.clone());
        // A stall after 4, 8 and 16 segments; afterwards the flight continues unchanged.
        let more = |window: f32| Round { window, acked: window, acks: window as u32, ..reno.rounds[2] };
        let stalled = [2.0, 1.0, 19.0].map(more);
        reno.rounds.splice(3..3, stalled);
        for (place, round) in reno.rounds.iter_mut().enumerate() {
            (round.start_ns, round.end_ns) = (place as i64 * RTT_NS, (place as i64 + 1) * RTT_NS);
        }
        for reduction in &mut reno.reductions {
            (reduction.round, reduction.at_ns) = (reduction.round + 3, reduction.at_ns + 3 * RTT_NS);
        }
        let after = named(reno);
        assert_eq!((&*before.0, &*after.0), ("reno", "reno"));
        assert!((before.1 - after.1).abs() < 0.1, "{before:?} {after:?}");
    }

    #[test]
    fn a_sender_restarts_with_slow_start_after_idle() {
        // From ten segments to three quarters of the window, and then one more each round.
        let idle = |from: usize, idle_us| {
            let mut reno = trace(12, 21, |n| 20.0 + n as f32);
            for epoch in [3, 5, 8] {
                let begin = 3 + epoch * 21 + from;
                reno.rounds[begin].idle_us = idle_us;
                for (since, round) in reno.rounds[begin..3 + (epoch + 1) * 21].iter_mut().enumerate() {
                    let beta = 20.0 + (from as f32 * 0.75).floor();
                    round.window = match since {
                        0 => 10.0,
                        1 => 20.0,
                        _ => beta + since as f32 - 2.0,
                    };
                    round.acked = round.window;
                    (round.acks, round.sent) = (round.window as u32, round.window as u32);
                }
                let end = 20.0 + (from as f32 * 0.75).floor() + (21 - from - 3) as f32;
                (reno.reductions[epoch].before, reno.reductions[epoch].after) = (end, 20.0);
            }
            reno
        };
        let (name, probability) = named(idle(10, 500_000));
        assert!(name == "reno" && probability > 0.6, "{name} {probability}");
        // Without an idle time such falls are no restarts.
        let verdict = identify(idle(10, 0), None, None, None);
        assert!(verdict.ranked.iter().find(|ranked| ranked.name == "reno").unwrap().probability < 0.5);
    }

    #[test]
    fn a_window_that_something_else_hides_after_a_loss_is_read_where_it_shows() {
        let mut reno = trace(12, 21, |n| 20.0 + n as f32);
        let before = named(reno.clone());
        // A receiver that stopped reading holds the flight in the first rounds after some losses.
        for epoch in [2, 5, 6, 9] {
            let begin = 3 + epoch * 21;
            for (round, flight) in reno.rounds[begin..].iter_mut().zip([12.0, 5.0]) {
                (round.window, round.acked) = (flight, flight);
                (round.acks, round.sent) = (flight as u32, flight as u32);
                round.limits.receiver = true;
            }
            reno.reductions[epoch - 1].after = 12.0;
        }
        let after = named(reno);
        assert_eq!((&*before.0, &*after.0), ("reno", "reno"));
        assert!((before.1 - after.1).abs() < 0.1, "{before:?} {after:?}");
    }

    #[test]
    fn a_window_that_something_else_hides_before_a_loss_is_read_from_what_it_leaves() {
        // The receiver's window held the flight before the first loss, and the window was twice as
        // large: it leaves the whole flight.
        let mut reno = trace(12, 21, |n| 20.0 + n as f32);
        let before = named(reno.clone());
        let begin = reno.rounds.len() - 11 * 21;
        for (n, round) in reno.rounds[3..begin].iter_mut().enumerate() {
            round.window = 20.0;
            round.limits.receiver = true;
            (round.acked, round.acks) = (20.0, 20);
            round.limited_by = (n > 1).then_some(Limit::ReceiverWindow);
        }
        reno.rounds[begin].limits.receiver = true;
        reno.reductions[0].before = 20.0;
        let after = named(reno);
        assert_eq!((&*before.0, &*after.0), ("reno", "reno"));
        assert!((before.1 - after.1).abs() < 0.1, "{before:?} {after:?}");
    }

    #[test]
    fn a_wandering_flight_is_not_attributed_to_nv() {
        // Like behind the sender's own device: changes of less than a segment per round in both
        // directions, which NV never makes.
        let verdict = identify(trace(1, 300, |n| 40.0 + 12.0 * (n as f32 / 25.0).sin()), None, None, None);
        assert!(matches!(verdict.answer, Answer::Unknown { .. }), "{:?}", verdict.answer);
        let nv = verdict.ranked.iter().find(|ranked| ranked.name == "nv").unwrap();
        assert!(nv.score.residual > 2.0, "what it holds does not follow the flight: {nv:?}");
    }

    #[test]
    fn the_cost_of_a_step_rises_with_its_certainty_and_rarity() {
        let of = |growth, step, spread, epochs| Unmodelled {
            growth,
            step,
            spread,
            epochs,
            ..Unmodelled::default()
        };
        let cost = |step, spread, epochs| of(Growth::ByAddition, step, spread, epochs).step_cost(4.0);
        assert_eq!(of(Growth::Constant, 0.0, 0.1, 20.0).step_cost(4.0), 0.0);
        assert!(cost(7.0, 0.2, 20.0) > cost(1.0, 0.2, 20.0) + 2.0);
        assert!(cost(1.0, 0.05, 20.0) > cost(1.0, 0.2, 20.0) + 1.0);
        assert!(cost(1.0, 0.2, 80.0) > cost(1.0, 0.2, 20.0) + 0.5);
        assert_eq!(cost(1.0, 100.0, 1.0), 0.0, "what is not known costs nothing");
    }

    #[test]
    fn a_flight_that_ignores_losses_may_be_rate_based() {
        let of = |growth, beta, losses| {
            let loss = Backoff { reduction: 0, predicted: 13.0, seen: 13.0, before: 14.0 };
            let replay = Replay { backoff: vec![loss; losses], ..Replay::default() };
            Unmodelled { growth, beta, replay, ..Unmodelled::default() }.is_by_rate_among_losses()
        };
        assert!(of(Growth::Constant, 0.87, 47) && of(Growth::Constant, 1.0, 8));
        assert!(!of(Growth::Constant, 0.5, 47), "it backs off");
        assert!(!of(Growth::Constant, 0.87, 3), "now and then");
        assert!(!of(Growth::ByAddition, 0.87, 47), "it grows");
    }

    #[test]
    fn growth_that_no_algorithm_has_is_fitted() {
        // Three segments a round, and a quarter remains.
        let none = rank(&trace(12, 21, |n| 20.0 + 3.0 * n as f32), &candidates()).none;
        assert!(none.probability > 0.9 && (none.step - 3.0).abs() < 0.01, "{none:?}");
        assert!((none.beta - 0.25).abs() < 0.02, "{none:?}");
    }
}
