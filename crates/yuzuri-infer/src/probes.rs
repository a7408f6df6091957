//! Properties of a sender other than its window: whether it paces, and how often and how strongly
//! it probes.
//!
//! The dependence of growth on the round-trip time is not among them: on one path that time changes
//! with the queue, that is with the window itself (for Hybla, captures yielded an exponent of 0,
//! and its algorithm has 2).

use crate::verdict::Measured;
use crate::window_trace::{CapturePoint, Cause, Round, WindowTrace};
use yuzuri_stats::upper_median_by;

/// A window of at most this many segments is a PROBE_RTT dip of BBR (which goes to 4), if windows
/// are otherwise more than twice that.
const FALLEN: f32 = 5.0;
/// The smallest probe: a flight above the cruising one by this factor, and by this many segments,
/// since small windows vary by one.
const MIN_PROBE: f32 = 1.14;
const MIN_PROBE_SEGMENTS: f32 = 1.5;
/// The number of earlier rounds that determine the cruising flight: BBR cycles through eight gains.
const CRUISE: usize = 8;
/// Rounds in which a probe's queue is seen: acknowledgements come a round later.
const PROBE_ROUNDS: usize = 3;
/// Rounds after a dip that are ignored: the window is being refilled.
const REFILL: usize = 4;
/// Dips closer together than this are one.
const MIN_GAP_NS: i64 = 1_000_000_000;
/// A small window this soon after a timeout is that of its slow start.
const AFTER_TIMEOUT_NS: i64 = 3_000_000_000;
/// Seconds between BBR's dips: 10 without a smaller round-trip time (`bbr_min_rtt_win_sec`), and
/// the time to drain and refill.
const PROBE_RTT_S: std::ops::Range<f64> = 9.8..13.0;
/// BBR v3 halves its flight every 5 s unless a smaller round-trip time is seen; twice that, with a
/// margin.
const HALVES_WITHIN_NS: i64 = 11_000_000_000;
/// Its largest flight then: this fraction of the typical one, plus this many segments.
const HALVED: (f32, f32) = (0.65, 1.0);
/// Probes required to determine a gain.
const MIN_PROBES: usize = 3;
/// Segments required to determine the paced fraction.
const MIN_PACED_OF: u32 = 100;

/// From this fraction of the segments on, a sender counts as pacing. The kernel's algorithms
/// without pacing send less than 0.1 % of their segments by a clock. BBR sends 80 % so: segments
/// that happen to follow an acknowledgement closely count as its response.
pub(crate) const PACED: f64 = 0.5;
/// Below this fraction it does not pace.
pub(crate) const NOT_BY_CLOCK: f64 = 0.05;

/// How a rate-based sender probes for more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Probing {
    /// Flight while probing over flight while cruising: `pacing_gain` at its highest.
    pub(crate) gain: Measured,
    /// Time between probes, seconds.
    pub(crate) interval_s: Option<Measured>,
    /// The part of their extra flight that queued: how much longer the round-trip time became,
    /// relative to how much larger the flight became.
    pub(crate) queued: Option<f64>,
}

/// Probes found in a flight.
#[derive(Clone, Debug, Default)]
pub(crate) struct Probes {
    gains: Vec<f64>,
    intervals_s: Vec<f64>,
    queued: Vec<f64>,
    /// Rounds that were steady enough to look for probes in, and their duration.
    pub(crate) rounds: usize,
    pub(crate) seconds: f64,
    /// The flow's typical flight, segments.
    typical: f32,
}

impl Probes {
    /// The number of probes.
    pub(crate) fn count(&self) -> usize {
        self.gains.len()
    }

    /// The most round trips from one probe of BBR v3 to the next: it waits for as many as Reno
    /// would need with its target (`bbr_is_reno_coexistence_probe_time`), which the flight exceeds.
    pub(crate) fn most_rounds_v3(&self) -> f64 {
        f64::from(self.typical).min(MAX_WAIT_ROUNDS_V3) + PHASES_V3
    }

    /// The fewest round trips from one probe of BBR v3 to the next. In a queue the flight is up to
    /// twice the target (`bbr_cwnd_gain`).
    fn least_rounds_v3(&self) -> f64 {
        (f64::from(self.typical) / 2.0).clamp(2.0 * MIN_CYCLE_RTTS, MAX_WAIT_ROUNDS_V3)
    }

    /// Their common properties, if there are enough.
    pub(crate) fn common(self) -> Option<Probing> {
        if self.count() < MIN_PROBES {
            return None;
        }
        Some(Probing {
            gain: Measured::of(self.gains)?,
            interval_s: Measured::of(self.intervals_s),
            queued: Measured::of(self.queued).map(|queued| queued.median),
        })
    }
}

/// The probes of a sender whose flight is otherwise steady. A probe lasts a round-trip time at a
/// rate of gain times the delivery rate, so the flight grows by that gain, regardless of the
/// rounds' phase; the rate of a round is smeared over two. A window that the flight fills leaves
/// no room for a probe, and does not change with one (`cwnd_gain`).
pub(crate) fn probes(window_trace: &WindowTrace) -> Probes {
    let mut found = Probes::default();
    if window_trace.filled {
        return found;
    }
    let rounds = &window_trace.rounds;
    let Some(begin) = rounds.windows(2).position(|pair| pair[1].window < pair[0].window) else {
        return found;
    };
    let mut windows: Vec<f32> = rounds.iter().map(|round| round.window).collect();
    let typical = upper_median_by(&mut windows, f32::total_cmp).unwrap_or_default();
    found.typical = typical;
    let fallen = if typical > 2.0 * FALLEN { FALLEN } else { 0.0 };
    let steady = |round: &Round| round.window > fallen && !round.limits.recovery && !round.limits.application;
    let (mut last_ns, mut rests) = (None, 0_usize);
    for place in begin + CRUISE..rounds.len().saturating_sub(1) {
        let round = &rounds[place];
        if !steady(round) {
            (last_ns, rests) = (None, 0);
            continue;
        }
        rests += 1;
        if rests <= REFILL {
            continue;
        }
        found.rounds += 1;
        found.seconds += (round.end_ns - round.start_ns).max(0) as f64 / 1e9;
        let behind = &rounds[place - rests.min(CRUISE)..place];
        let cruising = behind.iter().filter(|r| steady(r)).map(|r| r.window).fold(f32::INFINITY, f32::min);
        let peak = round.window > rounds[place - 1].window && round.window >= rounds[place + 1].window;
        // The round after the peak still holds most of it: it is not a second one.
        let apart = last_ns.is_none_or(|last| round.start_ns - last > 2 * (round.end_ns - round.start_ns));
        if !peak || !apart || round.window < (MIN_PROBE * cruising).max(cruising + MIN_PROBE_SEGMENTS) {
            continue;
        }
        found.gains.push(f64::from(round.window / cruising));
        let before = behind.iter().filter(|r| steady(r) && r.rtt_max_us > 0);
        if let Some(usual) = Measured::of(before.map(|r| f64::from(r.rtt_max_us)).collect()) {
            let probe = rounds[place..].iter().take(PROBE_ROUNDS);
            let longest_us = probe.map(|r| r.rtt_max_us).max().unwrap_or(0);
            // A delay that was there before the probe was not caused by it: at a steady rate, a
            // longer delay enlarges the flight.
            let usual_us = usual.median.max(rounds[place - 1].rtt_max_us.into());
            let longer = f64::from(longest_us) / usual_us - 1.0;
            found.queued.push(longer / f64::from(round.window / cruising - 1.0));
        }
        if let Some(last) = last_ns {
            found.intervals_s.push((round.start_ns - last) as f64 / 1e9);
        }
        last_ns = Some(round.start_ns);
    }
    found
}

/// When the flight fell to at most [`FALLEN`] segments without a timeout, as in BBR's PROBE_RTT.
/// This lasts for 200 ms (`bbr_probe_rtt_mode_ms`), which may be less than a round: a window that
/// the kernel reported counts whenever it was that small.
///
/// In loss recovery, windows become small anyway. BBR's has exactly four segments then, and its
/// ssthresh remains what it was before (`bbr_ssthresh`).
fn probe_rtt_dips(window_trace: &WindowTrace) -> Vec<i64> {
    let mut falls: Vec<i64> = Vec::new();
    let mut typical = 0.0_f32;
    let mut timeouts =
        window_trace.reductions.iter().filter(|reduction| reduction.cause == Cause::Timeout).peekable();
    let mut timed_out_ns = i64::MIN;
    let mut was_still = false;
    for (place, round) in window_trace.rounds.iter().enumerate() {
        while let Some(reduction) = timeouts.next_if(|reduction| reduction.at_ns <= round.end_ns) {
            timed_out_ns = reduction.over_ns;
        }
        let reported = window_trace.least_windows.get(place);
        let least = reported.map_or(round.window, |least| least.segments as f32);
        let is_bbrs = reported.is_some_and(|least| least.segments == MIN_WINDOW && least.keeps_ssthresh);
        let still = least <= FALLEN && typical > 2.0 * FALLEN && (!round.limits.recovery || is_bbrs);
        let by_itself = round.start_ns.saturating_sub(timed_out_ns) > AFTER_TIMEOUT_NS;
        // Behind a long queue, the window is that small for more than a round.
        let begins = still && !was_still;
        if begins && by_itself && falls.last().is_none_or(|last| round.start_ns - last > MIN_GAP_NS) {
            falls.push(round.start_ns);
        }
        was_still = still;
        if round.window > FALLEN {
            typical = if typical == 0.0 { round.window } else { typical * 0.9 + round.window * 0.1 };
        }
    }
    falls
}

/// BBR's minimum window, segments (`bbr_cwnd_min_target`), outside loss recovery.
const MIN_WINDOW: u32 = 4;

/// The number of rounds in which the kernel reported a smaller window than BBR's minimum, without
/// loss recovery or a timeout. 0 where windows are reconstructed.
pub(crate) fn rounds_below_minimum(window_trace: &WindowTrace) -> usize {
    let rounds = window_trace.rounds.iter().zip(&window_trace.least_windows);
    let after_timeout = |round: &Round| {
        let mut timeouts = window_trace.reductions.iter().filter(|r| r.cause == Cause::Timeout);
        timeouts
            .any(|r| r.at_ns <= round.end_ns && round.start_ns.saturating_sub(r.over_ns) <= AFTER_TIMEOUT_NS)
    };
    let is_below = |round: &Round, least: u32| least < MIN_WINDOW && round.acks > 0 && !round.limits.recovery;
    rounds.filter(|(round, least)| is_below(round, least.segments) && !after_timeout(round)).count()
}

/// Seconds between such dips.
fn probe_rtt_gaps_s(window_trace: &WindowTrace) -> Vec<f64> {
    probe_rtt_dips(window_trace).windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e9).collect()
}

/// Time between dips, seconds.
pub(crate) fn probe_rtt_interval_s(window_trace: &WindowTrace) -> Option<f64> {
    Measured::of(probe_rtt_gaps_s(window_trace)).map(|gaps| gaps.median)
}

/// How many of these dips came at BBR's times: after `bbr_min_rtt_win_sec` and the time that the
/// flight takes to fall.
pub(crate) fn probe_rtt_dips_on_time(window_trace: &WindowTrace) -> usize {
    on_time(&probe_rtt_gaps_s(window_trace))
}

fn on_time(gaps_s: &[f64]) -> usize {
    gaps_s.iter().filter(|apart| PROBE_RTT_S.contains(apart)).count()
}

/// The number of stretches without a fall to half the flight that are longer than BBR v3 goes
/// without measuring the minimum RTT (`bbr_probe_rtt_win_ms`).
pub(crate) fn intervals_without_probe_rtt(window_trace: &WindowTrace) -> usize {
    let mut without = 0;
    let mut place = 0;
    while let Some(first) = window_trace.rounds.get(place) {
        let stretch = &window_trace.rounds[place..];
        let Some(count) = stretch.iter().position(|r| r.end_ns - first.start_ns >= HALVES_WITHIN_NS) else {
            break;
        };
        let mut windows: Vec<f32> = stretch[..=count].iter().map(|round| round.window).collect();
        let least = windows.iter().copied().fold(f32::INFINITY, f32::min);
        let typical = upper_median_by(&mut windows, f32::total_cmp).unwrap_or_default();
        without += usize::from(least > HALVED.0 * typical + HALVED.1);
        place += count + 1;
    }
    without
}

/// The shortest cycle of BBR v1, in minimum RTTs: of its eight phases (`bbr_cycle_len`) all but the
/// draining one last at least that long, and draining ends early if there is nothing to drain.
const MIN_CYCLE_RTTS: f64 = 7.0;
/// Seconds between probes of BBR v3 (`bbr_bw_probe_base_us`, `bbr_bw_probe_rand_us`), with the
/// phases before and after.
const PROBE_BW_V3_S: std::ops::Range<f64> = 1.9..4.0;
/// Round trips that it waits at most (`bbr_bw_probe_max_rounds`), and those of its phases before
/// and after.
const MAX_WAIT_ROUNDS_V3: f64 = 63.0;
const PHASES_V3: f64 = 7.0;
/// The range of a probe's gain: both versions send at 1.25 times the bottleneck's rate for a round
/// trip, which rounds smear.
const PROBE_GAIN: std::ops::Range<f64> = 1.14..1.36;
/// The least part of a probe's extra flight that must queue: all of it does at a saturated
/// bottleneck. On a path with spare capacity, the flight of a paced sender varies with its bursts,
/// and nothing queues. The flight of a sender at a steady rate varies with a queue that other flows
/// fill, and the delay grows first. In captures of BBR the part is 0.54 to 0.95.
const MIN_QUEUED: f64 = 0.5;
/// The number of PROBE_RTT dips at the right times that no other algorithm has by chance.
const MIN_DIPS_ON_TIME: usize = 2;

/// Whether the flow shows what only this rate-based algorithm does: probes with its gain at its
/// times, or PROBE_RTT dips at theirs. A steady flight shows nothing: an application, a pacing rate
/// or a queue of the sender's own device is as steady. Confidence intervals decide, not medians, so
/// that few or irregular probes show nothing, either.
pub(crate) fn are_shown(window_trace: &WindowTrace, version_3: bool) -> bool {
    let gaps_s = probe_rtt_gaps_s(window_trace);
    let on_time = on_time(&gaps_s);
    if !version_3 && on_time >= MIN_DIPS_ON_TIME && 2 * on_time > gaps_s.len() {
        return true;
    }
    let found = probes(window_trace);
    let round_s = if found.rounds > 0 { found.seconds / found.rounds as f64 } else { 0.0 };
    let v3_s = PROBE_BW_V3_S.start.min(found.least_rounds_v3() * round_s)
        ..PROBE_BW_V3_S.end.min(found.most_rounds_v3() * round_s);
    let Some(Probing { gain, interval_s: Some(interval_s), queued }) = found.common() else { return false };
    let waits = queued.is_none_or(|queued| queued >= MIN_QUEUED);
    let has_gain = waits && PROBE_GAIN.contains(&gain.low) && PROBE_GAIN.contains(&gain.high);
    let at_its_times = if version_3 {
        v3_s.contains(&interval_s.low) && v3_s.contains(&interval_s.high)
    } else {
        interval_s.low >= MIN_CYCLE_RTTS * f64::from(window_trace.min_rtt_us) / 1e6
    };
    has_gain && at_its_times
}

/// The fraction of segments sent by a clock, not in response to an acknowledgement; known only near
/// the sender, and only if segments are far enough apart.
pub(crate) fn paced_part(window_trace: &WindowTrace) -> Option<f64> {
    if window_trace.capture_point != CapturePoint::Sender {
        return None;
    }
    let limited = window_trace.rounds.iter().filter(|round| round.is_cwnd_limited() && round.spaced);
    let (mut all, mut by_clock) = (0, 0);
    for round in limited {
        all += round.sent;
        by_clock += round.by_clock;
    }
    (all >= MIN_PACED_OF).then(|| f64::from(by_clock) / f64::from(all))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::window_trace::{LeastWindow, Reduction};

    fn round(at_ms: i64, rtt_ms: i64, window: f32) -> Round {
        let rtt_us = rtt_ms as u32 * 1000;
        Round {
            start_ns: at_ms * 1_000_000,
            end_ns: (at_ms + rtt_ms) * 1_000_000,
            window,
            acks: 1,
            rtt_mean_us: rtt_us,
            ..Round::default()
        }
    }

    #[test]
    fn probes_of_a_synthetic_sender_are_counted() {
        // 80 segments, every tenth round 100; after the 35th it falls to 4 and is refilled.
        let windows = (0..80_usize).map(|n| match n {
            0..=4 => 10.0 * 2_f32.powi(n as i32),
            35..=36 => 4.0,
            n if n % 10 == 0 => 100.0,
            _ => 80.0,
        });
        let rounds = windows.enumerate().map(|(n, window)| round(n as i64 * 50, 50, window)).collect();
        let probing = probes(&WindowTrace { rounds, ..WindowTrace::default() }).common().unwrap();
        assert!((probing.gain.median - 1.25).abs() < 1e-6, "{probing:?}");
        let interval = probing.interval_s.unwrap();
        assert!((interval.median - 0.5).abs() < 1e-6 && interval.count == 3, "{interval:?}");
    }

    #[test]
    fn a_window_that_is_filled_shows_no_probe() {
        let trace = WindowTrace { filled: true, ..peaks(8, 50.0) };
        assert!(probes(&trace).rounds == 0 && !are_shown(&trace, false));
    }

    #[test]
    fn a_window_that_only_grows_and_falls_does_not_probe() {
        let rounds = (0..90).map(|n| round(n * 50, 50, 40.0 + (n % 30) as f32)).collect();
        assert_eq!(probes(&WindowTrace { rounds, ..WindowTrace::default() }).common(), None);
    }

    /// 40 segments in flight for a minute; at each of these times (s), `fallen` for one round.
    fn falling(at_s: &[i64], fallen: f32) -> WindowTrace {
        let falls = |at_ms: i64| at_s.iter().any(|s| (0..100).contains(&(at_ms - s * 1000)));
        let rounds = (0..600).map(|n| n * 100);
        let rounds =
            rounds.map(|at_ms| round(at_ms, 100, if falls(at_ms) { fallen } else { 40.0 })).collect();
        WindowTrace { rounds, ..WindowTrace::default() }
    }

    #[test]
    fn periodic_dips_are_counted() {
        assert_eq!(probe_rtt_dips_on_time(&falling(&[8, 18, 29, 39], 4.0)), 3);
        assert_eq!(probe_rtt_dips_on_time(&falling(&[8, 13, 29, 36], 4.0)), 0, "at any time");
        assert_eq!(probe_rtt_dips_on_time(&falling(&[8, 18, 29, 39], 20.0)), 0, "not so far");
        let mut timed_out = falling(&[8, 18], 4.0);
        timed_out
            .reductions
            .push(Reduction { over_ns: 17_000_000_000, ..Reduction::begun(0, Cause::Timeout, 40.0) });
        assert_eq!(probe_rtt_dips_on_time(&timed_out), 0, "slow start after a timeout");
    }

    #[test]
    fn a_dip_shorter_than_a_round_shows_in_the_kernels_windows() {
        let mut trace = falling(&[], 4.0);
        trace.least_windows = vec![LeastWindow { segments: 40, keeps_ssthresh: false }; trace.rounds.len()];
        for at_s in [8, 18, 29, 39] {
            trace.least_windows[at_s * 10].segments = 4;
        }
        assert_eq!(probe_rtt_dips_on_time(&trace), 3);
        assert!(are_shown(&trace, false) && !are_shown(&trace, true));
        trace.rounds[180].limits.recovery = true;
        assert_eq!(probe_rtt_dips_on_time(&trace), 1, "loss recovery");
        trace.least_windows[180].keeps_ssthresh = true;
        assert_eq!(probe_rtt_dips_on_time(&trace), 3, "loss recovery of BBR");
        trace.least_windows[180].segments = 3;
        assert_eq!(probe_rtt_dips_on_time(&trace), 1, "a smaller window than in PROBE_RTT");
    }

    #[test]
    fn a_dip_longer_than_a_round_is_one() {
        // Round trips of 1.2 s; of nine, two have four segments.
        let rounds = (0..60).map(|n| round(n * 1200, 1200, if n % 9 > 6 { 4.0 } else { 40.0 }));
        let trace = WindowTrace { rounds: rounds.collect(), ..WindowTrace::default() };
        assert_eq!(probe_rtt_dips_on_time(&trace), 5);
    }

    #[test]
    fn windows_below_the_minimum_of_bbr_are_counted() {
        let mut trace = falling(&[], 4.0);
        assert_eq!(rounds_below_minimum(&trace), 0, "reconstructed");
        trace.least_windows = vec![LeastWindow { segments: 4, keeps_ssthresh: false }; trace.rounds.len()];
        assert_eq!(rounds_below_minimum(&trace), 0);
        trace.least_windows[100..110].fill(LeastWindow { segments: 2, keeps_ssthresh: false });
        trace.rounds[100].limits.recovery = true;
        assert_eq!(rounds_below_minimum(&trace), 9);
        // From 10.5 s to 10.6 s: the round in which it is noticed, and three more seconds.
        let timeout =
            Reduction { over_ns: 10_600_000_000, ..Reduction::begun(10_500_000_000, Cause::Timeout, 8.0) };
        trace.reductions.push(timeout);
        assert_eq!(rounds_below_minimum(&trace), 3, "slow start after a timeout");
    }

    #[test]
    fn intervals_without_probe_rtt_are_counted() {
        assert_eq!(intervals_without_probe_rtt(&falling(&[], 20.0)), 5);
        assert_eq!(
            intervals_without_probe_rtt(&falling(&[3, 8, 13, 18, 23, 28, 33, 38, 43, 48, 53, 58], 20.0)),
            0
        );
    }

    /// A minute of 40 segments in flight, with `peak` in one of `each` rounds.
    fn peaks(each: i64, peak: f32) -> WindowTrace {
        let rounds = (0..600).map(|n| round(n * 100, 100, if n % each == 0 { peak } else { 40.0 }));
        WindowTrace { rounds: rounds.collect(), min_rtt_us: 100_000, ..WindowTrace::default() }
    }

    #[test]
    fn a_rate_based_algorithm_is_identified_by_its_probe_times() {
        assert!(are_shown(&peaks(8, 50.0), false) && are_shown(&peaks(9, 50.0), false));
        assert!(!are_shown(&peaks(4, 50.0), false) && !are_shown(&peaks(5, 50.0), false), "too often");
        assert!(!are_shown(&peaks(8, 70.0), false), "another gain");
        assert!(!are_shown(&peaks(1000, 50.0), false), "a steady flight");
        assert!(are_shown(&peaks(25, 50.0), true) && !are_shown(&peaks(8, 50.0), true));
    }

    #[test]
    fn version_3_probes_after_as_many_rounds_as_its_flight_has_segments() {
        // A host that stalls sends a larger burst afterwards, at any time.
        let shown = |flight: f32, rounds_between: &[i64]| {
            let mut left = 0;
            let mut between = rounds_between.iter().cycle();
            let rounds = (0..2000).map(|n| {
                left = if left == 0 { *between.next().unwrap() } else { left } - 1;
                round(n * 8, 8, if left == 0 { 1.25 * flight } else { flight })
            });
            let trace = WindowTrace { rounds: rounds.collect(), min_rtt_us: 8000, ..WindowTrace::default() };
            are_shown(&trace, true)
        };
        assert!(shown(20.0, &[22, 24, 23]) && shown(200.0, &[66, 65]));
        assert!(!shown(20.0, &[22, 60, 16, 40]), "too late for its flight");
        assert!(!shown(200.0, &[22, 60, 16, 40]), "too early for its flight");
    }

    #[test]
    fn a_probe_is_seen_to_wait_in_a_queue() {
        let waiting = |part: f32| {
            let mut peaks = peaks(8, 50.0);
            for place in 0..peaks.rounds.len() {
                // Its acknowledgements come in the next round.
                let probed = place > 0 && peaks.rounds[place - 1].window > 45.0;
                peaks.rounds[place].rtt_max_us =
                    if probed { 100_000.0 * (1.0 + 0.25 * part) } else { 100_000.0 } as u32;
            }
            are_shown(&peaks, false)
        };
        assert!(waiting(1.0) && waiting(0.7));
        assert!(!waiting(0.0) && !waiting(0.3), "pacing sends two segments at once");
    }

    #[test]
    fn a_flight_that_follows_the_delay_does_not_probe() {
        // Others fill a queue on the way, and drain it, every twelve rounds: at a steady rate the
        // flight is proportional to the round-trip time, and its peak is 1.3 times the least of
        // the eight rounds before.
        let rounds = (0..600).map(|n| {
            let rtt_ms = 100 + 3 * (n % 12);
            Round { rtt_max_us: rtt_ms as u32 * 1000, ..round(n * 130, rtt_ms, 0.4 * rtt_ms as f32) }
        });
        let mut trace =
            WindowTrace { rounds: rounds.collect(), min_rtt_us: 100_000, ..WindowTrace::default() };
        assert!(!are_shown(&trace, false));
        // It is the order that counts: the same flight with a delay that comes after it is shown.
        for (n, round) in trace.rounds.iter_mut().enumerate() {
            round.rtt_max_us = if n % 12 == 0 { 133_000 } else { 110_000 };
        }
        assert!(are_shown(&trace, false));
    }

    #[test]
    fn probe_rtt_dips_at_regular_intervals_show_bbr() {
        assert!(are_shown(&falling(&[8, 18, 29, 39], 4.0), false));
        assert!(!are_shown(&falling(&[8, 13, 29, 36, 39], 4.0), false), "at any time");
        assert!(!are_shown(&falling(&[8, 18], 4.0), false), "one interval may be chance");
    }
}
