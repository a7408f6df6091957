//! Replays an algorithm: determines its window, given the flow's acknowledgements, round-trip times
//! and losses.
//!
//! At each reduction the algorithm receives the observed window before it and restarts from the
//! observed window after it; between reductions it runs free. Its window therefore need not be
//! known, and an error in one epoch does not affect the next.

use crate::loss_trace;
use crate::player::Player;
use crate::score;
use crate::window_trace::{Cause, Reduction, Round, SLOW_START_GROWTH, WindowTrace};
use yuzuri_cca::CongestionControl;

/// Maximum number of rounds that an algorithm runs free, so that a single difference does not
/// persist indefinitely.
const SPAN: usize = 60;
/// A fall of the window without a sign of loss that algorithms which do not predict it cannot
/// follow: to this fraction, and by more than this many segments, since delays sometimes remove one
/// (Vegas). If falls are random, each counts.
pub(crate) const CUT: f32 = 0.88;
const CUT_SEGMENTS: f32 = 1.5;
/// Rounds for which an algorithm does not grow after it backed off (LP: three round trips, one of
/// which begins within a round).
const INFERENCE: usize = 4;
/// Of these, rounds that are certainly within the three round trips.
const WHOLE_INFERENCE: usize = 2;
/// Rounds after which a flight is back if its sender was only delayed: no algorithm regains a
/// window so soon after it backed off without a loss. LP does not grow for three round trips, and
/// the others grow by less than a tenth in a round.
const SENDER_DELAYED_ROUNDS: usize = 2;
/// Growth of a round in congestion avoidance, as a factor.
const GROWS: f32 = 1.1;
/// Growth of a round in slow start, as a factor.
const DOUBLES: f32 = 2.0;
/// Growth of a round in which an algorithm regains its window in slow start after it backed off.
const TAKING_BACK: f32 = 1.15;

/// An algorithm's prediction for a round.
#[derive(Clone, Copy, Debug)]
pub struct Prediction {
    /// Index of the round.
    pub round: usize,
    /// Epoch it belongs to.
    pub epoch: u32,
    /// The algorithm's window, segments.
    pub predicted: f32,
    /// The observed window.
    pub seen: f32,
    /// Whether it counts: nothing else limited the round, and slow start was over.
    pub counts: bool,
}

/// An algorithm's prediction for a reduction.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// Index of the reduction.
    pub reduction: usize,
    /// The algorithm's threshold, segments.
    pub predicted: f32,
    /// The observed window after it.
    pub seen: f32,
    /// The observed window before it.
    pub before: f32,
}

/// A fall of the window without a sign of loss.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// Index of the round.
    pub round: usize,
    /// The algorithm's window, segments.
    pub predicted: f32,
    /// The observed window.
    pub seen: f32,
    /// The observed window before.
    pub before: f32,
    /// The algorithm's window if this was a reduction with an unseen loss, segments; `None` if it
    /// predicted the fall itself, or if its falls are random.
    pub if_reduced: Option<f32>,
}

/// A replay.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    /// Round by round.
    pub rounds: Vec<Prediction>,
    /// Reduction by reduction: fast recoveries that were not undone.
    pub backoff: Vec<Backoff>,
    /// Falls without a sign of loss.
    pub cuts: Vec<Cut>,
    /// Rounds in which an algorithm was assumed to have held its window instead of growing or
    /// reducing it.
    pub held_rounds: u32,
    /// Of these, the first of consecutive ones.
    pub hold_periods: u32,
    /// Rounds in which the window moved as the algorithm predicted.
    pub moved: u32,
    /// Windows were visible only at losses: each prediction is a window that was reached by growth.
    pub at_losses: bool,
    /// Times when the flight fell below the window and was immediately back: its sender was
    /// delayed, and the window did not fall.
    pub sender_delays: u32,
}

/// Properties of an algorithm that are random or depend on its host.
#[derive(Clone, Copy, Debug)]
pub struct Assumptions {
    /// Ticks per second of its clock (`CONFIG_HZ`).
    pub hz: u32,
    /// Its response to delays is random (CDG): its falls are not predicted but accepted wherever
    /// one is observed.
    pub randomized: bool,
    /// Its growth depends on a threshold that it forgets at random times, and on single
    /// measurements (NV): where the window did not change, it may have held it.
    pub may_hold: bool,
    /// It gets no timestamps: the clocks' offset, itself random, blinds it (LP).
    pub blind: bool,
    /// After backing off because of delay, and some rounds without growth, it regains its window in
    /// slow start (LP).
    pub takes_back: bool,
    /// The minimum round-trip time from before the observation, µs; `None` if it is the
    /// handshake's, or the observed minimum.
    pub former_rtt_us: Option<u32>,
    /// Its estimate of a competing flow's window from before the observation, segments; `None` if
    /// it starts with the flow.
    pub competitor: Option<u32>,
    /// The window before the last loss before the observation, segments; `None` if it starts with
    /// the flow, or has outgrown it.
    pub former_max: Option<u32>,
    /// After slow start it counts an acknowledgement of several segments as one segment, as BIC,
    /// Scalable and Veno did before Linux 5.7.
    pub counts_acks: bool,
}

impl Default for Assumptions {
    fn default() -> Assumptions {
        Assumptions {
            hz: 1000,
            randomized: false,
            may_hold: false,
            blind: false,
            takes_back: false,
            former_rtt_us: None,
            competitor: None,
            former_max: None,
            counts_acks: false,
        }
    }
}

/// Replays `cca` over a window trace.
pub fn replay(
    cca: &mut dyn CongestionControl,
    window_trace: &WindowTrace,
    assumptions: Assumptions,
) -> Replay {
    let Some(first) = window_trace.rounds.first() else { return Replay::default() };
    if let Some(loss_trace) = &window_trace.loss_trace {
        return loss_trace::replay(
            Player::begin(cca, window_trace, first, assumptions),
            loss_trace,
            window_trace.mss_bytes,
        );
    }
    let rules_all = cca.controls_all();
    let mut player = Player::begin(cca, window_trace, first, assumptions);
    let mut done = Replay::default();
    let begins = begins(window_trace);
    let mut reductions = window_trace.reductions.iter().zip(begins).enumerate().peekable();
    let mut repair: Option<(usize, &Reduction)> = None;
    let mut epoch = 0;
    let mut starting = true;
    let mut former = 0.0_f32;
    let mut holding = false;
    let mut free = 0;
    let mut since_fall = INFERENCE;
    let mut sender_delayed_until = 0;
    let mut cwnd_unseen = false;
    let mut hidden = false;
    let mut former_max = assumptions.former_max;
    for (place, round) in window_trace.rounds.iter().enumerate() {
        loop {
            if let Some((number, reduction)) =
                repair.take_if(|(_, reduction)| reduction.round as usize <= place)
            {
                starting = reduction.cause == Cause::Timeout;
                epoch += 1;
                former = 0.0;
                free = 0;
                let backoff = player.repaired(number, reduction);
                // Another limit applied immediately: the flight afterwards is smaller than the
                // window.
                cwnd_unseen = !starting && !rules_all && (round.limits.application || round.limits.receiver);
                done.backoff.extend(backoff.filter(|_| !cwnd_unseen && !hidden));
            }
            let Some((number, (reduction, begin))) =
                reductions.next_if(|(_, (_, begin))| repair.is_none() && *begin <= place)
            else {
                break;
            };
            hidden = !rules_all && is_hidden(&window_trace.rounds, begin);
            player.reduced(reduction, round, hidden);
            repair = Some((number, reduction));
        }
        // A sender that waited for the receiver had data, and keeps its window until its program
        // writes (`tcp_slow_start_after_idle_check`).
        let waited = place > 0 && window_trace.rounds[place - 1].limits.receiver;
        if round.idle_us > 0 && !rules_all && player.idle(round, !waited) {
            (starting, former, free) = (true, 0.0, 0);
            epoch += 1;
        }
        let taking_back = assumptions.takes_back && !starting && player.window.in_slow_start();
        let giving_way = assumptions.takes_back && since_fall < WHOLE_INFERENCE;
        let (cwnd, most) = (player.window.cwnd, player.max_cwnd);
        player.round(round, repair.map(|(_, reduction)| reduction), place);
        let fell = round.is_cwnd_limited() && round.window < former * CUT;
        let is_predicted = (player.flight(round) - round.window).abs() <= CUT_SEGMENTS;
        if fell && !is_predicted && !rules_all && place >= sender_delayed_until {
            let next = reductions.peek().map_or(usize::MAX, |(_, (_, begin))| *begin);
            let grows = if starting { DOUBLES } else { GROWS };
            let back = back_at_once(&window_trace.rounds, place, former, grows).filter(|back| *back < next);
            done.sender_delays += u32::from(back.is_some());
            sender_delayed_until = back.unwrap_or(0);
        }
        let sender_delayed = place < sender_delayed_until;
        if sender_delayed || giving_way {
            // An unused window neither grows nor falls.
            player.window.cwnd = player.window.cwnd.min(cwnd);
        }
        let usable = round.is_cwnd_limited() && !sender_delayed;
        let first_seen = usable && !starting && std::mem::take(&mut cwnd_unseen);
        if first_seen {
            player.settle(round.window, false);
        }
        let predicted = i64::from(player.max_cwnd) - i64::from(most);
        let moves = usable && !starting && most > 0 && former > 0.0 && predicted != 0;
        let may_hold = assumptions.may_hold && (!assumptions.takes_back || since_fall < INFERENCE);
        if may_hold && usable && !starting && former > 0.0 {
            let held = player.holds_cwnd(most, round.window);
            done.held_rounds += u32::from(held);
            done.hold_periods += u32::from(held && !holding);
            holding = held;
        }
        let seen = round.window - former;
        if moves
            && seen * predicted.signum() as f32 >= 0.5
            && score::is_near(player.flight(round), round.window)
        {
            done.moved += 1;
        }
        let fell = fell && usable;
        if starting && usable && !(assumptions.takes_back && fell) {
            // The end of slow start is the sender's, regardless of this algorithm.
            if former > 0.0 && round.window < former * SLOW_START_GROWTH {
                starting = false;
                epoch += 1;
                if let Some(former_max) = former_max.take() {
                    player.reduced_before(former_max);
                }
                player.settle(round.window, true);
            }
        } else if fell && !rules_all && (assumptions.randomized || former - round.window > CUT_SEGMENTS) {
            let predicted = player.flight(round);
            let is_predicted = (predicted - round.window).abs() <= CUT_SEGMENTS;
            let if_reduced = (!is_predicted && !assumptions.randomized).then(|| player.reduced_from(former));
            let cut = Cut { round: place, predicted, seen: round.window, before: former, if_reduced };
            done.cuts.push(cut);
            starting = false;
            epoch += 1;
            free = 0;
            since_fall = 0;
            // Its hypothetical reduction does not change its state, unless it explains the
            // observation.
            player.fall(round.window, score::is_reduction(&cut).then_some(former));
        } else if usable && free >= SPAN {
            epoch += 1;
            free = 0;
            if !rules_all {
                player.settle(round.window, false);
            }
        }
        free += usize::from(usable);
        since_fall = since_fall.saturating_add(1);
        // Like any slow start it is not scored, nor is its start.
        let taking_back = taking_back && usable && round.window > former * TAKING_BACK;
        if taking_back {
            player.follow(round.window);
        }
        let counts = usable && !starting && !taking_back && !first_seen;
        done.rounds.push(Prediction {
            round: place,
            epoch,
            predicted: player.flight(round),
            seen: round.window,
            counts,
        });
        if usable {
            former = round.window;
        } else if !starting && (round.limits.application || round.limits.receiver) {
            // An unused window does not grow.
            player.window.cwnd = player.window.cwnd.min((former.max(round.window)).round().max(2.0) as u32);
        }
    }
    done
}

/// The index of the round in which a flight has recovered from its fall in round `place`, if that
/// is too soon for an algorithm, which grows by this factor in a round.
fn back_at_once(rounds: &[Round], place: usize, former: f32, grows: f32) -> Option<usize> {
    let back = former - CUT_SEGMENTS;
    let grown =
        rounds[place].window * grows.powi(SENDER_DELAYED_ROUNDS as i32) + SENDER_DELAYED_ROUNDS as f32;
    let next = rounds.iter().skip(place + 1).take(SENDER_DELAYED_ROUNDS);
    let after = next.clone().position(|round| round.is_cwnd_limited() && round.window >= back)?;
    (grown < back).then_some(place + 1 + after)
}

/// Whether something else limited the flight up to the reduction that began in this round: the
/// window before it was larger. (In slow start Linux lets it grow to twice the flight.)
fn is_hidden(rounds: &[Round], begin: usize) -> bool {
    let held = |round: &Round| round.limits.application || round.limits.receiver;
    begin > 0 && begin < rounds.len() && rounds[begin - 1..=begin].iter().all(held)
}

/// For each reduction, the index of the round in which it began: the first that had not ended by
/// then, at most the first after it.
fn begins(window_trace: &WindowTrace) -> Vec<usize> {
    let mut from = 0;
    let mut begins = Vec::with_capacity(window_trace.reductions.len());
    for reduction in &window_trace.reductions {
        let to = (reduction.round as usize).min(window_trace.rounds.len()).max(from);
        let rounds = &window_trace.rounds[from..to];
        let begin =
            from + rounds.iter().position(|round| round.end_ns > reduction.at_ns).unwrap_or(rounds.len());
        begins.push(begin);
        from = to;
    }
    begins
}
