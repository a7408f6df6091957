//! Divides a sender's time into intervals, each with the one limit that applied.

use crate::bound::{Bound, BoundPresence};
use crate::buffer::{SendBuffer, wakes_writer_below};
use crate::losses::{LimitedByReduction, Losses};
use crate::pace::PacingRate;
use crate::previous::Previous;
use crate::reader::Reader;
use crate::{Limit, Moment, Observation, Reduction};
use yuzuri_cca::{CaState, CcaKind};

/// An interval of a sender's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitInterval {
    /// When it began, microseconds.
    pub from_us: u64,
    /// When it ended, microseconds.
    pub to_us: u64,
    /// What limited the sender.
    pub limit: Limit,
}

/// TCP avoids sending less than this fraction of a window (`tcp_tso_win_divisor`), and sends no
/// more than [`MAX_TSO_BYTES`] at a time: with less room it may wait for more
/// (`tcp_tso_should_defer`).
const TSO_WIN_DIVISOR: u64 = 3;
/// The largest segment that TCP passes to a device (`GSO_LEGACY_MAX_SIZE`), bytes.
const MAX_TSO_BYTES: u64 = 65_536;
/// After it opens without an ACK, a window is advertised only once it has doubled
/// (`tcp_cleanup_rbuf`): half of it had not been read. This never happens if the receiver reads
/// immediately. A receiver with such a window counts as slow for this many round trips.
const OPENED_ROUND_TRIPS: u64 = 16;
/// A window counts as the same if at most `1 / SAME_WINDOW` of it is missing.
const SAME_WINDOW: u64 = 8;
/// Segments that an acknowledgement covers (RFC 5681 section 4.2).
const ACKNOWLEDGED_SEGMENTS: u64 = 2;
/// The initial window (RFC 6928), segments.
const INITIAL_SEGMENTS: u64 = 10;
/// A timer fires within this time if data is unacknowledged (`TCP_RTO_MIN` and a delayed ACK, with
/// a margin), microseconds.
const TIMERS_US: u64 = 1_000_000;

/// Determines, observation by observation, what limits one sender.
///
/// The intervals always cover the time from the first to the last observation exactly.
#[derive(Clone, Debug, Default)]
pub struct Classifier {
    last: Option<Previous>,
    /// The previous observation, if it was a poll: its state lasted until the next one.
    last_poll: Option<Box<Observation>>,
    limit: Option<Limit>,
    losses: Losses,
    /// The retransmission timeout at the latest observation that had an RTT.
    rto_us: Option<u64>,
    largest_window_bytes: u64,
    /// The largest window that was observed once the receiver had received full segments: it knew
    /// their overhead, which determines how much of its buffer becomes window.
    settled_window_bytes: u64,
    /// The sender was observed from its beginning: the largest window seen is the largest ever.
    saw_begin: bool,
    largest_memory_bytes: u64,
    pace: PacingRate,
    bound: Bound,
    buffer: SendBuffer,
    reader: Reader,
    /// When the receiver's window last opened without an acknowledgement of data.
    opened_us: Option<u64>,
}

impl Classifier {
    /// What limited the sender in the last interval.
    pub fn limit(&self) -> Limit {
        self.limit.unwrap_or(Limit::Unknown)
    }

    /// Whether the sender was observed from its beginning.
    pub fn saw_begin(&self) -> bool {
        self.saw_begin
    }

    /// Processes the next observation, and passes the time since the previous one to `interval`, as
    /// one interval or two.
    pub fn observe(&mut self, now: &Observation, mut interval: impl FnMut(LimitInterval)) {
        self.largest_window_bytes = (self.largest_window_bytes)
            .max(now.receive_window_bytes.unwrap_or(0))
            .max(now.largest_window_bytes.unwrap_or(0));
        let initial_bytes = INITIAL_SEGMENTS * u64::from(now.mss_bytes);
        if now.acked_bytes > initial_bytes {
            self.settled_window_bytes = self.settled_window_bytes.max(now.receive_window_bytes.unwrap_or(0));
        }
        self.largest_memory_bytes = self.largest_memory_bytes.max(now.send_memory_bytes.unwrap_or(0));
        let Some(last) = self.last else {
            self.buffer.add(now);
            self.remember(now);
            // Before an initial window was acknowledged, no window can have been larger.
            self.saw_begin = now.begins || now.acked_bytes <= initial_bytes;
            self.losses.begin(now);
            self.losses.add(&Previous::of(now), now);
            return;
        };
        // The clock jumped back: that time has been covered already.
        if now.time_us < last.time_us {
            return;
        }
        self.pace.add(&last, now);
        self.reader.observe(&last, now);
        if opens(&last, now) {
            self.opened_us = Some(now.time_us);
        }
        // Between two polls, the first one's state applies; the second one's is not known yet.
        let polled = last.moment == Moment::Polled && now.moment == Moment::Polled;
        if !polled {
            self.buffer.add(now);
        }
        let limit = self.between(&last, now);
        if polled {
            self.buffer.add(now);
        }
        self.limit = Some(limit);
        if now.moment != Moment::Processing {
            let full = limit.is_congestion_window()
                || matches!(limit, Limit::OwnDevice | Limit::Sharing)
                || (limit == Limit::Unknown
                    && (self.bound.holds(now) != BoundPresence::No || fills_cwnd(now)));
            self.bound.add(&last, now, full);
        }
        let idle_us = idle_us(&last, now, limit);
        let middle_us = last.time_us + idle_us;
        if idle_us > 0 {
            interval(LimitInterval { from_us: last.time_us, to_us: middle_us, limit: Limit::Application });
        }
        if middle_us < now.time_us {
            interval(LimitInterval { from_us: middle_us, to_us: now.time_us, limit });
        }
        self.losses.add(&last, now);
        self.remember(now);
    }

    fn remember(&mut self, now: &Observation) {
        if now.srtt_us.is_some() {
            self.rto_us = Some(rto(now));
        }
        self.last = Some(Previous::of(now));
        if now.moment == Moment::Polled {
            match &mut self.last_poll {
                Some(poll) => **poll = *now,
                None => self.last_poll = Some(Box::new(*now)),
            }
        }
    }

    /// What limited the sender between two observations.
    fn between(&self, last: &Previous, now: &Observation) -> Limit {
        match now.moment {
            Moment::Timeout => Limit::Timeout,
            // Recovery and Loss are valid at any moment, but the windows are not meaningful at this
            // one.
            Moment::Processing => self.in_state(now).unwrap_or(self.limit()),
            _ if is_gap(last, now, self.rto_us) => Limit::Unknown,
            // The state lasted until another one was found.
            Moment::Polled | Moment::Arrival | Moment::RoundEnd => {
                let polled = now.moment == Moment::Polled && last.moment == Moment::Polled;
                let seen = self.last_poll.as_deref().filter(|_| polled).unwrap_or(now);
                self.in_state(seen).unwrap_or_else(|| self.at_rest(seen))
            }
        }
    }

    fn in_state(&self, seen: &Observation) -> Option<Limit> {
        match seen.state {
            CaState::Recovery => Some(Limit::Recovery),
            CaState::Loss => Some(Limit::Timeout),
            CaState::Open | CaState::Disorder | CaState::Cwr => None,
        }
    }

    /// The limit of a sender that has sent all it could.
    fn at_rest(&self, seen: &Observation) -> Limit {
        let mss_bytes = u64::from(seen.mss_bytes);
        let Some(unsent_bytes) = seen.unsent_bytes.filter(|_| mss_bytes > 0) else { return Limit::Unknown };
        if unsent_bytes == 0 {
            return self.nothing_to_send(seen);
        }
        let cwnd_room_bytes = seen.cwnd_room_bytes();
        let receiver_room_bytes = seen.receiver_room_bytes().unwrap_or(u64::MAX);
        let next_bytes = mss_bytes.min(unsent_bytes);
        if cwnd_room_bytes < mss_bytes || receiver_room_bytes < next_bytes {
            return self.window_full(seen, cwnd_room_bytes, receiver_room_bytes);
        }
        if seen.pacing_wait_us.is_some_and(|wait_us| wait_us > 0) {
            return Limit::Pacing;
        }
        if unsent_bytes < mss_bytes {
            // Nagle, TCP_CORK, or automatic corking: less than a segment waits for more.
            return Limit::Application;
        }
        // If the device's queueing discipline paces (fq), segments waiting for their time are in
        // the device.
        let paced = self.pace.holds(seen) == Some(true);
        let waits_in_device = paced && seen.pacing_wait_us.is_none();
        let device_full = seen.device_is_full().filter(|_| !waits_in_device);
        if device_full == Some(true) {
            return Limit::OwnDevice;
        }
        // A late timer, or an observer that does not know for how long pacing holds.
        if paced {
            return Limit::Pacing;
        }
        if seen.own_rate == Some(true) {
            return Limit::SenderRate;
        }
        if device_full.is_none() {
            return Limit::Unknown;
        }
        let room_bytes = cwnd_room_bytes.min(receiver_room_bytes);
        let by_cwnd = cwnd_room_bytes <= receiver_room_bytes;
        if waits_for_a_larger_segment(seen, room_bytes, unsent_bytes)
            && (!by_cwnd || seen.cwnd_limited != Some(false))
        {
            return self.window_full(seen, cwnd_room_bytes, receiver_room_bytes);
        }
        Limit::Unknown
    }

    /// Everything written has been sent. Either there is no more, or the writer waits for room in
    /// the send buffer.
    fn nothing_to_send(&self, seen: &Observation) -> Limit {
        if seen.outstanding_bytes == 0 {
            return Limit::Application;
        }
        match seen.writer_waits {
            Some(true) => return Limit::SendBuffer,
            Some(false) => return Limit::Application,
            None => {}
        }
        let Some(memory_bytes) = seen.send_memory_bytes else { return Limit::Unknown };
        match seen.send_buffer_bytes {
            Some(_) => match self.buffer.writer_waits(seen) {
                Some(true) => Limit::SendBuffer,
                Some(false) => Limit::Application,
                None => Limit::Unknown,
            },
            // The buffer is at least as large as its largest content so far: it only grows.
            None if memory_bytes
                < wakes_writer_below(self.largest_memory_bytes.saturating_sub(MAX_TSO_BYTES)) =>
            {
                Limit::Application
            }
            None => Limit::Unknown,
        }
    }

    /// A window is full: the smaller one limits.
    fn window_full(&self, seen: &Observation, cwnd_room_bytes: u64, receiver_room_bytes: u64) -> Limit {
        let window_bytes = seen.receive_window_bytes.unwrap_or(u64::MAX);
        let receiver = receiver_room_bytes < cwnd_room_bytes
            || (receiver_room_bytes == cwnd_room_bytes && window_bytes <= seen.cwnd_bytes());
        if receiver {
            return self.receiver(seen, window_bytes);
        }
        let bounded = self.bound.holds(seen);
        match bounded {
            BoundPresence::Yes if seen.at_bound == Some(true) || seen.cca == Some(CcaKind::Bounded) => {
                return Limit::Sharing;
            }
            BoundPresence::Perhaps if seen.cca == Some(CcaKind::Bounded) => return Limit::Unknown,
            BoundPresence::Yes | BoundPresence::Perhaps | BoundPresence::No => {}
        }
        let standing = seen.standing_queue_us(seen.cwnd_segments.into()).is_some();
        let queue = standing || seen.path_is_full == Some(true);
        let held = self.losses.limited_by_reduction(seen);
        if self.losses.by() == Some(Reduction::OwnDevice) && (queue || held == LimitedByReduction::Yes) {
            return Limit::OwnDevice;
        }
        if queue {
            // Regardless of what limits the window, a larger one would carry no more.
            return Limit::Path;
        }
        // An observer without the kernel's minimum RTT must know that the path has room.
        let sees_path = seen.cca.is_some() || seen.path_is_full.is_some();
        if bounded == BoundPresence::Yes || !sees_path {
            return Limit::Unknown;
        }
        if self.losses.by() == Some(Reduction::Cwr) && held == LimitedByReduction::Yes {
            return Limit::Unknown;
        }
        if seen.cca == Some(CcaKind::Model) {
            // A rate-based algorithm's window is a multiple of its estimate of the bandwidth-delay
            // product; it has no slow start threshold.
            return Limit::Unknown;
        }
        if seen.ssthresh_segments.is_none_or(|ssthresh| seen.cwnd_segments < ssthresh) {
            return Limit::SlowStart;
        }
        match held {
            LimitedByReduction::Yes => Limit::Loss,
            LimitedByReduction::Perhaps => Limit::Unknown,
            // An observer that does not know the algorithm must see the window grow.
            _ if seen.cca.is_none() && !self.bound.grows(seen) => Limit::Unknown,
            LimitedByReduction::No => Limit::CongestionAvoidance,
            // Packets do not show losses before the observation.
            LimitedByReduction::Unseen if seen.losses_later == Some(true) && !self.saw_begin => Limit::Loss,
            LimitedByReduction::Unseen if seen.cca.is_none() && !self.saw_begin => Limit::Unknown,
            LimitedByReduction::Unseen => before_any_reduction(seen),
        }
    }

    /// The receiver's window is full. Unread data reduces its window. If the window alone limits,
    /// there is no queue on the path, and ACKs come immediately.
    fn receiver(&self, seen: &Observation, window_bytes: u64) -> Limit {
        let missing_bytes = self.largest_window_bytes.saturating_sub(window_bytes);
        // Without it, a small buffer looks like a reader that has always been slow.
        let knows_largest = self.saw_begin || seen.largest_window_bytes.is_some();
        let waits = seen.standing_queue_us(window_bytes / u64::from(seen.mss_bytes.max(1))).is_some();
        let remembers_us = OPENED_ROUND_TRIPS * u64::from(seen.srtt_us.unwrap_or(0));
        let opened = self.opened_us.is_some_and(|at_us| seen.time_us.saturating_sub(at_us) <= remembers_us);
        // A receiver whose window would become smaller acknowledges only once its program reads
        // (`__tcp_ack_snd_check`): steady windows do not show that it reads immediately. An
        // observer of packets has compared them with the times of the acknowledgements.
        let by_windows = self.reader.at_once().filter(|at_once| !at_once && seen.window_updates.is_none());
        let reads_at_once = seen.reads_at_once.or(by_windows);
        let late = reads_at_once == Some(false);
        // Until full segments have arrived, a change of segment size, and so of overhead, can halve
        // the window. From then on only unread data makes it smaller by more than rounding and the
        // acknowledged segments, which the program may not have read yet.
        let unread_bytes = self.settled_window_bytes.saturating_sub(window_bytes);
        let acknowledged_bytes = ACKNOWLEDGED_SEGMENTS * u64::from(seen.mss_bytes);
        let unread = unread_bytes > window_bytes / SAME_WINDOW + acknowledged_bytes;
        if window_bytes == 0 || missing_bytes > window_bytes || unread || opened || late {
            Limit::SlowReader
        } else if !waits {
            if knows_largest || reads_at_once == Some(true) {
                Limit::ReceiverWindow
            } else if seen.answers_late.unwrap_or_else(|| seen.answers_wait()) {
                // They may also wait in a queue.
                Limit::Unknown
            } else {
                Limit::Receiver
            }
        } else if reads_at_once == Some(true)
            || (knows_largest && missing_bytes <= window_bytes / SAME_WINDOW)
        {
            // It reads immediately: the delay is a queue on the path, which a larger window would
            // only lengthen.
            Limit::Path
        } else {
            // A reader that reads at intervals delays ACKs, too.
            Limit::Unknown
        }
    }
}

/// Whether the congestion window of an unknown algorithm is full.
fn fills_cwnd(seen: &Observation) -> bool {
    let more = seen.unsent_bytes.is_some_and(|bytes| bytes > 0);
    seen.cca.is_none() && more && seen.cwnd_room_bytes() < u64::from(seen.mss_bytes)
}

/// Whether the receiver's window opened without an acknowledgement of data.
fn opens(last: &Previous, now: &Observation) -> bool {
    if now.window_updates == Some(true) {
        return true;
    }
    let arrived = now.moment == Moment::Arrival && last.moment == Moment::Arrival;
    let (Some(before), Some(after)) = (last.receive_window_bytes, now.receive_window_bytes) else {
        return false;
    };
    arrived
        && before > 0
        && now.acked_bytes == last.acked_bytes
        && after >= before.saturating_mul(2).saturating_add(now.mss_bytes.into())
}

/// The limit of a flow that is older than its observation, with a full window in congestion
/// avoidance. Its slow start threshold was set by a loss, or by leaving slow start without one.
/// After a loss it is 0.5 to 0.7 times the window before it (β of Reno and CUBIC).
fn before_any_reduction(seen: &Observation) -> Limit {
    let (cwnd, ssthresh) =
        (u64::from(seen.cwnd_segments), u64::from(seen.ssthresh_segments.unwrap_or(u32::MAX)));
    if seen.retransmitted_segments == 0 || cwnd >= ssthresh * 2 {
        Limit::CongestionAvoidance
    } else if cwnd * 7 < ssthresh * 10 {
        Limit::Loss
    } else {
        Limit::Unknown
    }
}

/// Whether TCP may wait although the window has room, until there is room for a larger segment.
fn waits_for_a_larger_segment(seen: &Observation, room_bytes: u64, unsent_bytes: u64) -> bool {
    let window_bytes = seen.cwnd_bytes().min(seen.receive_window_bytes.unwrap_or(u64::MAX));
    room_bytes <= unsent_bytes && room_bytes < (window_bytes / TSO_WIN_DIVISOR).min(MAX_TSO_BYTES)
}

/// For how long after `last` the sender had nothing to send. Nothing was unsent then. The data
/// outstanding now was sent within the last round trip: an ACK would have arrived for anything
/// outstanding before that.
fn idle_us(last: &Previous, now: &Observation, limit: Limit) -> u64 {
    let calm = now.moment == Moment::Arrival && matches!(last.state, CaState::Open | CaState::Disorder);
    // If nothing is outstanding and something is unsent, the receiver's window was closed, for an
    // unknown time.
    let is_observed = now.outstanding_bytes > 0 && last.had_sent_all;
    if !calm || !is_observed || limit == Limit::Application {
        return 0;
    }
    let Some(srtt_us) = now.srtt_us else { return 0 };
    // The RTT was measured before the ACK that has just arrived.
    let rtt_us = u64::from(srtt_us) + 4 * u64::from(now.rttvar_us);
    (now.time_us - last.time_us).saturating_sub(rtt_us)
}

/// Whether more time has passed than TCP can be silent: something was not observed, or the clock
/// jumped. `rto_us`: as the retransmission timer was set before.
fn is_gap(last: &Previous, now: &Observation, rto_us: Option<u64>) -> bool {
    let waits = !last.had_sent_all && now.receive_window_bytes != Some(0);
    let possible_us = TIMERS_US + 2 * rto_us.unwrap_or_else(|| rto(now));
    // Data that is acknowledged so late would have been retransmitted.
    let across = u64::from(now.srtt_us.unwrap_or(0)) > possible_us;
    let passed_us = now.time_us - last.time_us;
    (waits || across) && passed_us > possible_us
}

/// The retransmission timeout without its lower limit (RFC 6298), microseconds.
fn rto(seen: &Observation) -> u64 {
    u64::from(seen.srtt_us.unwrap_or(0)) + 4 * u64::from(seen.rttvar_us)
}
