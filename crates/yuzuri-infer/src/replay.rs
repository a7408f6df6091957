//! An algorithm replayed: what its window would have been, given the acknowledgements, round-trip
//! times and losses that the flow had.
//!
//! At each reduction the algorithm is told the window that was seen before it and begins anew from
//! the one that was seen after it; between reductions it runs free. So its window need not be
//! known, and an error of one epoch does not spoil the next.

use crate::player::Player;
use crate::score;
use crate::unseen;
use crate::window_trace::{Cause, Reduction, Round, SLOW_START_GROWTH, WindowTrace};
use yuzuri_cca::CongestionControl;

/// Rounds that an algorithm runs free at most: an algorithm that differed once must not be wrong
/// for ever.
const SPAN: usize = 60;
/// A fall of the window, without a sign of loss, that algorithms which do not foresee it cannot
/// follow: to this part, and by more than so many segments, as delays take one away now and then
/// (Vegas). Where falls are drawn by lot each counts.
pub(crate) const CUT: f32 = 0.88;
const CUT_SEGMENTS: f32 = 1.5;
/// Rounds for which an algorithm that gave way does not grow (LP: three round trips of which one
/// begins within a round).
const INFERENCE: usize = 4;
/// Of these, those that surely lie within the three round trips.
const WHOLE_INFERENCE: usize = 2;
/// Rounds after which a flight is back where it was if its sender was only held up: no algorithm
/// grows back so soon what it gave up without a loss. LP does not grow for three round trips, and
/// the others grow by less than a tenth in a round.
const HELD_UP: usize = 2;
/// By this factor.
const GROWS: f32 = 1.1;
/// Growth of a round in which an algorithm takes back by slow start what it gave way.
const TAKING_BACK: f32 = 1.15;

/// What an algorithm predicted of a round.
#[derive(Clone, Copy, Debug)]
pub struct Prediction {
    /// Place of the round.
    pub round: usize,
    /// Epoch it belongs to.
    pub epoch: u32,
    /// The algorithm's window, segments.
    pub predicted: f32,
    /// The window seen.
    pub seen: f32,
    /// Whether it counts: nothing else limited the round, and slow start was over.
    pub counts: bool,
}

/// What an algorithm predicted of a reduction.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// Place of the reduction.
    pub reduction: usize,
    /// The algorithm's threshold, segments.
    pub predicted: f32,
    /// The window after it, as seen.
    pub seen: f32,
    /// The window before it, as seen.
    pub before: f32,
}

/// A fall of the window without a sign of loss.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// Place of the round.
    pub round: usize,
    /// The algorithm's window, segments.
    pub predicted: f32,
    /// The window seen.
    pub seen: f32,
    /// The window seen before.
    pub before: f32,
    /// What the algorithm keeps of it if this was a reduction whose loss was not seen, segments;
    /// `None` where it foresaw the fall itself, or draws its falls by lot.
    pub kept: Option<f32>,
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
    /// Rounds in which an algorithm was taken to have held its window that would have grown it, or
    /// given up some.
    pub cwnd_held: u32,
    /// Of these, the first of a row.
    pub holds: u32,
    /// Rounds in which the window moved as the algorithm foretold.
    pub moved: u32,
    /// Windows were seen at losses alone: each prediction is one of what a window had grown to.
    pub at_losses: bool,
    /// Times that the flight fell below the window and was back at once: its sender was held up,
    /// and the window did not fall.
    pub held_up: u32,
}

/// What of an algorithm is left to chance, or to its host.
#[derive(Clone, Copy, Debug)]
pub struct Chances {
    /// Ticks per second of its clock (`CONFIG_HZ`).
    pub hz: u32,
    /// When it gives way to delays is drawn by lot (CDG): its own falls are not predicted but
    /// expected wherever one is seen.
    pub randomized: bool,
    /// Whether it grows depends on a threshold that it forgets at drawn times, and on single
    /// measurements (NV): where the window stayed as it was, it may have held it.
    pub may_hold: bool,
    /// It is not told timestamps: the offset of the clocks, itself drawn by lot, blinds it (LP).
    pub blind: bool,
    /// What it gives way to delays it takes back by slow start, after some rounds without growth
    /// (LP).
    pub takes_back: bool,
    /// The least round-trip time that it had measured before the flow was seen, µs; `None` where it
    /// is the handshake's, or the least that was seen.
    pub former_rtt_us: Option<u32>,
    /// What it had estimated of a competing flow's window before the flow was seen, segments;
    /// `None` where it begins with the flow.
    pub competitor: Option<u32>,
    /// After slow start it counts an acknowledgement of several segments as one segment, as BIC,
    /// Scalable and Veno did before Linux 5.7.
    pub counts_acks: bool,
}

impl Default for Chances {
    fn default() -> Chances {
        Chances {
            hz: 1000,
            randomized: false,
            may_hold: false,
            blind: false,
            takes_back: false,
            former_rtt_us: None,
            competitor: None,
            counts_acks: false,
        }
    }
}

/// Replays `cca` over a window trace.
pub fn replay(cca: &mut dyn CongestionControl, window_trace: &WindowTrace, chances: Chances) -> Replay {
    let Some(first) = window_trace.rounds.first() else { return Replay::default() };
    if let Some(unseen) = &window_trace.unseen {
        return unseen::replay(
            Player::begin(cca, window_trace, first, chances),
            unseen,
            window_trace.mss_bytes,
        );
    }
    let rules_all = cca.controls_all();
    let mut player = Player::begin(cca, window_trace, first, chances);
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
    let mut held_up_until = 0;
    for (place, round) in window_trace.rounds.iter().enumerate() {
        loop {
            if let Some((number, reduction)) =
                repair.take_if(|(_, reduction)| reduction.round as usize <= place)
            {
                starting = reduction.cause == Cause::Timeout;
                epoch += 1;
                former = 0.0;
                free = 0;
                done.backoff.extend(player.repaired(number, reduction));
            }
            let Some((number, (reduction, _))) =
                reductions.next_if(|(_, (_, begin))| repair.is_none() && *begin <= place)
            else {
                break;
            };
            player.reduced(reduction, round);
            repair = Some((number, reduction));
        }
        if round.idle_us > 0 && !rules_all && player.idle(round) {
            (starting, former, free) = (true, 0.0, 0);
            epoch += 1;
        }
        let taking_back = chances.takes_back && !starting && player.window.in_slow_start();
        let giving_way = chances.takes_back && since_fall < WHOLE_INFERENCE;
        let (cwnd, most) = (player.window.cwnd, player.most);
        player.round(round, repair.map(|(_, reduction)| reduction), place);
        let fell = round.is_cwnd_limited() && round.window < former * CUT;
        let foreseen = (player.flight(round) - round.window).abs() <= CUT_SEGMENTS;
        if fell && !foreseen && !starting && !rules_all && place >= held_up_until {
            let next = reductions.peek().map_or(usize::MAX, |(_, (_, begin))| *begin);
            let back = back_at_once(&window_trace.rounds, place, former).filter(|back| *back < next);
            done.held_up += u32::from(back.is_some());
            held_up_until = back.unwrap_or(0);
        }
        let held_up = place < held_up_until;
        if held_up || giving_way {
            // What was not used did not grow, nor what gives way.
            player.window.cwnd = player.window.cwnd.min(cwnd);
        }
        let usable = round.is_cwnd_limited() && !held_up;
        let foretold = i64::from(player.most) - i64::from(most);
        let moves = usable && !starting && most > 0 && former > 0.0 && foretold != 0;
        let may_hold = chances.may_hold && (!chances.takes_back || since_fall < INFERENCE);
        if may_hold && usable && !starting && former > 0.0 {
            let cwnd_held = player.holds(most, round.window);
            done.cwnd_held += u32::from(cwnd_held);
            done.holds += u32::from(cwnd_held && !holding);
            holding = cwnd_held;
        }
        let seen = round.window - former;
        if moves
            && seen * foretold.signum() as f32 >= 0.5
            && score::is_near(player.flight(round), round.window)
        {
            done.moved += 1;
        }
        let fell = fell && usable;
        if starting && usable && !(chances.takes_back && fell) {
            // The end of slow start is the sender's, whatever this algorithm would have done.
            if former > 0.0 && round.window < former * SLOW_START_GROWTH {
                starting = false;
                epoch += 1;
                player.settle(round.window, true);
            }
        } else if fell && !rules_all && (chances.randomized || former - round.window > CUT_SEGMENTS) {
            let predicted = player.flight(round);
            let foreseen = (predicted - round.window).abs() <= CUT_SEGMENTS;
            let kept = (!foreseen && !chances.randomized).then(|| player.keeps(former));
            let cut = Cut { round: place, predicted, seen: round.window, before: former, kept };
            done.cuts.push(cut);
            starting = false;
            epoch += 1;
            free = 0;
            since_fall = 0;
            // What it would have done changes nothing in it, unless that explains what was seen.
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
        // As any slow start it is not judged, nor when it begins.
        let taking_back = taking_back && usable && round.window > former * TAKING_BACK;
        if taking_back {
            player.follow(round.window);
        }
        let counts = usable && !starting && !taking_back;
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
            // What was not used did not grow.
            player.window.cwnd = player.window.cwnd.min((former.max(round.window)).round().max(2.0) as u32);
        }
    }
    done
}

/// The place of the round in which a flight is back that fell in the round at `place`, where that
/// is too soon for an algorithm.
fn back_at_once(rounds: &[Round], place: usize, former: f32) -> Option<usize> {
    let back = former - CUT_SEGMENTS;
    let grown = rounds[place].window * GROWS.powi(HELD_UP as i32) + HELD_UP as f32;
    let next = rounds.iter().skip(place + 1).take(HELD_UP);
    let after = next.clone().position(|round| round.is_cwnd_limited() && round.window >= back)?;
    (grown < back).then_some(place + 1 + after)
}

/// For each reduction the place of the round in which it began: the first that had not ended by
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
