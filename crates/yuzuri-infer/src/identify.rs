//! From a window trace to a verdict.

use crate::cause::{held_by, limited_elsewhere, rate_mbps, too_few};
use crate::chance;
use crate::evidence;
use crate::loss_trace;
use crate::name::{NoneOfThese, Ranked, Ranking, candidates, rank, temperature};
use crate::packets::Seen;
use crate::probes::are_shown;
use crate::score;
use crate::unmodelled::Growth;
use crate::verdict::{Answer, Verdict};
use crate::window_trace::{Round, SLOW_START_GROWTH, WindowTrace};
use std::net::SocketAddr;
use yuzuri_cca::Algorithm;
use yuzuri_stats::upper_median_by;

/// Minimum number of rounds after slow start with evidence that an answer needs.
const MIN_ROUNDS: usize = 8;
/// Minimum number of rounds for a flow to be replayed at all.
const MIN_SEEN: usize = 3;
/// Minimum number of windows that grew from one loss to the next, where windows are seen only at
/// losses.
const MIN_LOSSES: usize = 3;
/// An algorithm with at least this fraction of the best one's probability is not distinguished from
/// it.
const INDISTINGUISHABLE: f64 = 0.1;
/// An algorithm with at least this fraction of the best one's likelihood is not distinguished,
/// either: a high prior must not hide another algorithm that explains the observations about as
/// well.
const AS_LIKELY: f64 = 0.5;
/// The fraction of the best one's probability from which on a flight that follows no algorithm is
/// not distinguished; its prior is that of the less common algorithms.
const NONE_INDISTINGUISHABLE: f64 = 0.2;
/// The flight must have followed at least one in this many decisions of an algorithm that may hold
/// its window (NV). In labelled captures of NV the flight followed 23 to 90 % of the decisions.
/// Where something else held the flight, it followed none to 12 %.
const FOLLOWS: usize = 6;
/// The possible causes of a constant flight, if packets do not show which of them it is.
const MAY_HOLD: &str = "the application, a small send buffer, pacing or the sender's own device may hold it";
/// The maximum number of algorithms in an answer: a longer list is of no use.
const MAX_NAMES: usize = 6;

/// Identifies one direction of a flow.
pub fn identify(
    window_trace: WindowTrace,
    seen: Option<Seen>,
    from: Option<SocketAddr>,
    to: Option<SocketAddr>,
) -> Verdict {
    let window_trace = loss_trace::observed_rounds(window_trace);
    let Ranking { candidates: ranked, none } = if window_trace.rounds.len() < MIN_SEEN {
        Ranking::default()
    } else {
        rank(&window_trace, &candidates())
    };
    let (constants, evidence) = evidence::gather(&window_trace, ranked.first());
    let mut predicted = vec![f32::NAN; window_trace.rounds.len()];
    if let Some((_, best)) = ranked.first() {
        for round in best.rounds.iter().filter(|round| round.counts) {
            predicted[round.round] = round.predicted;
        }
    }
    let (held, moved) =
        ranked.first().map_or((0, 0), |(_, best)| (best.held_rounds as usize, best.moved as usize));
    let falls = ranked.first().map_or(0, |(_, best)| best.cuts.len());
    let ranked: Vec<Ranked> = ranked.into_iter().map(|(ranked, _)| ranked).collect();
    let blind = seen
        .as_ref()
        .filter(|seen| evidence::is_blind(&window_trace, seen) && window_trace.loss_trace.is_none())
        .map(|_| evidence::BLIND.to_owned());
    let thin = || thin(&window_trace, &predicted, ranked.first());
    let constant_flight = || constant_flight(held, moved, ranked.first()?);
    let none_of_these = || none_of_these(&none, ranked.first()?, window_trace.loss_trace.is_some());
    let interrupted = || interrupted(&window_trace, falls, ranked.first()?);
    let beyond_noise = || beyond_noise(&window_trace, ranked.first()?);
    let with_cause = |because: String| because + &standing(&window_trace, &predicted).unwrap_or_default();
    let explains_nothing = || {
        beyond_noise()
            .map(with_cause)
            .or_else(constant_flight)
            .or_else(interrupted)
            .or_else(|| none_of_these().map(with_cause))
    };
    let answer = match blind.or_else(thin).or_else(explains_nothing) {
        Some(because) => Answer::Unknown { because },
        None => named(&window_trace, &ranked),
    };
    let notes = evidence::notes(&window_trace, seen.as_ref());
    Verdict {
        from,
        to,
        answer,
        ranked,
        none,
        evidence,
        notes,
        constants,
        seen,
        capture_point: window_trace.capture_point,
        // The acknowledgements are no longer needed.
        window_trace: WindowTrace { loss_trace: None, ..window_trace },
        predicted,
    }
}

/// Why the evidence is too weak for an answer.
fn thin(window_trace: &WindowTrace, predicted: &[f32], best: Option<&Ranked>) -> Option<String> {
    let counted = predicted.iter().filter(|window| !window.is_nan()).count();
    let most = window_trace.rounds.iter().map(|round| round.window).fold(0.0, f32::max);
    let first = window_trace.rounds.first().map_or(0.0, |round| round.window);
    if window_trace.loss_trace.is_some() {
        return at_losses(counted);
    }
    if window_trace.rounds.len() < MIN_SEEN {
        return Some(match window_trace.rounds.len() {
            0 => "no acknowledgement of its data was seen".to_owned(),
            1 => format!("the flow lasted a single round trip, and {MIN_SEEN} are needed"),
            count => format!("the flow lasted {count} round trips, and {MIN_SEEN} are needed"),
        });
    }
    if most <= first.max(10.0) && window_trace.reductions.is_empty() {
        let cause = held_by(window_trace).unwrap_or_else(|| MAY_HOLD.to_owned());
        let size = match most.round() as usize {
            0 => "less than a segment".to_owned(),
            count => yuzuri_stats::counted(count, "segment"),
        };
        return Some(format!("the flow never left its initial window ({size}): {cause}"));
    }
    if counted < MIN_ROUNDS {
        return Some(too_few(window_trace, counted, MIN_ROUNDS));
    }
    let best = best?;
    if let Some(because) = limited_elsewhere(window_trace, predicted, best, MIN_ROUNDS) {
        return Some(because);
    }
    if evidence::is_by_rate(best) {
        // No window explains a flight that follows a rate. Its probes decide.
        let shown = are_shown(window_trace, best.name == Algorithm::Bbr3.name());
        return (!shown || !chance::is_beaten(window_trace, predicted, best))
            .then(|| steady(window_trace, best));
    }
    let moved = moves(window_trace) + window_trace.reductions.len();
    if moved < MIN_ROUNDS {
        return Some(format!(
            "the flight changed {} in {} after slow start: a constant flight identifies no algorithm; {MAY_HOLD}",
            yuzuri_stats::counted(moved, "time"),
            yuzuri_stats::counted(counted, "round")
        ));
    }
    if best.score.is_other_beta() {
        let more = if best.score.beta_off > 0.0 { "more" } else { "less" };
        return Some(format!(
            "none of the known algorithms: {} comes nearest, but leaves {more} of the window after losses than was observed",
            best.name
        ));
    }
    None
}

/// Why no algorithm is named: noise does not explain the best one's errors.
fn beyond_noise(window_trace: &WindowTrace, best: &Ranked) -> Option<String> {
    if evidence::is_by_rate(best) {
        return None;
    }
    best.score.is_beyond_noise(temperature(window_trace)).then(|| {
        format!(
            "none of the known algorithms: {} comes nearest, and an observation is off by {:.1} times what noise explains",
            best.name,
            best.score.excess()
        )
    })
}

/// The same for windows that are seen only at losses.
fn at_losses(counted: usize) -> Option<String> {
    let at_losses = evidence::AT_LOSSES;
    (counted < MIN_LOSSES)
        .then(|| format!("{at_losses}, which predict {counted} windows: {MIN_LOSSES} are needed"))
}

/// In three of four rounds, a steady flight is within this many segments plus this fraction of its
/// size.
const STEADY: (f32, f32) = (2.0, 0.03);
/// The least growth of a window without losses, segments per round trip: that of CUBIC's
/// Reno-friendly region (RFC 9438 section 4.3: 3 × 0.3 / 1.7).
const MIN_GROWTH: f32 = 0.53;

/// States that a flight without losses is constant, or has become constant and stayed so for longer
/// than a growing window takes through the range that counts as constant. Packets do not show the
/// cause.
fn standing(window_trace: &WindowTrace, predicted: &[f32]) -> Option<String> {
    if !window_trace.reductions.is_empty() || window_trace.loss_trace.is_some() {
        return None;
    }
    let rounds = || window_trace.rounds.iter().zip(predicted).filter(|(_, window)| !window.is_nan());
    let windows: Vec<f32> = rounds().map(|(round, _)| round.window).collect();
    let size = upper_median_by(&mut windows[windows.len() / 2..].to_vec(), f32::total_cmp)?;
    let blur = STEADY.0 + STEADY.1 * size;
    let from = constant_from(&windows, size, blur)?;
    if from > 0 && ((windows.len() - from) as f32) * MIN_GROWTH <= 2.0 * blur {
        return None;
    }
    let first_ns = window_trace.rounds.first().map_or(0, |round| round.start_ns);
    let since_s = rounds().nth(from).map_or(0.0, |(round, _)| (round.start_ns - first_ns) as f64 / 1e9);
    let since = if from > 0 { format!(" from {since_s:.1} s on") } else { String::new() };
    Some(format!(
        "; the flight is constant at {size:.0} segments{since} ({:.1} Mbit/s): {MAY_HOLD}",
        rate_mbps(window_trace)
    ))
}

/// The index of the first window from which on three of four windows have this size.
fn constant_from(windows: &[f32], size: f32, blur: f32) -> Option<usize> {
    let (mut near, mut from) = (0, None);
    for (count, (place, window)) in (1..).zip(windows.iter().enumerate().rev()) {
        let is_near = (window - size).abs() <= blur;
        near += usize::from(is_near);
        // The range begins with a window of this size, unless it contains all windows.
        if near * 4 >= count * 3 && (is_near || place == 0) {
            from = Some(place);
        }
    }
    from
}

/// Why no algorithm is named if a flight without one is likelier than the best algorithm, or cannot
/// be distinguished from it.
fn none_of_these(none: &NoneOfThese, best: &Ranked, at_losses: bool) -> Option<String> {
    let grows = match none.growth {
        Growth::Constant => "is constant".to_owned(),
        Growth::ByAddition => format!("grows by {:.2} segments a round", none.step),
        Growth::ByFactor => format!("grows by {:.1} % a round", none.step * 100.0),
    };
    let beta_text = if none.score.reductions > 0 {
        format!(" and leaves {:.2} of the window after losses", none.beta)
    } else {
        String::new()
    };
    let how = if none.probability > best.probability {
        "fits better"
    } else if none.probability >= NONE_INDISTINGUISHABLE * best.probability {
        "fits as well"
    } else {
        return None;
    };
    if at_losses {
        return Some(format!(
            "none of the known algorithms: {} comes nearest, but does not predict the windows at losses better than chance",
            best.name
        ));
    }
    Some(format!(
        "none of the known algorithms: {} comes nearest, but a flight that only {grows}{beta_text} {how}",
        best.name
    ))
}

/// Why an algorithm that may hold its window (NV) is not named if the flight followed hardly any of
/// its decisions. Some of its decisions may differ from the replay's, but any flight that does not
/// move looks as if all of them did.
fn constant_flight(held: usize, moved: usize, best: &Ranked) -> Option<String> {
    let decided = held + moved;
    (held > 0 && moved * FOLLOWS < decided).then(|| {
        format!(
            "{} comes nearest, but the flight changed in {moved} of {} in which it would have changed its window: the flight is constant; \
             {MAY_HOLD}",
            best.name,
            yuzuri_stats::counted(decided, "round")
        )
    })
}

/// Why an algorithm that reduces its window at random times (LP, CDG) is not named if the
/// application had nothing to send as often as the flight fell without a loss: nothing predicts the
/// times of its reductions, so that pauses explain them as well.
fn interrupted(window_trace: &WindowTrace, falls: usize, best: &Ranked) -> Option<String> {
    let at_random = Algorithm::named(&best.name).is_some_and(|named| named.facts().backs_off_at_random());
    let paused = |round: &&Round| round.limits.application || round.idle_us > 0;
    let pauses = window_trace.rounds.iter().filter(paused).count();
    (at_random && falls > 0 && pauses >= falls).then(|| {
        format!(
            "{} comes nearest, whose window falls at random times: it fell {} without a sign of loss, and the application had no more to \
             send in {}, which explains that as well",
            best.name,
            yuzuri_stats::counted(falls, "time"),
            yuzuri_stats::counted(pauses, "round")
        )
    })
}

/// How often the flight changed by a segment or more between consecutive rounds that the window
/// limited.
fn moves(window_trace: &WindowTrace) -> usize {
    let limited: Vec<f32> = window_trace
        .rounds
        .iter()
        .filter(|round| round.is_cwnd_limited())
        .map(|round| round.window)
        .collect();
    // Every flight moves in slow start.
    let started =
        limited.windows(2).position(|pair| pair[1] < pair[0] * SLOW_START_GROWTH).unwrap_or(limited.len());
    limited[started..].windows(2).filter(|pair| (pair[1] - pair[0]).abs() >= 1.0).count()
}

/// Text for a flight that follows a rate, without the probes of an algorithm that sets one.
fn steady(window_trace: &WindowTrace, best: &Ranked) -> String {
    let rate_mbps = rate_mbps(window_trace);
    format!(
        "the flight follows a rate ({rate_mbps:.1} Mbit/s), not a window, and shows no probes at the times of {}: the application, pacing, the \
         sender's own device or an algorithm whose probes the path hides may set it",
        best.name
    )
}

fn named(window_trace: &WindowTrace, ranked: &[Ranked]) -> Answer {
    let prior = |ranked: &Ranked| Algorithm::named(&ranked.name).map_or(0.0, score::prior);
    let likelihood = |ranked: &Ranked| ranked.probability / prior(ranked).exp();
    let best = ranked.first().map_or((0.0, 0.0), |best| (best.probability, likelihood(best)));
    let is_as_good = |ranked: &&Ranked| {
        ranked.probability >= INDISTINGUISHABLE * best.0 || likelihood(ranked) >= AS_LIKELY * best.1
    };
    let set: Vec<String> = ranked.iter().filter(is_as_good).map(|r| r.name.clone()).collect();
    if set.len() > MAX_NAMES {
        return Answer::Unknown {
            because: format!("{} algorithms explain the window equally well", set.len())
                + &held_by(window_trace).map_or_else(String::new, |cause| format!("; {cause}")),
        };
    }
    Answer::Named { name: set.first().cloned().unwrap_or_default(), set }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window_trace::{Cause, Limits, Reduction};
    use yuzuri_limits::Limit;

    fn trace(windows: impl Iterator<Item = f32>, limited_by: Option<Limit>, receiver: bool) -> WindowTrace {
        let rounds = windows.zip(0..).map(|(window, place): (f32, i64)| Round {
            start_ns: place * 50_000_000,
            end_ns: (place + 1) * 50_000_000,
            window,
            limited_by,
            limits: Limits { receiver, ..Limits::default() },
            ..Round::default()
        });
        let rounds: Vec<Round> = rounds.collect();
        let acked_bytes = rounds.len() as u64 * 25_000;
        WindowTrace { rounds, acked_bytes, ..WindowTrace::default() }
    }

    #[test]
    fn an_unknown_answer_states_what_limited_the_flow() {
        let stood = |limited_by, receiver| trace(std::iter::repeat_n(4.0, 20), limited_by, receiver);
        let of = |limited_by, receiver| thin(&stood(limited_by, receiver), &[f32::NAN; 20], None);
        let begin = "the flow never left its initial window (4 segments)";
        assert_eq!(of(None, false), Some(format!("{begin}: {MAY_HOLD}")));
        let small = |window: f32| {
            let trace = trace(std::iter::repeat_n(window, 20), None, false);
            thin(&trace, &[f32::NAN; 20], None).unwrap_or_default()
        };
        assert!(small(0.4).contains("(less than a segment)") && small(1.0).contains("(1 segment)"));
        assert_eq!(of(Some(Limit::Path), false), Some(format!("{begin}: {MAY_HOLD}")));
        assert_eq!(
            of(Some(Limit::Application), false),
            Some(format!("{begin}: limited by the application at 4.0 Mbit/s, 100 % of the time"))
        );
        assert_eq!(
            of(Some(Limit::Path), true),
            Some(format!("{begin}: the receiver's window was full in 20 of 20 rounds, at 4.0 Mbit/s"))
        );
    }

    #[test]
    fn a_flight_without_losses_near_its_median_is_constant() {
        let reason = |trace: &WindowTrace| standing(trace, &vec![1.0; trace.rounds.len()]);
        // As behind the sender's own device: 102 segments, except while a host stalls.
        let device =
            trace((0..40).map(|n| if n % 9 == 8 { 121.0 } else { 101.0 + (n % 3) as f32 }), None, false);
        assert!(
            reason(&device).is_some_and(|text| text.contains("constant at 102 segments (4.0 Mbit/s)")),
            "{:?}",
            reason(&device)
        );
        let growing = trace((0..40).map(|n| 60.0 + n as f32), None, false);
        assert_eq!(reason(&growing), None);
        // A window grew until the device held more.
        let held_later = |held: usize| {
            let windows =
                (0..40).map(|n| 22.0 + 2.0 * n as f32).chain((0..held).map(|n| 102.0 + (n % 3) as f32));
            reason(&trace(windows, None, false))
        };
        assert!(
            held_later(60)
                .is_some_and(|text| text.contains("constant at 103 segments from 1.9 s on (4.0 Mbit/s)")),
            "{:?}",
            held_later(60)
        );
        assert_eq!(held_later(12), None, "a growing window may stay as long within its blur");
        let reduction = Reduction::begun(0, Cause::Recovery, 102.0);
        assert_eq!(reason(&WindowTrace { reductions: vec![reduction], ..device }), None, "a loss moved it");
        assert_eq!(reason(&WindowTrace::default()), None);
    }

    #[test]
    fn random_reductions_explained_by_pauses_name_no_algorithm() {
        let best = |name: &str| Ranked { name: name.into(), probability: 1.0, score: Default::default() };
        let mut paused = trace((0..40).map(|n| 20.0 + n as f32), None, false);
        for round in paused.rounds.iter_mut().step_by(10) {
            round.limits.application = true;
        }
        assert!(
            interrupted(&paused, 4, &best("lp")).is_some() && interrupted(&paused, 2, &best("cdg")).is_some()
        );
        assert_eq!(interrupted(&paused, 5, &best("cdg")), None, "more falls than pauses");
        assert_eq!(interrupted(&paused, 0, &best("lp")), None, "it did not fall");
        assert_eq!(interrupted(&paused, 4, &best("vegas")), None, "its falls are predicted");
    }

    #[test]
    fn an_algorithm_that_may_hold_its_window_is_named_by_what_it_moves() {
        let best = Ranked { name: "nv".into(), probability: 1.0, score: Default::default() };
        // Labelled captures of NV: rounds that were held, and decisions that the flight followed.
        for (held, moved) in [(107, 94), (251, 74), (68, 93), (48, 415), (0, 0)] {
            assert_eq!(constant_flight(held, moved, &best), None, "{held} {moved}");
        }
        // Paced flights, and those behind the sender's own device.
        for (held, moved) in [(73, 0), (33, 0), (90, 8), (49, 6), (1, 0)] {
            assert!(constant_flight(held, moved, &best).is_some(), "{held} {moved}");
        }
    }
}
