//! Replays algorithms on a flow whose windows are visible only at losses: away from the sender and
//! without timestamps.
//!
//! A round ends once as much has been acknowledged as was in flight at its start. An algorithm's
//! own window therefore determines the length of its rounds, and the window that it has reached at
//! the next loss, where the window is visible.

use crate::player::Player;
use crate::replay::{Prediction, Replay};
use crate::window_trace::{Cause, Limits, LossTrace, ObservedLoss, Reduction, Round, WindowTrace};

/// The initial window of a flow, segments (`TCP_INIT_CWND`, RFC 6928).
const INITIAL_WINDOW: u32 = 10;
/// Smaller windows are not accurate enough: one segment more or less, as sent on duplicate
/// acknowledgements, is a large part of an algorithm's growth. At nine segments answers are wrong;
/// at 158 and more they are right.
const MIN_WINDOW: f32 = 100.0;
/// The maximum number of rounds of an epoch: per acknowledgement, and in addition to these. A
/// window larger than one acknowledgement's data has fewer.
const ROUNDS_PER_ACK: usize = 2;
const MORE_ROUNDS: usize = 8;

impl LossTrace {
    /// When this many bytes had been acknowledged, and the index of that acknowledgement, searched
    /// from index `from` on; `None` beyond the last.
    fn when(&self, bytes: u64, from: usize) -> Option<(i64, usize)> {
        let rest = self.acked.get(from..)?;
        let place = from + rest.partition_point(|(_, acked)| *acked < bytes);
        self.acked.get(place).map(|(at_ns, _)| (*at_ns, place))
    }
}

/// Whether the window before a loss was seen, and reduced in fast recovery.
fn is_observed(loss: &ObservedLoss) -> bool {
    loss.before >= MIN_WINDOW && loss.cause == Cause::Recovery
}

/// Whether an algorithm's window after a loss is known: the window before the loss was observed, or
/// that before an earlier one which reductions immediately followed.
fn is_known(losses: &[ObservedLoss], place: usize) -> bool {
    let mut former = losses[..=place].iter().rev();
    former.find(|loss| loss.before > 0.0 || loss.cause != Cause::Recovery).is_some_and(is_observed)
}

/// Indices of the losses whose window an algorithm predicts.
fn predicted_losses(losses: &[ObservedLoss]) -> impl Iterator<Item = usize> {
    (1..losses.len()).filter(|place| is_observed(&losses[*place]) && is_known(losses, place - 1))
}

/// The rounds and reductions of a window trace without visible windows: a round from each loss to
/// the next.
pub(crate) fn observed_rounds(mut window_trace: WindowTrace) -> WindowTrace {
    let Some(loss_trace) = window_trace.loss_trace.take() else { return window_trace };
    if predicted_losses(&loss_trace.losses).next().is_none() {
        return window_trace;
    }
    let mss = window_trace.mss_bytes.max(1) as f32;
    let mut from = loss_trace.begin;
    (window_trace.rounds, window_trace.reductions) = (Vec::new(), Vec::new());
    for loss in &loss_trace.losses {
        window_trace.rounds.push(Round {
            start_ns: from.0,
            end_ns: loss.at_ns.max(from.0),
            window: loss.before,
            acked: loss.hole.saturating_sub(from.1) as f32 / mss,
            acks: 1,
            sent: (loss.hole.saturating_sub(from.1) as f32 / mss) as u32,
            ..Round::default()
        });
        let begun = Reduction::begun(loss.at_ns, loss.cause, loss.before);
        let round = window_trace.rounds.len() as u32;
        window_trace.reductions.push(Reduction { over_ns: loss.over_ns, round, ..begun });
        from = (loss.over_ns, loss.until);
    }
    window_trace.loss_trace = Some(loss_trace);
    window_trace
}

/// Replays an algorithm from each loss to the next.
pub(crate) fn replay(mut player: Player<'_>, loss_trace: &LossTrace, mss_bytes: u32) -> Replay {
    let mut done = Replay { at_losses: true, ..Replay::default() };
    if player.cca.controls_all() {
        return done;
    }
    let mss = u64::from(mss_bytes.max(1));
    if let Some(first) = loss_trace.losses.first() {
        // An algorithm later uses its measurements from slow start. How slow start ends does not
        // matter.
        player.window.cwnd = INITIAL_WINDOW;
        let (over_ns, until) = loss_trace.begin;
        let eliciting = ElicitingAcks { from: until, bytes: 0, from_ns: over_ns };
        grow(
            &mut player,
            loss_trace,
            (&ObservedLoss { over_ns, until, ..*first }, first),
            Some(eliciting),
            mss,
        );
    }
    for (place, pair) in loss_trace.losses.windows(2).enumerate() {
        let [begin, end] = pair else { break };
        let reduction = Reduction::begun(begin.at_ns, begin.cause, begin.before);
        player.reduced(&reduction, &Round::default(), false);
        player.round(&repairing(begin, player.window.srtt_us, mss), None, 0);
        player.repaired(place, &Reduction { over_ns: begin.over_ns, ..reduction });
        grow(&mut player, loss_trace, (begin, end), None, mss);
        if is_observed(end) && is_known(&loss_trace.losses, place) {
            done.rounds.push(Prediction {
                round: place + 1,
                epoch: place as u32,
                predicted: player.window.cwnd as f32,
                seen: end.before,
                counts: true,
            });
        }
    }
    done
}

/// The data acknowledged, or selectively acknowledged, during loss recovery.
fn repairing(loss: &ObservedLoss, srtt_us: u64, mss: u64) -> Round {
    let acked = loss.until.saturating_sub(loss.hole) as f32 / mss as f32;
    let rtt_us = srtt_us as u32;
    Round {
        start_ns: loss.at_ns,
        end_ns: loss.over_ns,
        acked,
        acks: (acked / 2.0).ceil().max(1.0) as u32,
        rtt_first_us: rtt_us,
        rtt_min_us: rtt_us,
        rtt_max_us: rtt_us,
        rtt_last_us: rtt_us,
        rtt_mean_us: rtt_us,
        limits: Limits { recovery: true, ..Limits::default() },
        ..Round::default()
    }
}

/// The number of points in a round at which its round-trip times are evaluated.
const SAMPLES: u64 = 8;

/// The acknowledgements that elicited the data acknowledged in a round: they acknowledged `bytes`
/// bytes from position `from` on. If `bytes` is 0, the data was elicited at `from_ns`.
#[derive(Clone, Copy)]
struct ElicitingAcks {
    from: u64,
    bytes: u64,
    from_ns: i64,
}

impl LossTrace {
    /// The round-trip times of a round from `acked` to `to`, if the whole round ends at `whole`, at
    /// several points of it, µs.
    fn rtts(
        &self,
        (acked, to, whole): (u64, u64, u64),
        eliciting: ElicitingAcks,
        from: usize,
        least_us: u32,
    ) -> Vec<u32> {
        let at = |part: u64, all: u64| (all * part).div_ceil(SAMPLES);
        let sample = |part: u64| {
            // The first segment acknowledged in it, not earlier data.
            let bytes = at(part, to - acked).max(1);
            let (acked_ns, _) = self.when(acked + bytes, from)?;
            let back =
                (u128::from(eliciting.bytes) * u128::from(bytes) / u128::from((whole - acked).max(1))) as u64;
            let drawn_ns = if eliciting.bytes == 0 {
                eliciting.from_ns
            } else {
                self.when(eliciting.from + back.max(1), 0)?.0
            };
            Some(u32::try_from(acked_ns.saturating_sub(drawn_ns) / 1000).unwrap_or(u32::MAX).max(least_us))
        };
        (0..=SAMPLES).filter_map(sample).collect()
    }
}

/// Plays the rounds between two losses. `eliciting`: what elicited the data of the first round, if
/// that is known.
fn grow(
    player: &mut Player<'_>,
    loss_trace: &LossTrace,
    (begin, end): (&ObservedLoss, &ObservedLoss),
    mut eliciting: Option<ElicitingAcks>,
    mss: u64,
) {
    let (mut acked, mut now) = (begin.until, begin.over_ns);
    let Some((_, mut ack)) = loss_trace.when(acked, 0) else { return };
    // No round trip is shorter than the handshake's: a window that implies one is too small.
    let least_us = u32::try_from(player.window.min_rtt_us.unwrap_or(1)).unwrap_or(u32::MAX);
    let last = loss_trace.when(end.hole, ack).map_or(loss_trace.acked.len(), |(_, place)| place);
    for _ in 0..(last - ack) * ROUNDS_PER_ACK + MORE_ROUNDS {
        let whole = acked + u64::from(player.window.cwnd.max(1)) * mss;
        let to = whole.min(end.hole);
        let Some((at_ns, place)) = loss_trace.when(to, ack).filter(|_| to > acked) else { return };
        let mut rtts = eliciting
            .map_or(Vec::new(), |eliciting| loss_trace.rtts((acked, to, whole), eliciting, ack, least_us));
        if rtts.is_empty() {
            rtts.push(player.window.srtt_us as u32);
        }
        let segments = (to - acked) as f32 / mss as f32;
        let round = Round {
            start_ns: now,
            end_ns: at_ns,
            window: player.window.cwnd as f32,
            acked: segments,
            acks: u32::try_from(place - ack).unwrap_or(u32::MAX).clamp(1, segments.ceil().max(1.0) as u32),
            sent: segments as u32,
            rtt_first_us: rtts.first().copied().unwrap_or(0),
            rtt_min_us: rtts.iter().copied().min().unwrap_or(0),
            rtt_max_us: rtts.iter().copied().max().unwrap_or(0),
            rtt_last_us: rtts.last().copied().unwrap_or(0),
            rtt_mean_us: (rtts.iter().copied().map(u64::from).sum::<u64>() / rtts.len() as u64) as u32,
            ..Round::default()
        };
        player.round(&round, None, 0);
        eliciting = Some(ElicitingAcks { from: acked, bytes: to - acked, from_ns: now });
        (acked, now, ack) = (to, at_ns, place);
    }
}
