//! Constants of a window trace, and the evidence for its name as text.

use crate::cubic::{Cycle, Fit, epochs};
use crate::cubic_replay::c_by_replay;
use crate::name::Ranked;
use crate::packets::Seen;
use crate::probes;
use crate::replay::Replay;
use crate::verdict::{Constants, CubicEpoch, Measured};
use crate::window_trace::{CapturePoint, Cause, SLOW_START_GROWTH, WindowTrace};
use yuzuri_cca::{Algorithm, CcaKind, CubicConstants};
use yuzuri_stats::{counted, median_of_sorted};

impl Measured {
    /// From several measurements; `None` if there are none. The interval is that of the order
    /// statistics.
    pub fn of(mut values: Vec<f64>) -> Option<Measured> {
        values.retain(|value| value.is_finite());
        values.sort_by(f64::total_cmp);
        let median = median_of_sorted(&values)?;
        let count = values.len();
        // Ranks n/2 -+ 0.98 sqrt(n): 95 % of the binomial distribution.
        let reach = 0.98 * (count as f64).sqrt();
        let middle = count as f64 / 2.0;
        let low = (middle - reach).floor().max(0.0) as usize;
        let high = ((middle + reach).ceil() as usize).min(count - 1);
        Some(Measured { median, low: values[low], high: values[high], count })
    }
}

/// Determines the constants and the text for the best algorithm and its replay.
pub(crate) fn gather(
    window_trace: &WindowTrace,
    best: Option<&(Ranked, Replay)>,
) -> (Constants, Vec<String>) {
    let mut constants = Constants::default();
    let recoveries = || {
        window_trace
            .reductions
            .iter()
            .filter(|t| t.cause != Cause::Timeout && !t.undone && t.before >= 4.0 && t.after > 0.0)
    };
    // All algorithms round down, so half a segment is missing on average.
    constants.beta = Measured::of(recoveries().map(|t| f64::from((t.after + 0.5) / t.before)).collect());
    constants.initial_window = window_trace.rounds.first().map(|round| f64::from(round.window));
    constants.slow_start_end = slow_start_end(window_trace);
    constants.increase = increase(window_trace);
    constants.probe_rtt_interval_s = probes::probe_rtt_interval_s(window_trace);
    constants.paced_part = probes::paced_part(window_trace);
    cubic(window_trace, &mut constants);
    if let Some((ranked, _)) = best {
        // Other windows oscillate, too, but not because of probes.
        if is_by_rate(ranked)
            && let Some(probing) = probes::probes(window_trace).common()
        {
            (constants.probe_gain, constants.probe_interval_s) = (Some(probing.gain), probing.interval_s);
        }
        if window_trace.loss_trace.is_none() {
            constants.cubic_c_replayed = c_by_replay(window_trace, constants_of(&ranked.name));
        }
    }
    constants.fast_convergence = fast_convergence(window_trace, &constants);
    let words = words(window_trace, &constants, best);
    (constants, words)
}

fn cubic(window_trace: &WindowTrace, constants: &mut Constants) {
    for epoch in epochs(window_trace) {
        let fit = Fit::least_squares(&epoch.points);
        let span_s = epoch.points.last().map_or(0.0, |last| last.t_s);
        let counts = epoch.whole && !epoch.friendly && fit.is_some_and(|fit| fit.is_cubic(span_s));
        let cycle = Cycle::read(&epoch.points).filter(|_| counts);
        constants.cubic_epochs.push(CubicEpoch { reduction: epoch.reduction, cycle, fit, counts });
    }
    let counted = || constants.cubic_epochs.iter().filter(|epoch| epoch.counts);
    let cycles = || counted().filter_map(|epoch| epoch.cycle);
    let c = Measured::of(counted().filter_map(|epoch| epoch.fit).map(|fit| fit.c).collect());
    let b = Measured::of(cycles().map(|cycle| cycle.b()).collect());
    let paper = Measured::of(cycles().map(|cycle| cycle.c()).collect());
    (constants.cubic_c, constants.cubic_b, constants.cubic_c_paper) = (c, b, paper);
}

/// Additive increase: the median slope of window by round in epochs after reductions.
fn increase(window_trace: &WindowTrace) -> Option<Measured> {
    let mut slopes = Vec::new();
    for (number, _) in
        window_trace.reductions.iter().enumerate().filter(|(_, reduction)| reduction.cause != Cause::Timeout)
    {
        let rounds = window_trace.epoch(number);
        let usable: Vec<f64> =
            rounds.iter().filter(|r| r.is_cwnd_limited()).map(|r| f64::from(r.window)).collect();
        if let [first, .., last] = usable[..]
            && usable.len() >= 6
        {
            slopes.push((last - first) / (usable.len() - 1) as f64);
        }
    }
    Measured::of(slopes)
}

/// Where slow start ended, and whether without a loss.
fn slow_start_end(window_trace: &WindowTrace) -> Option<(f64, bool)> {
    let first_reduction =
        window_trace.reductions.first().map_or(usize::MAX, |reduction| reduction.round as usize);
    let mut former = 0.0;
    for (place, round) in window_trace.rounds.iter().enumerate() {
        if place >= first_reduction || round.limits.recovery {
            return Some((f64::from(window_trace.reductions.first()?.before), false));
        }
        if !round.is_cwnd_limited() {
            continue;
        }
        if former > 0.0 && round.window < former * SLOW_START_GROWTH {
            return Some((f64::from(former), true));
        }
        former = round.window;
    }
    None
}

/// Whether W_max is clearly below the window before the reduction, where that window was below the
/// previous one.
fn fast_convergence(window_trace: &WindowTrace, constants: &Constants) -> Option<bool> {
    let mut signs = Vec::new();
    for epoch in constants.cubic_epochs.iter().filter(|epoch| epoch.counts && epoch.reduction > 0) {
        let (Some(reduction), Some(former)) =
            (window_trace.reductions.get(epoch.reduction), window_trace.reductions.get(epoch.reduction - 1))
        else {
            continue;
        };
        let Some(fit) = epoch.fit else { continue };
        if reduction.before < 0.97 * former.before {
            signs.push(fit.w_max < 0.95 * f64::from(reduction.before));
        }
    }
    let yes = signs.iter().filter(|sign| **sign).count();
    (!signs.is_empty()).then_some(yes * 2 > signs.len())
}

pub(crate) fn is_by_rate(ranked: &Ranked) -> bool {
    CcaKind::of(&ranked.name) == Some(CcaKind::Model)
}

/// The constants that a CUBIC of this name may have.
fn constants_of(name: &str) -> &'static [CubicConstants] {
    Algorithm::named(name).map_or(&[], |algorithm| algorithm.facts().constants)
}

fn words(window_trace: &WindowTrace, constants: &Constants, best: Option<&(Ranked, Replay)>) -> Vec<String> {
    let mut words = Vec::new();
    // A rate-based algorithm's window follows its rate, so growth per round and reductions are not
    // constants of the algorithm.
    let by_rate = best.is_some_and(|(ranked, _)| is_by_rate(ranked));
    if let Some(beta) = constants.beta.filter(|_| !by_rate) {
        let losses = if beta.count == 1 { "loss" } else { "losses" };
        words.push(format!(
            "kept {:.2} of the window after {} {losses} ({:.2} to {:.2})",
            beta.median, beta.count, beta.low, beta.high
        ));
    } else if window_trace.reductions.is_empty() {
        words.push("no loss was answered by a reduction".into());
    }
    if window_trace.syn_ecn_capable == Some(true) {
        words.push("its SYN was ECN-capable, as only controls send it that need ECN".into());
    }
    if let Some((c, error)) = constants.cubic_c_replayed {
        words.push(format!(
            "CUBIC replayed with C {c:.3} +- {:.3} comes nearest to the windows seen",
            1.96 * error
        ));
    }
    if let (Some(c), Some(epoch)) =
        (constants.cubic_c, constants.cubic_epochs.iter().rfind(|epoch| epoch.counts))
    {
        let w_max = epoch.fit.map_or(0.0, |fit| fit.w_max);
        words.push(format!(
            "growth is cubic in {}: C {:.3} ({:.3} to {:.3}), recently around {w_max:.0} segments",
            counted(c.count, "epoch"),
            c.median,
            c.low,
            c.high
        ));
    } else if let Some(a) = constants.increase.filter(|_| !by_rate) {
        words.push(format!(
            "grows by {:.2} segments per round ({:.2} to {:.2}) over {}",
            a.median,
            a.low,
            a.high,
            counted(a.count, "epoch")
        ));
    }
    if let Some((window, by_itself)) = constants.slow_start_end {
        let how = if by_itself { "without a loss" } else { "by loss" };
        words.push(format!("slow start ended {how} at {window:.0} segments"));
    }
    if let Some(gain) = constants.probe_gain {
        let every =
            constants.probe_interval_s.map(|s| format!(" every {:.2} s", s.median)).unwrap_or_default();
        words.push(format!(
            "probes for more{every} with {:.2} of its flight ({:.2} to {:.2}, {})",
            gain.median,
            gain.low,
            gain.high,
            counted(gain.count, "time")
        ));
    }
    if let Some(part) = constants.paced_part {
        words.push(if part >= probes::PACED {
            format!(
                "{:.0} % of the segments were sent by a clock, not in response to acknowledgements: paced",
                part * 100.0
            )
        } else {
            format!(
                "{:.0} % of the segments were sent in response to acknowledgements: not paced",
                (1.0 - part) * 100.0
            )
        });
    }
    if let Some(interval) = constants.probe_rtt_interval_s {
        words.push(format!("fell to a few segments without loss every {interval:.1} s"));
    }
    if let Some((ranked, replay)) = best {
        let rounds = replay.rounds.iter().filter(|round| round.counts).count();
        words.push(format!(
            "replayed over {}, {} differs from what was seen by {:.1} times the noise",
            counted(rounds, "round"),
            ranked.name,
            ranked.score.residual
        ));
        if !replay.cuts.is_empty() {
            words.push(format!(
                "the window fell {} without a sign of loss",
                counted(replay.cuts.len(), "time")
            ));
        }
    }
    words
}

/// Why a flow shows no window: the data in flight is upstream of the capture, and nothing links
/// acknowledgements to the data sent in response.
pub(crate) const BLIND: &str =
    "watched away from the sender without timestamps: its window cannot be rebuilt";

/// For such a flow with enough losses.
pub(crate) const AT_LOSSES: &str =
    "watched away from the sender without timestamps: its window is seen at losses alone";

/// Whether [`BLIND`] holds.
pub(crate) fn is_blind(window_trace: &WindowTrace, seen: &Seen) -> bool {
    matches!(window_trace.capture_point, CapturePoint::Receiver | CapturePoint::Middle) && !seen.timestamps
}

/// What may impair the answer.
pub(crate) fn notes(window_trace: &WindowTrace, seen: Option<&Seen>) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(seen) = seen {
        if !seen.syn || !seen.syn_ack {
            notes.push("the handshake was not seen: segment size and window scale are guessed".into());
        } else if seen.syn_cut {
            notes.push("too few bytes of each packet were captured for the options of the SYN: the window scale is guessed".into());
        }
        if seen.by_end.contains(&0) {
            notes.push("only one direction was captured: windows cannot be rebuilt".into());
        }
        let odd = seen.anomalies;
        let twice = odd.copies * 3 > seen.segments;
        if twice {
            notes.push(format!(
                "each packet was captured twice (mirror port, several interfaces): only the first of each counts, and {} copies were ignored",
                odd.copies
            ));
        }
        let counted = [
            (odd.bad_checksums, "segments with wrong checksums were ignored"),
            (
                odd.believed_checksums,
                "segments have wrong checksums, as most of their end: filled in by the network card, or altered; they count",
            ),
            (odd.odd_options, "segments have impossible options"),
            (odd.fragments, "first fragments of IP packets"),
            (odd.steps_back, "times the clock went backwards"),
            (if twice { 0 } else { odd.copies }, "copies of a segment were ignored"),
        ];
        notes.extend(
            counted.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")),
        );
        if is_blind(window_trace, seen) {
            notes.push(if window_trace.loss_trace.is_some() { AT_LOSSES } else { BLIND }.into());
        }
    }
    if window_trace.capture_point == CapturePoint::Unknown {
        notes.push("the place of the capture could not be determined".into());
    }
    if window_trace.rounds_left_out > 0 {
        notes.push(format!("not looked at: {}", counted(window_trace.rounds_left_out, "more round")));
    }
    notes
}
