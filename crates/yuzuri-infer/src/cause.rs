//! Describes what limited a flow for which no algorithm is named.

use crate::evidence;
use crate::name::Ranked;
use crate::window_trace::{CapturePoint, Round, WindowTrace};
use yuzuri_limits::{Limit, LimitTimes};

/// Why no window-based algorithm is named: something else limited the flow in at least half of the
/// rounds that could be evidence, or fewer than `enough` rounds show the window. Pacing does not
/// count against a rate-based algorithm, because it paces itself.
pub(crate) fn limited_elsewhere(
    window_trace: &WindowTrace,
    predicted: &[f32],
    best: &Ranked,
    enough: usize,
) -> Option<String> {
    let by_rate = evidence::is_by_rate(best);
    // A capture at the sender without the flow's beginning does not distinguish pacing from the
    // sender's own device.
    let at_sender = window_trace.capture_point == CapturePoint::Sender;
    let is_pacing = |limit: Limit| limit == Limit::Pacing || (at_sender && limit == Limit::SenderRate);
    let elsewhere = |limit: Limit| limit.is_elsewhere() && !(by_rate && is_pacing(limit));
    let counted = || window_trace.rounds.iter().zip(predicted).filter(|(_, window)| !window.is_nan());
    let mut times = LimitTimes::default();
    let (mut all, mut speak) = (0, 0);
    for (round, _) in counted() {
        let limit = round.limited_by?;
        all += 1;
        speak += usize::from(!elsewhere(limit));
        times.add(limit, length_us(round));
    }
    if speak == all || (speak >= enough && speak * 2 > all) {
        return None;
    }
    if speak * 2 > all {
        return Some(too_few(window_trace, speak, enough));
    }
    let first = window_trace.rounds.iter().zip(predicted).position(|(_, window)| !window.is_nan());
    add_pauses(&mut times, &window_trace.rounds[first.unwrap_or(0)..]);
    let (limit, share) = times.ranked().into_iter().find(|(limit, _)| elsewhere(*limit))?;
    Some(format!(
        "limited by {} at {:.1} Mbit/s, not by a window: {:.0} % of the time after slow start, and {speak} of {all} rounds show the congestion window",
        limited_by(limit),
        rate_mbps(window_trace),
        share * 100.0
    ))
}

/// States that too few rounds show a window, and what limited the others.
pub(crate) fn too_few(window_trace: &WindowTrace, counted: usize, enough: usize) -> String {
    let rounds = match counted {
        0 => "no round".to_owned(),
        some => format!("only {}", yuzuri_stats::counted(some, "round")),
    };
    let others = held_by(window_trace).unwrap_or_else(|| others(window_trace, counted));
    format!("{rounds} after slow start showed the congestion window, and {enough} are needed; {others}")
}

/// Why the other rounds of a flow do not show a window.
fn others(window_trace: &WindowTrace, counted: usize) -> String {
    let rounds = &window_trace.rounds;
    let count = |holds: &dyn Fn(&Round) -> bool| rounds.iter().filter(|round| holds(round)).count();
    let mut others = vec![
        (count(&|round| round.limits.recovery), "losses were being repaired"),
        (count(&|round| !round.limits.recovery && round.limits.receiver), "the receiver's window was full"),
        (
            count(&|round| !round.limits.recovery && !round.limits.receiver && round.limits.application),
            "the application had no more to send",
        ),
    ];
    let listed: usize = others.iter().map(|(count, _)| count).sum();
    others.push((rounds.len().saturating_sub(listed + counted), "it was in slow start"));
    others.retain(|(count, _)| *count > 0);
    let words: Vec<String> = others.iter().map(|(count, what)| format!("{what} in {count}")).collect();
    if words.is_empty() {
        return format!("there were {} in all", rounds.len());
    }
    format!("of {} {}", yuzuri_stats::counted(rounds.len(), "round"), words.join(", "))
}

/// What limited a flow for most of its time, including slow start, if it shows hardly any evidence
/// for an algorithm.
pub(crate) fn held_by(window_trace: &WindowTrace) -> Option<String> {
    let rounds = &window_trace.rounds;
    let mut times = LimitTimes::default();
    for round in rounds {
        times.add(round.limited_by?, length_us(round));
    }
    add_pauses(&mut times, rounds);
    let rate_mbps = rate_mbps(window_trace);
    let ranked = times.ranked();
    let elsewhere = || ranked.iter().filter(|(limit, _)| limit.is_elsewhere());
    let all: f64 = elsewhere().map(|(_, share)| share).sum();
    if let Some((limit, share)) = elsewhere().next().filter(|_| all > 0.5) {
        let (limit, share) = (limited_by(*limit), share * 100.0);
        return Some(format!("limited by {limit} at {rate_mbps:.1} Mbit/s, {share:.0} % of the time"));
    }
    // If the path is full as well, the receiver's window determines the length of the queue, not
    // the rate.
    let full = rounds.iter().filter(|round| round.limits.receiver).count();
    if full * 2 > rounds.len() {
        return Some(format!(
            "the receiver's window was full in {full} of {}, at {rate_mbps:.1} Mbit/s",
            yuzuri_stats::counted(rounds.len(), "round")
        ));
    }
    let empty = rounds.iter().filter(|round| round.limits.application).count();
    (empty * 2 > rounds.len()).then(|| {
        format!(
            "in {empty} of {} no more was left to send, at {rate_mbps:.1} Mbit/s: the application or the send buffer may hold it",
            yuzuri_stats::counted(rounds.len(), "round")
        )
    })
}

fn length_us(round: &Round) -> u64 {
    u64::try_from(round.end_ns - round.start_ns).unwrap_or(0) / 1000
}

/// Adds the time between rounds, in which nothing was outstanding.
fn add_pauses(times: &mut LimitTimes, rounds: &[Round]) {
    for pair in rounds.windows(2) {
        if let Some(limit) = pair[1].paused_by {
            times.add(limit, u64::try_from(pair[1].start_ns - pair[0].end_ns).unwrap_or(0) / 1000);
        }
    }
}

/// A limit as part of a sentence.
fn limited_by(limit: Limit) -> &'static str {
    match limit {
        Limit::Application => "the application",
        Limit::SendBuffer => "the send buffer",
        Limit::ReceiverWindow => "the receiver's window",
        Limit::SlowReader => "the receiver's application",
        Limit::Receiver => "the receiver",
        Limit::Pacing => "pacing",
        Limit::OwnDevice => "the sender's own device",
        Limit::SenderRate => "pacing or the sender's own device",
        other => other.name(),
    }
}

/// The mean rate of acknowledged data.
pub(crate) fn rate_mbps(window_trace: &WindowTrace) -> f64 {
    let seconds = window_trace.seconds();
    if seconds > 0.0 { window_trace.acked_bytes as f64 * 8e-6 / seconds } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window_trace::Limits;

    /// Bursts of four rounds of 50 ms, each followed by a pause of this length.
    fn bursts(pause_ms: i64) -> WindowTrace {
        let rounds = (0..40).map(|n: i64| {
            let start_ns = (n * 50 + n / 4 * pause_ms) * 1_000_000;
            Round {
                start_ns,
                end_ns: start_ns + 50_000_000,
                window: 20.0,
                limited_by: Some(Limit::Path),
                paused_by: (n > 0 && n % 4 == 0).then_some(Limit::Application),
                limits: Limits { application: n % 4 == 3, ..Limits::default() },
                ..Round::default()
            }
        });
        WindowTrace { rounds: rounds.collect(), acked_bytes: 1_000_000, ..WindowTrace::default() }
    }

    #[test]
    fn pauses_between_rounds_are_the_applications() {
        assert_eq!(held_by(&bursts(20)), None);
        let held = held_by(&bursts(600)).unwrap_or_default();
        assert!(
            held.starts_with("limited by the application at ") && held.ends_with(" 73 % of the time"),
            "{held}"
        );
    }

    #[test]
    fn several_causes_outside_the_window_count_together() {
        let mut trace = bursts(0);
        for (place, round) in trace.rounds.iter_mut().enumerate() {
            round.limited_by = Some([Limit::Pacing, Limit::Application, Limit::Path][place % 3]);
        }
        let held = held_by(&trace).unwrap_or_default();
        assert!(
            held.starts_with("limited by the application at ") || held.starts_with("limited by pacing"),
            "{held}"
        );
    }

    #[test]
    fn an_empty_queue_may_be_the_applications_or_the_send_buffers() {
        let mut trace = bursts(0);
        for (place, round) in trace.rounds.iter_mut().enumerate() {
            round.limited_by = Some(Limit::Unknown);
            round.paused_by = None;
            round.limits.application = place % 4 > 0;
        }
        assert_eq!(
            held_by(&trace).as_deref(),
            Some(
                "in 30 of 40 rounds no more was left to send, at 4.0 Mbit/s: the application or the send buffer may hold it"
            )
        );
    }

    #[test]
    fn the_reasons_for_unused_rounds_are_listed() {
        assert_eq!(
            too_few(&bursts(20), 3, 8),
            "only 3 rounds after slow start showed the congestion window, and 8 are needed; of 40 rounds the application had no more to send \
             in 10, it was in slow start in 27"
        );
        let text = too_few(&WindowTrace::default(), 1, 8);
        assert!(text.starts_with("only 1 round after") && text.ends_with("there were 0 in all"), "{text}");
    }
}
