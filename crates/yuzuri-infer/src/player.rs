//! Plays an algorithm: passes it what the sender's kernel would report about acknowledgements,
//! losses and idle times.

use crate::replay::{Assumptions, Backoff, CUT};
use crate::score;
use crate::window_trace::{Cause, Reduction, Round, WindowTrace};
use yuzuri_cca::{
    AckEvent, AckSample, CaState, CongestionControl, CwndEvent, RateSample, Timestamps, Window,
};

/// The start of the timestamps' clock: late enough for any round-trip time to lie before it.
const CLOCK_START_US: u64 = 1_000_000_000;
/// The largest window, segments (a receiver's window of 2^30 bytes holds 741,455 segments of 1448):
/// the algorithms' integers are designed for it.
const MAX_WINDOW: u32 = 1 << 20;
/// The longest round-trip time.
pub(crate) const MAX_RTT_US: u64 = 60_000_000;
/// The smallest retransmission timeout of Linux, without the round-trip time (`TCP_RTO_MIN`).
const MIN_RTO_US: u64 = 200_000;
/// The window after an idle time (`TCP_INIT_CWND`, RFC 6928).
const RESTART_WINDOW: u32 = 10;
/// A reduction divides the window by at most this, except after a timeout.
const MAX_REDUCED: u32 = 8;
/// A reduction to less than this fraction of the window shows that the algorithm had already backed
/// off in the same round.
const TWICE: f32 = 0.45;

/// An algorithm with its window.
pub(crate) struct Player<'a> {
    pub(crate) cca: &'a mut dyn CongestionControl,
    pub(crate) window: Window,
    pub(crate) zero_ns: i64,
    /// Segments that the next acknowledgement removes from the queue, if that is known for it
    /// alone.
    pub(crate) next: Option<f32>,
    /// The fraction of an acknowledged segment that has not been passed on yet.
    pub(crate) rest: f32,
    /// The largest window in the round, since the observed value of a round is its largest flight.
    pub(crate) max_cwnd: u32,
    pub(crate) assumptions: Assumptions,
    pub(crate) clock_offset_ms: u32,
    /// How much more the last reduction left than the replay's own window would have.
    more_left: u32,
    /// The observations are those of a log that was polled.
    polled: bool,
}

impl<'a> Player<'a> {
    /// An algorithm at the start of a flow with this first round: its sender has the handshake's
    /// round-trip time.
    pub(crate) fn begin(
        cca: &'a mut dyn CongestionControl,
        window_trace: &WindowTrace,
        first: &Round,
        assumptions: Assumptions,
    ) -> Player<'a> {
        let mut window = Window::new(assumptions.hz, window_trace.mss_bytes.max(1), true);
        window.cwnd_limited = true;
        let first_rtt_us =
            || window_trace.rounds.iter().map(|round| round.rtt_min_us).find(|rtt_us| *rtt_us > 0);
        let rtt_us = assumptions
            .former_rtt_us
            .or(window_trace.handshake_rtt_us)
            .or_else(first_rtt_us)
            .map(|rtt_us| u64::from(rtt_us).min(MAX_RTT_US));
        (window.srtt_us, window.min_rtt_us) = (rtt_us.unwrap_or(0), rtt_us);
        cca.init(&mut window);
        if let Some(competitor) = assumptions.competitor {
            cca.competition_detected(competitor);
        }
        window.cwnd = segments(first.window).max(1);
        if let Some(rtt_us) = rtt_us.filter(|_| assumptions.former_rtt_us.is_some()) {
            // As measured by an earlier acknowledgement.
            let sample =
                AckSample { acked: 1, rtt_us: Some(rtt_us), in_flight: window.cwnd, timestamps: None };
            cca.pkts_acked(&mut window, &sample);
        }
        let clock_offset_ms = window_trace.clock_offset_ms.unwrap_or(0);
        Player {
            cca,
            window,
            zero_ns: first.start_ns,
            next: None,
            rest: 0.0,
            max_cwnd: 0,
            assumptions,
            clock_offset_ms,
            more_left: 0,
            polled: window_trace.polled,
        }
    }

    /// Sets the current time; the algorithms' clocks never go backwards, as captures' do.
    pub(crate) fn at(&mut self, ns: i64) {
        let now_ns = ns.saturating_sub(self.zero_ns).max(0) as u64;
        self.window.now_ns = self.window.now_ns.max(now_ns);
    }

    /// The sender had nothing outstanding for a while and sends again. Returns whether it restarts
    /// in slow start (RFC 5681, section 4.1; Linux after an idle time longer than the
    /// retransmission timeout, `tcp_cwnd_restart`): up to ssthresh or three quarters of the earlier
    /// window. It may do so only if it had nothing to send (`may_restart`).
    pub(crate) fn idle(&mut self, round: &Round, may_restart: bool) -> bool {
        self.at(round.start_ns);
        let idle_ns = u64::from(round.idle_us) * 1000;
        let window = &mut self.window;
        let last_sent_ns = window.now_ns.saturating_sub(idle_ns);
        self.cca.cwnd_event(window, CwndEvent::TxStart { last_sent_ns });
        let restarts = may_restart && idle_ns > (MIN_RTO_US + window.srtt_us) * 1000;
        if restarts {
            self.cca.cwnd_event(window, CwndEvent::Restart);
            window.ssthresh = window.ssthresh.max(window.cwnd - window.cwnd / 4);
            window.cwnd = window.cwnd.min(RESTART_WINDOW);
            window.cwnd_cnt = 0;
        }
        restarts
    }

    /// Sets the algorithm's window to the observed one.
    pub(crate) fn settle(&mut self, seen: f32, from_slow_start: bool) {
        self.window.cwnd = segments(seen).max(2);
        self.max_cwnd = self.window.cwnd;
        if from_slow_start || self.window.ssthresh > self.window.cwnd {
            self.window.ssthresh = self.window.cwnd;
        }
        self.window.cwnd_cnt = 0;
    }

    /// Reduces this window, as the algorithm did before the observation.
    pub(crate) fn reduced_before(&mut self, former_max: u32) {
        reduces(self.cca, &mut self.window, former_max as f32);
    }

    /// The window that a reduction of `before` with an unseen cause would leave, segments: the
    /// sender's own device was congested, or the capture lacks a loss.
    pub(crate) fn reduced_from(&self, before: f32) -> f32 {
        reduces(self.cca.copied().as_mut(), &mut self.window.clone(), before)
    }

    /// Lets the algorithm's window fall to the observed one without a visible loss. `reduced`: the
    /// window before, if the algorithm reduced it.
    pub(crate) fn fall(&mut self, seen: f32, reduced: Option<f32>) {
        if let Some(before) = reduced {
            reduces(self.cca, &mut self.window, before);
        }
        let ssthresh = self.window.ssthresh;
        self.settle(seen, false);
        if self.assumptions.takes_back {
            self.window.ssthresh = ssthresh;
        }
    }

    /// Continues from the observed window, with the growth since.
    pub(crate) fn follow(&mut self, seen: f32) {
        let seen = segments(seen);
        self.window.cwnd = (self.window.cwnd + seen).saturating_sub(self.max_cwnd).clamp(2, MAX_WINDOW);
        self.max_cwnd = seen;
    }

    /// Holds its own window of the previous round if that is nearer to the observed one than the
    /// algorithm's new window. It does not follow the observation: a wandering flight is not held.
    pub(crate) fn holds_cwnd(&mut self, held: u32, seen: f32) -> bool {
        let off = |window: u32| (window as f32 - seen).abs();
        let holds = held > 0 && off(held) + 0.5 < off(self.max_cwnd);
        if holds {
            self.max_cwnd = held;
            (self.window.cwnd, self.window.cwnd_cnt) = (held.max(2), 0);
        }
        holds
    }

    /// Sets the window before a reduction, and lets the algorithm reduce it. `hidden`: something
    /// else limited the flight before it, which was less than the window.
    pub(crate) fn reduced(&mut self, reduction: &Reduction, round: &Round, hidden: bool) {
        self.at(reduction.at_ns);
        self.rest = 0.0;
        self.next = None;
        self.more_left = 0;
        if reduction.before > 0.0 {
            self.before(reduction, round);
        }
        let shows_window = reduction.cause != Cause::Timeout && !reduction.undone;
        if (hidden || reduction.before <= 0.0) && shows_window && !self.cca.controls_all() {
            self.larger_before(reduction.after);
        }
        let window = &mut self.window;
        window.prior_cwnd = window.cwnd;
        window.in_flight = window.cwnd;
        window.state = CaState::Open;
        window.ssthresh = self.cca.ssthresh(window).max(2);
        let state = match reduction.cause {
            Cause::Recovery => CaState::Recovery,
            Cause::Ecn => CaState::Cwr,
            Cause::Timeout => CaState::Loss,
        };
        self.cca.set_state(window, state);
        window.state = state;
        if reduction.cause == Cause::Timeout {
            self.cca.cwnd_event(window, CwndEvent::Loss);
            window.cwnd = 1;
        } else if !self.cca.controls_all() {
            // Rate-based algorithms have no ssthresh: it is the largest number.
            window.cwnd = window.ssthresh.min(MAX_WINDOW);
        }
    }

    /// A reduction during another reduction, or of a flight that something else limited, shows the
    /// window after it, but not the window before it: the replay's own window is used for that. If
    /// more is left than the replay leaves, the flight at the first reduction was less than the
    /// window. The state that an algorithm derives from its window (CUBIC, BIC) is then that of the
    /// window whose reduction leaves this much.
    fn larger_before(&mut self, after: f32) {
        let own = self.window.cwnd;
        let left = self.reduced_from(own as f32);
        if after - left <= 2.0 * score::reduction_noise(own as f32) {
            return;
        }
        let (mut low, mut high) = (own, segments(after).saturating_mul(MAX_REDUCED).max(own));
        while low < high {
            let middle = low + (high - low) / 2;
            if self.reduced_from(middle as f32) < after {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        self.window.cwnd = low;
        self.more_left = (self.reduced_from(low as f32) - left).max(0.0) as u32;
    }

    /// Sets the window to the one before a reduction. The flight is its minimum: according to the
    /// algorithm, later acknowledgements may have grown it by a segment that was no longer sent.
    fn before(&mut self, reduction: &Reduction, round: &Round) {
        let seen = segments(reduction.before).max(2);
        let acked = segments(reduction.acked.min(reduction.before));
        if !self.cca.controls_all() && acked > 0 && self.window.cwnd <= seen + 1 {
            let last_us = if reduction.rtt_us > 0 { reduction.rtt_us } else { round.rtt_first_us };
            self.acknowledged_before(acked, reduction.acks, round.rtt_first_us, last_us);
            let window = &mut self.window;
            let twice = reduction.after > 0.0 && reduction.after < reduction.before * TWICE;
            if twice && !self.assumptions.randomized && (window.cwnd as f32) < seen as f32 * CUT {
                // The algorithm has just backed off, and the flight has not drained yet.
                return;
            }
        }
        if self.window.cwnd != seen + 1 {
            self.window.cwnd = seen;
        }
    }

    /// The segments acknowledged in order before a reduction, the number of acknowledgements, and
    /// the first and last round-trip times that they measured: some algorithms decide by the last
    /// alone (Veno).
    fn acknowledged_before(&mut self, acked: u32, acks: u32, first_us: u32, last_us: u32) {
        let acks = acks.clamp(1, acked);
        let (first_us, last_us) = (i64::from(first_us), i64::from(last_us));
        let mut before = 0;
        for number in 1..=acks {
            let until = (u64::from(acked) * u64::from(number) / u64::from(acks)) as u32;
            let part = until - before;
            before = until;
            let rtt_us =
                first_us + (last_us - first_us) * i64::from(number - 1) / i64::from((acks - 1).max(1));
            let rtt_us = Some((rtt_us as u64).min(MAX_RTT_US)).filter(|rtt_us| *rtt_us > 0);
            let window = &mut self.window;
            window.snd_una = window.snd_una.wrapping_add(part);
            let sample = AckSample { acked: part, rtt_us, in_flight: window.cwnd, timestamps: None };
            self.cca.pkts_acked(window, &sample);
            self.grow(part);
        }
    }

    /// Loss recovery is complete: the algorithm continues from the observed window.
    pub(crate) fn repaired(&mut self, number: usize, reduction: &Reduction) -> Option<Backoff> {
        self.at(reduction.over_ns);
        let window = &mut self.window;
        if reduction.cleared > 0.0 {
            // The algorithm counts acknowledged segments before it learns that recovery is
            // complete. Retransmissions yield no round-trip time.
            let acked = segments(reduction.cleared);
            let sample = AckSample { acked, rtt_us: None, in_flight: window.cwnd, timestamps: None };
            self.cca.pkts_acked(window, &sample);
        }
        // Everything up to `high_seq` is acknowledged: algorithms count their rounds from here,
        // before anything is sent that the window now admits.
        window.in_flight = if reduction.after > 0.0 { segments(reduction.after) } else { window.cwnd };
        window.snd_una = window.snd_una.wrapping_add(segments(reduction.completed).min(window.cwnd));
        // Acknowledged segments are passed on as whole segments, too.
        let left = if reduction.left > 0.0 { whole(reduction.left) as u32 } else { window.in_flight };
        window.snd_nxt = window.snd_una.wrapping_add(left);
        self.cca.set_state(window, CaState::Open);
        window.state = CaState::Open;
        window.cwnd_cnt = 0;
        self.next = Some(reduction.next).filter(|segments| *segments > 0.0);
        if reduction.cause == Cause::Timeout {
            return None;
        }
        // Some choose the window only now (Westwood).
        self.cca.cwnd_event(window, CwndEvent::Reduced);
        self.completed(reduction);
        let window = &mut self.window;
        // For a reduction upon a reduction, only the algorithm knows the window in between.
        let before = if reduction.before > 0.0 { reduction.before } else { window.prior_cwnd as f32 };
        // Between two polls in slow start the window also grew, and may have been reduced twice: it
        // is unknown.
        let known = reduction.before > 0.0 || !self.polled;
        // An ECN-Echo is answered like a loss, except by DCTCP.
        let reads = !reduction.undone && known && before >= 4.0 && reduction.after > 0.0;
        let cwnd = window.cwnd as f32;
        // Nothing could be sent until the next acknowledgement, which grew the observed window.
        let grown = reduction.after == cwnd + 1.0 && reduction.left >= cwnd;
        // Rate-based algorithms reduce nothing: the flight after it is their flight without
        // probing.
        let srtt_us = window.srtt_us.min(MAX_RTT_US) as u32;
        let predicted = if self.cca.controls_all() {
            self.cruising(srtt_us).unwrap_or(before)
        } else if grown {
            reduction.after
        } else {
            cwnd
        };
        // The reduction shows that the window was larger; the replay does not predict it.
        let predicted = predicted - self.more_left as f32;
        let window = &mut self.window;
        if reduction.undone {
            window.cwnd = self.cca.undo_cwnd(window).max(reduction.after.round() as u32).clamp(2, MAX_WINDOW);
        } else if reduction.after > 0.0 && window.cwnd != segments(reduction.after) && !grown {
            window.cwnd = segments(reduction.after).max(2);
            window.ssthresh = window.cwnd;
            // The last acknowledgement's contribution to the next segment stays: otherwise small
            // windows would be a round late for good.
            window.cwnd_cnt = window.cwnd_cnt.min(segments(reduction.completed)).min(window.cwnd - 1);
        }
        reads.then_some(Backoff { reduction: number, predicted, seen: reduction.after, before })
    }

    /// The acknowledgement that ended recovery already grows the window.
    fn completed(&mut self, reduction: &Reduction) {
        let acked = segments(reduction.completed);
        if !self.cca.controls_all() && acked > 0 && !reduction.undone {
            self.grow(acked);
        }
    }

    /// An acknowledgement of this many segments grows the window.
    fn grow(&mut self, acked: u32) {
        let window = &mut self.window;
        let counts_acks = self.assumptions.counts_acks && !window.in_slow_start();
        self.cca.cong_avoid(window, if counts_acks { 1 } else { acked });
    }

    /// Plays a round; in a round with loss recovery, the part accounted for by the reduction is
    /// excluded.
    pub(crate) fn round(&mut self, round: &Round, repair: Option<&Reduction>, place: usize) {
        let mut all = round.acked;
        if let Some(reduction) = repair {
            // The first of its rounds contains the acknowledgements before it, the last the one
            // that ended it.
            let before = if reduction.at_ns >= round.start_ns { reduction.acked } else { 0.0 };
            let last = if place + 1 == reduction.round as usize { reduction.completed } else { 0.0 };
            all = (all - before - last).max(0.0);
        }
        let steps = round.acks.clamp(1, 100_000);
        let next = self.next.take().filter(|next| steps > 1 && *next < all);
        let each = next.map_or(all / steps as f32, |next| (all - next) / (steps - 1) as f32);
        let length = round.end_ns.saturating_sub(round.start_ns).max(0);
        let delivered_before = self.window.delivered;
        self.max_cwnd = 0;
        for step in 0..steps {
            // Growth by the last acknowledgement is sent in the next round.
            self.max_cwnd = self.max_cwnd.max(self.window.cwnd);
            self.rest += next.filter(|_| step == 0).unwrap_or(each);
            let acked = whole(self.rest);
            self.rest -= acked;
            let acked = segments(acked);
            let passed = i128::from(length) * i128::from(step + 1) / i128::from(steps);
            self.at(round.start_ns.saturating_add(passed as i64));
            self.acknowledged(acked, round, step, steps, delivered_before);
        }
    }

    fn acknowledged(&mut self, acked: u32, round: &Round, step: u32, steps: u32, delivered_before: u64) {
        let rtt = rtt_us(round, step, steps);
        let window = &mut self.window;
        window.delivered += u64::from(acked);
        window.delivered_at_ns = window.now_ns;
        window.snd_una = window.snd_una.wrapping_add(acked);
        // The data that it elicits is sent only after it has taken effect.
        window.in_flight = window.cwnd.saturating_sub(acked);
        window.snd_nxt = window.snd_una.wrapping_add(window.in_flight);
        window.max_packets_out = window.cwnd;
        if let Some(rtt) = rtt {
            window.srtt_us = if window.srtt_us == 0 { rtt } else { (window.srtt_us * 7 + rtt) / 8 };
            window.min_rtt_us = Some(window.min_rtt_us.map_or(rtt, |least| least.min(rtt)));
        }
        let ece = round.ece > 0;
        // Some of the round's acknowledgements echo marks; assume that they are evenly spread.
        let echoed = |step: u32| u64::from(round.ece.min(steps)) * u64::from(step) / u64::from(steps);
        if echoed(step + 1) > echoed(step) {
            window.delivered_ce += u64::from(acked);
        }
        // The return path is assumed to be constant.
        let clock_us = window.now_ns / 1000 + CLOCK_START_US;
        let timestamps = rtt.filter(|_| !self.assumptions.blind).map(|rtt| Timestamps {
            value_ms: ((clock_us / 1000) as u32).wrapping_add(self.clock_offset_ms),
            echo_ms: (clock_us.saturating_sub(rtt) / 1000) as u32,
        });
        let before = (window.cwnd, window.ssthresh);
        self.cca.in_ack_event(window, AckEvent { slow_path: false, ece });
        let sample = AckSample { acked, rtt_us: rtt, in_flight: window.cwnd, timestamps };
        self.cca.pkts_acked(window, &sample);
        if self.cca.controls_all() {
            let sample = RateSample {
                delivered: Some(round.acked.round() as u64),
                // No rate is measured over a shorter time (`tcp_rate_gen`).
                interval_us: ((round.end_ns - round.start_ns).max(0) as u64 / 1000)
                    .max(window.min_rtt_us.unwrap_or(1).max(1)),
                prior_delivered: delivered_before,
                acked,
                prior_in_flight: window.cwnd,
                rtt_us: rtt,
                app_limited: round.limits.application,
                ..RateSample::default()
            };
            self.cca.cong_control(window, &sample);
        } else if acked > 0 && !round.limits.any() {
            self.grow(acked);
        }
        let window = &mut self.window;
        if self.assumptions.randomized && window.cwnd < before.0 {
            (window.cwnd, window.ssthresh) = before;
        }
        window.cwnd = window.cwnd.clamp(1, MAX_WINDOW);
    }

    /// The flight that the algorithm would have had. For a rate-based algorithm: its flight while
    /// it does not probe, as the times of probes are random.
    pub(crate) fn flight(&self, round: &Round) -> f32 {
        self.cruising(round.rtt_mean_us).unwrap_or(self.max_cwnd as f32)
    }

    /// The flight of a rate-based algorithm while it does not probe, segments.
    fn cruising(&self, rtt_us: u32) -> Option<f32> {
        let bandwidth = self.cca.bandwidth().filter(|rate| rate.is_finite() && *rate > 0.0)?;
        Some((bandwidth * f64::from(rtt_us)).min(f64::from(MAX_WINDOW)) as f32)
    }
}

/// Lets an algorithm reduce a window; returns the window after it, segments.
fn reduces(cca: &mut dyn CongestionControl, window: &mut Window, before: f32) -> f32 {
    window.cwnd = segments(before).max(2);
    (window.prior_cwnd, window.in_flight) = (window.cwnd, window.cwnd);
    cca.ssthresh(window).clamp(2, MAX_WINDOW) as f32
}

/// Rounds values that are whole except for rounding errors.
fn whole(segments: f32) -> f32 {
    (segments + 0.01).floor()
}

/// Observed windows and acknowledged amounts as the integers that algorithms use.
pub(crate) fn segments(seen: f32) -> u32 {
    (seen.round() as u32).min(MAX_WINDOW)
}

/// The round-trip time of one of the round's acknowledgements: the minimum first, as algorithms
/// look for it at the start of a round, the maximum in the middle, otherwise from first to last
/// along a curve with their mean.
fn rtt_us(round: &Round, step: u32, steps: u32) -> Option<u64> {
    if round.rtt_min_us == 0 {
        return None;
    }
    let rtt_us = if step == 0 {
        u64::from(round.rtt_min_us)
    } else if step == steps / 2 && steps > 2 {
        u64::from(round.rtt_max_us)
    } else {
        let part = f64::from(step) / f64::from(steps.max(1));
        let [first, last, least, most, mean] =
            [round.rtt_first_us, round.rtt_last_us, round.rtt_min_us, round.rtt_max_us, round.rtt_mean_us]
                .map(f64::from);
        let bow = 6.0 * part * (1.0 - part) * (mean - (first + last) / 2.0);
        (first + (last - first) * part + bow).clamp(least, most.max(least)) as u64
    };
    Some(rtt_us.min(MAX_RTT_US))
}

#[cfg(test)]
mod tests {
    use super::*;
    use yuzuri_cca::{Algorithm, SlowStartExit};

    /// CUBIC reduces to 0.7, and grows towards 0.85 of a window that is below the one before.
    #[test]
    fn what_a_second_reduction_leaves_shows_the_window_before_it() {
        let trace = WindowTrace { mss_bytes: 1448, min_rtt_us: 100_000, ..WindowTrace::default() };
        let first = Round { window: 1142.0, ..Round::default() };
        for (after, before) in [(652.0, 930..=933), (560.0, 799..=799)] {
            let mut cubic = Algorithm::Cubic.make(SlowStartExit::Loss, 1);
            let mut player = Player::begin(cubic.as_mut(), &trace, &first, Assumptions::default());
            let begun = |before| Reduction::begun(0, Cause::Recovery, before);
            player.reduced(&begun(1142.0), &first, false);
            player.repaired(0, &begun(1142.0));
            // More was lost, and the flight of 1142 was less than the window.
            let second = Reduction { after, ..begun(0.0) };
            player.reduced(&second, &first, false);
            assert!(before.contains(&player.window.prior_cwnd), "{}", player.window.prior_cwnd);
            let backoff = player.repaired(1, &second);
            assert!(backoff.is_some_and(|backoff| (backoff.predicted - 559.0).abs() <= 1.0), "{backoff:?}");
        }
    }
}
