//! Determines what limited a sender from its packets, with the terms and rules of `yuzuri-limits`.

use super::bursts::{Bursts, MIN_BURSTS};
use super::later_rounds::LaterRounds;
use super::observations::{RoundObservations, SenderObservations};
use crate::window_trace::{CapturePoint, Cause, Round, WindowTrace};
use std::collections::VecDeque;
use yuzuri_cca::CaState;
use yuzuri_limits::{Classifier, Limit, LimitInterval, Moment, Observation, Reader, Reduction};

/// Segments held longer than this are held by the sender's own device: longer than TCP small queues
/// allow (1 ms of the pacing rate), and than the granularity of a millisecond timestamp.
const HELD_US: i64 = 2_000;
/// The resolution of the sender's clock, microseconds.
const TICK_US: i64 = 1_000;
/// Growth of a round below which slow start has ended: delayed acknowledgements for every second
/// segment make it 1.5.
const SLOW_START_GROWTH: f64 = 1.3;
/// The smallest window, in segments, that may show its scale, and for which a flight is unlikely to
/// be just below it by chance.
const MIN_WINDOW: u64 = 4;
const MANY: u64 = 32;
/// The number of rounds whose flights are compared; the flights must differ by this factor at
/// least. If a path carries no more, the RTT grows with them: by at least this fraction of their
/// growth (as logarithms).
const COMPARED: usize = 64;
const DIFFER: f64 = 1.15;
const AS_MUCH: f64 = 0.75;
/// If most of the growth is that of the rate, the path has room.
const LESS: f64 = 0.5;
/// A writer is woken once a third of the send buffer is free (`sk_stream_min_wspace`), of which a
/// segment's overhead is a part; a window admits as much as an acknowledgement covers: two
/// segments.
const REFILLS: f64 = 0.3;
const MIN_REFILL: f64 = 3.0;
/// A burst smaller than this fraction of the flight does not come from a send buffer.
const MAY_REFILL: f64 = 0.2;
const ALL: f64 = 0.99;
/// If a round has more bursts than this on average, there are at least two: the running mean
/// approaches its value from below.
const MORE_THAN_ONE: f64 = 1.5;
/// Rounds after which means are meaningful.
const STEADY_ROUNDS: u32 = 5;

/// What limited each round of a trace, and the time between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketLimits {
    /// Observations from packets, in terms of the kernel's variables: at the end of each round, and
    /// at the end of each time in which nothing was outstanding. The congestion window is the
    /// flight, unless something else held it.
    pub observations: Vec<Observation>,
    /// Stretches without a gap from the start of the first round to the end of the last,
    /// microseconds of the capture's clock since 1970.
    pub intervals: Vec<LimitInterval>,
    /// By round, as in [`WindowTrace::rounds`].
    pub rounds: Vec<Limit>,
    /// By round: the same for the time before it, in which nothing was outstanding.
    pub pauses: Vec<Option<Limit>>,
    /// The scale of the receiver's window, 0 without window scaling; `None` if the handshake was
    /// not captured.
    pub window_scale: Option<u8>,
}

/// Determines what limited the sender of a trace. `sender`: from the tracker, for the same rounds.
pub fn packet_limits(trace: &WindowTrace, sender: &SenderObservations) -> PacketLimits {
    let mut limits = PacketLimits { window_scale: sender.scale, ..PacketLimits::default() };
    let (mut observations, mut intervals) = (Vec::new(), Vec::new());
    each_limit(
        trace,
        sender,
        |now| observations.push(*now),
        |interval| intervals.push(interval),
        |round, paused_by| {
            limits.rounds.push(round);
            limits.pauses.push(paused_by);
        },
    );
    PacketLimits { observations, intervals, ..limits }
}

/// Notes in each round of a trace what limited its sender. Nothing else of the observations is
/// kept.
pub(super) fn note_limits(trace: &mut WindowTrace, sender: &SenderObservations) {
    let mut limits = Vec::with_capacity(trace.rounds.len());
    each_limit(trace, sender, |_| {}, |_| {}, |round, paused_by| limits.push((round, paused_by)));
    for (round, (limit, paused_by)) in trace.rounds.iter_mut().zip(limits) {
        (round.limited_by, round.paused_by) = (Some(limit), paused_by);
    }
}

/// Passes each observation to `observed`, each stretch of time to `interval`, and what limited each
/// round, and the time before it, to `limited`.
fn each_limit(
    trace: &WindowTrace,
    sender: &SenderObservations,
    mut observed: impl FnMut(&Observation),
    mut interval: impl FnMut(LimitInterval),
    mut limited: impl FnMut(Limit, Option<Limit>),
) {
    let Some(first) = trace.rounds.first() else { return };
    let mut rules = LimitRules::new(trace, sender);
    let mut classifier = Classifier::default();
    let mut observe = |now: &Observation| {
        classifier.observe(now, &mut interval);
        observed(now);
        classifier.limit()
    };
    observe(&rules.idle(first.start_ns, &RoundObservations::default()));
    let mut before: Option<(&Round, &RoundObservations)> = None;
    for (round, seen) in trace.rounds.iter().zip(&sender.rounds) {
        let mut paused_by = None;
        if let Some((last, last_signs)) = before
            && round.start_ns > last.end_ns
        {
            paused_by = Some(observe(&rules.idle(round.start_ns, last_signs)));
        }
        limited(observe(rules.round(round, seen)), paused_by);
        before = Some((round, seen));
    }
}

/// Whether a clock of the sender's own determines when its segments leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnClock {
    /// None: acknowledgements, or the program.
    None,
    /// Possibly.
    Perhaps,
    Pacing,
    /// Pacing or the sender's own device, which the packets do not distinguish.
    OneOfBoth,
}

struct LimitRules<'a> {
    trace: &'a WindowTrace,
    later: LaterRounds,
    /// The rounds begun so far.
    begun: usize,
    scale: u32,
    knows_scale: bool,
    /// The least delay from the sender's timestamp to the capture, and that from there to the
    /// receiver and back.
    min_passage_us: i64,
    min_there_us: u32,
    reductions: usize,
    acked_bytes: u64,
    retransmitted: u32,
    /// Flight of the previous round, segments, and whether it was in loss recovery.
    flight: f64,
    repaired: bool,
    rounds: u32,
    bursts: Bursts,
    reader: Reader,
    /// The same by how late acknowledgements come, and by how late they leave the receiver.
    answers: Reader,
    waits: Reader,
    /// Flights of the last rounds, segments, with their RTTs, microseconds.
    flights: VecDeque<(f64, f64)>,
    /// When the flight reached its current size, and that size.
    flat: (i64, f64),
    /// The last observation of a round in which something was sent.
    last: Observation,
    /// After its last transmission, the sender's queue was not empty.
    left_more: bool,
    /// The same held just before this round, while nothing was outstanding: the sender waited
    /// neither for data nor for a window.
    rested: bool,
    /// Its last segment was not full, and no window had cut it.
    ran_out: bool,
    slow_start_over: bool,
    ssthresh: u32,
}

impl<'a> LimitRules<'a> {
    fn new(trace: &'a WindowTrace, sender: &SenderObservations) -> LimitRules<'a> {
        LimitRules {
            trace,
            later: LaterRounds::new(trace, &sender.rounds),
            begun: 0,
            scale: sender.scale.map_or_else(|| least_scale(&sender.rounds), |scale| u32::from(scale.min(14))),
            knows_scale: sender.scale.is_some() || shows_scale(trace, &sender.rounds),
            min_passage_us: sender.rounds.iter().map(|seen| seen.min_passage_us).min().unwrap_or(0),
            min_there_us: sender.rounds.iter().filter_map(|seen| seen.min_there_us).min().unwrap_or(0),
            reductions: 0,
            // For a flow observed from its middle, the amount sent before is unknown.
            acked_bytes: if trace.handshake_rtt_us.is_some() { 0 } else { 1 << 30 },
            retransmitted: 0,
            flight: 0.0,
            repaired: false,
            rounds: 0,
            bursts: Bursts::default(),
            reader: Reader::default(),
            answers: Reader::default(),
            waits: Reader::default(),
            flights: VecDeque::new(),
            flat: (0, 0.0),
            last: Observation::default(),
            left_more: false,
            rested: false,
            ran_out: false,
            slow_start_over: false,
            ssthresh: u32::MAX,
        }
    }

    /// Nothing was outstanding until now.
    fn idle(&mut self, now_ns: i64, seen: &RoundObservations) -> Observation {
        self.rested = self.left_more && !seen.closed;
        if self.rested {
            // A paced sender may wait for longer than a round trip.
            return Observation { time_us: time_us(now_ns), acked_bytes: self.acked_bytes, ..self.last };
        }
        Observation {
            time_us: time_us(now_ns),
            begins: self.acked_bytes == 0,
            mss_bytes: self.trace.mss_bytes,
            unsent_bytes: Some(if seen.closed { u64::MAX } else { 0 }),
            receive_window_bytes: Some(if seen.closed { 0 } else { seen.window_bytes(self.scale) }),
            cwnd_segments: 10,
            acked_bytes: self.acked_bytes,
            ..Observation::default()
        }
    }

    /// A round's observation, in terms of the kernel's variables.
    fn round(&mut self, round: &Round, seen: &RoundObservations) -> &Observation {
        self.begun += 1;
        let mss_bytes = self.trace.mss_bytes.max(1);
        let flight = f64::from(round.window).max(1.0);
        self.acked_bytes += (f64::from(round.acked) * f64::from(mss_bytes)) as u64;
        self.retransmitted += round.retransmitted;
        let window_bytes = seen.window_bytes(self.scale);
        let near = seen.point == CapturePoint::Sender;
        let reduction = self.reduction(round);
        let queue_us = seen.passage_us.map_or(0, |passage_us| passage_us - self.min_passage_us);
        let (srtt_us, rttvar_us) = (round.rtt_mean_us, round.rtt_max_us.saturating_sub(round.rtt_min_us) / 4);
        let (round_min_rtt_us, upstream) = self.least_rtt(round, seen, queue_us);
        let time_us = time_us(round.end_ns);
        if seen.bursts == 0 && !seen.repair && reduction.is_none() {
            // The earlier limit still applies.
            (self.last.time_us, self.last.acked_bytes) = (time_us, self.acked_bytes);
            if self.ran_out {
                // Its queue was empty, and nothing followed: no acknowledgement woke a writer that
                // waits for room, either.
                (self.last.unsent_bytes, self.last.writer_waits) = (Some(0), Some(false));
            }
            return &self.last;
        }
        if seen.bursts > 0 {
            let cut = self.cut(seen);
            let mostly_more = (seen.emptied - cut) * 2 < seen.bursts;
            self.left_more = (seen.last_was_cut && cut > 0) || (!seen.last_ran_out && mostly_more);
        }
        let knows_window = seen.window > 0 && self.knows_scale;
        let receiver_full = knows_window && self.receiver_full(seen, window_bytes);
        self.follow(round, seen, flight, reduction.is_some() || seen.repair, receiver_full);

        // At most of the acknowledgements nothing was left to send.
        let (emptied_ms, others_ms) = seen.rests_ms;
        let emptied = seen.bursts > 0 && emptied_ms > others_ms;
        let refills = self.refills(round, seen, emptied);
        if seen.bursts > 0 {
            self.ran_out = seen.last_ran_out && !receiver_full;
        }
        let held = near && i64::from(seen.held_us).max(queue_us - TICK_US / 2) > HELD_US;
        let cwnd_segments = flight.ceil() as u32;
        let flight_bytes = (flight * f64::from(mss_bytes)) as u64;
        let reads_at_once = self.reads_at_once();
        let answers_late = seen.point != CapturePoint::Receiver && self.answers.at_once() != Some(true);
        let path_is_full = self.path_is_full().filter(|_| !upstream);
        let losses_later = self.later.losses_came_before(self.begun - 1);
        // Written in place, because it is large.
        self.last = Observation {
            time_us,
            moment: Moment::RoundEnd,
            state: match (seen.timeout, seen.repair) {
                (true, _) => CaState::Loss,
                (false, true) => CaState::Recovery,
                (false, false) => CaState::Open,
            },
            reduction,
            // A window is full if nothing else limits.
            cwnd_segments: if receiver_full { cwnd_segments.saturating_mul(2) } else { cwnd_segments },
            ssthresh_segments: (self.ssthresh != u32::MAX).then_some(self.ssthresh.min(cwnd_segments)),
            in_flight_segments: cwnd_segments,
            // The receiver's window may grow within a round, and so may the flight: compared with
            // the window at the moment when it was fullest, no more counts than was in flight then.
            outstanding_bytes: match (receiver_full, knows_window) {
                (true, _) => window_bytes,
                (false, true) => flight_bytes.min(seen.used_bytes.into()),
                (false, false) => flight_bytes,
            },
            mss_bytes,
            // 0 if no window was seen while data without holes was outstanding.
            receive_window_bytes: knows_window.then_some(window_bytes),
            unsent_bytes: Some(if (emptied || refills == Some(true)) && !receiver_full {
                0
            } else {
                u64::MAX
            }),
            writer_waits: refills,
            window_updates: Some(seen.updates > 0),
            answers_late: Some(answers_late),
            path_is_full,
            losses_later: Some(losses_later),
            srtt_us: Some(srtt_us).filter(|srtt_us| *srtt_us > 0),
            round_min_rtt_us: Some(round_min_rtt_us).filter(|least_us| *least_us > 0),
            rttvar_us,
            min_rtt_us: Some(self.trace.min_rtt_us).filter(|min_us| *min_us > 0 && !upstream),
            acked_bytes: self.acked_bytes,
            retransmitted_segments: self.retransmitted,
            ..Observation::default()
        };
        let queue = self.last.standing_queue_us(cwnd_segments.into()).is_some();
        let clock = if receiver_full { OwnClock::None } else { self.own_clock(round, near, queue, queue_us) };
        if held || clock != OwnClock::None {
            self.last.in_flight_segments = 0;
        }
        self.last.pacing_wait_us = Some(u32::from(clock == OwnClock::Pacing && !held));
        self.last.device_full = Some(held);
        self.last.own_rate = Some(clock == OwnClock::OneOfBoth);
        self.last.reads_at_once =
            reads_at_once.filter(|at_once| !at_once || queue || !self.paces_answers(seen.point));
        &self.last
    }

    /// Whether a receiver that acknowledges punctually may still be one that reads at intervals. At
    /// the receiver the delay of acknowledgements is seen; elsewhere only that it is constant.
    fn paces_answers(&self, point: CapturePoint) -> bool {
        point != CapturePoint::Receiver && self.bursts.spread()
    }

    /// Whether the receiver's window, if it is known, was full.
    fn receiver_full(&self, seen: &RoundObservations, window_bytes: u64) -> bool {
        let mss_bytes = u64::from(self.trace.mss_bytes.max(1));
        let room_bytes = window_bytes.saturating_sub(seen.used_bytes.into());
        room_bytes < mss_bytes
    }

    /// The bursts of a round that the receiver's window cut within a segment.
    fn cut(&self, seen: &RoundObservations) -> u32 {
        let (scale, count) = seen.cut;
        if self.knows_scale && u32::from(scale) == self.scale { count.into() } else { 0 }
    }

    /// Which clock of the sender's own determines when its segments leave, while the receiver's
    /// window is not full.
    ///
    /// A device that holds each segment for the same time has the same clock as pacing. Only a
    /// segment that it did not hold, like the first one, shows for how long it holds the others: so
    /// without the flow's beginning, the two look the same, wherever the capture is.
    fn own_clock(&self, round: &Round, near: bool, queue: bool, queue_us: i64) -> OwnClock {
        let from_begin = self.trace.handshake_rtt_us.is_some();
        let clocked = self.bursts.clocked();
        if near {
            // Bursts not caused by acknowledgements do not wait in a queue that they cause.
            let waits_in_queue =
                queue && clocked != Some(true) && !self.bursts.most_by_clock() && !self.bursts.most_rested();
            // One block per round trip is evenly spaced, too: a window admits it, even if the host
            // is late.
            let several = self.bursts.count > MORE_THAN_ONE;
            let by_clock = self.bursts.most_rested()
                || clocked.unwrap_or(several && self.bursts.even() && self.bursts.some_by_clock());
            return match by_clock && !waits_in_queue {
                false => OwnClock::None,
                true if from_begin => OwnClock::Pacing,
                true => OwnClock::OneOfBoth,
            };
        }
        // Away from the sender, the clock may also be its device, which holds at least the data of
        // 1 ms (TCP small queues). Each timestamp loses half a tick of its clock on average.
        let is_pacing = from_begin && queue_us < TICK_US;
        // Bursts may be too evenly spaced for their intervals to be conclusive. Then their phase
        // decides: bursts that a window admits arrive one handshake RTT after an acknowledgement,
        // whereas the delay of a queue varies.
        let has_phase = from_begin && !queue && self.bursts.has_own_phase(clocked);
        if self.bursts.has_own_rate(clocked) || has_phase {
            return if is_pacing { OwnClock::Pacing } else { OwnClock::OneOfBoth };
        }
        // A few bursts of a window may be evenly spaced, too, and the path may space those of a
        // growing window evenly.
        let by_window = queue || !self.bursts.even() || clocked == Some(false);
        if by_window || self.bursts.count < MIN_BURSTS || self.reductions > 0 {
            OwnClock::None
        } else if is_pacing && self.is_constant(round) {
            OwnClock::Pacing
        } else {
            OwnClock::Perhaps
        }
    }

    /// Whether the flight has stayed the same for longer than a growing window can: it grows by at
    /// least 0.53 segments per round trip (RFC 9438 section 4.3), from 0.7 of its size.
    fn is_constant(&self, round: &Round) -> bool {
        let (since_ns, flight) = self.flat;
        let flat_us = (round.end_ns - since_ns) / 1000;
        let rounds = flat_us as f64 / f64::from(round.rtt_mean_us.max(1));
        rounds > 0.57 * flight + 2.0
    }

    fn follow(
        &mut self,
        round: &Round,
        seen: &RoundObservations,
        flight: f64,
        reduced: bool,
        receiver_full: bool,
    ) {
        let grows = self.flight > 0.0 && flight >= self.flight * SLOW_START_GROWTH;
        if reduced || (self.flight > 0.0 && !grows) {
            self.slow_start_over = true;
        }
        if reduced || (self.slow_start_over && self.ssthresh == u32::MAX) {
            self.ssthresh = flight as u32;
        }
        if self.flight == 0.0 && self.trace.handshake_rtt_us.is_none() {
            // A flow observed from its middle has most likely left slow start.
            self.slow_start_over = true;
        }
        // Flights are compared only if a capture begins in the middle. Then data sent before is in
        // flight in its first round, and was not seen.
        let from_middle = self.trace.handshake_rtt_us.is_none();
        let whole = from_middle && self.rounds >= 2 && self.flight > 0.0;
        if let Some(timed) = timed(self.flight, round).filter(|_| whole && !seen.repair && !self.repaired) {
            if self.flights.len() == COMPARED {
                self.flights.pop_front();
            }
            self.flights.push_back(timed);
        }
        // The flight in loss recovery is not the window after it.
        if flight > self.flat.1 + 1.0 || reduced || self.repaired {
            self.flat = (round.end_ns, flight);
        }
        self.repaired = reduced;
        self.flight = flight;
        self.rounds += 1;
        self.bursts.add(round, seen, std::mem::take(&mut self.rested), receiver_full);
        self.reader.add(seen.announced, seen.shrunk);
        self.answers.add(seen.announced, seen.late.min(seen.announced));
        self.waits.add(seen.announced, seen.waited.min(seen.announced));
    }

    /// Whether the receiver's program reads immediately, as far as its windows and the delays of
    /// its acknowledgements show it. Acknowledgements that come late may wait for a program that
    /// reads slowly, whose windows are steady all the same (`__tcp_ack_snd_check`), for one that a
    /// busy host wakes late, or in a queue. At the receiver there is no queue.
    fn reads_at_once(&self) -> Option<bool> {
        if self.waits.at_once() == Some(false) {
            return Some(false);
        }
        let punctual = self.answers.at_once() == Some(true);
        self.reader.at_once().filter(|at_once| !at_once || punctual)
    }

    /// Whether the sender sends whenever a third of its send buffer is free and refilled: nearly
    /// each burst has that size, and follows an acknowledgement. `None`: possibly.
    fn refills(&self, round: &Round, seen: &RoundObservations, emptied: bool) -> Option<bool> {
        if round.idle_us > 0 {
            // All had been acknowledged before it wrote: it did not wait for room.
            return Some(false);
        }
        let bursts = f64::from(seen.bursts.max(1));
        let part = f64::from(seen.refilled) / bursts;
        let segments = f64::from(seen.segments) / bursts;
        // With Nagle's algorithm at most one short segment is outstanding (tcp_minshall_check). The
        // next one waits for an acknowledgement, not for room.
        let mss_bytes = f64::from(self.trace.mss_bytes);
        let used_bytes = f64::from(seen.used_bytes);
        let mean_bytes = f64::from(round.acked) * mss_bytes / f64::from(round.sent.max(1));
        let mean_bytes = if mean_bytes > 0.0 { mean_bytes.min(mss_bytes) } else { mss_bytes };
        let all_but_one = used_bytes / mean_bytes - 1.0;
        let small = used_bytes < 2.0 * mss_bytes && used_bytes > all_but_one * mss_bytes;
        if part < MAY_REFILL || small {
            return Some(false);
        }
        let near = seen.point == CapturePoint::Sender;
        // If a clock causes the bursts, no acknowledgement woke the writer.
        let clocked = self.bursts.writes_clocked();
        if clocked == Some(true) {
            return Some(false);
        }
        // Away from the sender only the handshake shows the least time from an acknowledgement to
        // data: otherwise a regular writer looks the same.
        let is_distinct = near || clocked == Some(false) || self.trace.handshake_rtt_us.is_some();
        let acks_wake_writer =
            if is_distinct { self.bursts.acks_wake_writer() } else { self.bursts.acks_may_wake_writer() };
        // Away from the sender, the time from an acknowledgement to data is an estimate. If the
        // intervals show that acknowledgements caused the bursts, it does not refute that.
        let acks_wake_writer =
            acks_wake_writer.filter(|acks_wake_writer| *acks_wake_writer || near || clocked != Some(false));
        if acks_wake_writer == Some(false) {
            return Some(false);
        }
        // A burst that ends with a full segment may also come from a window.
        let steady = emptied && (near || part < ALL);
        // No window ends a burst before a segment is full. Nagle's algorithm may, but only with
        // nothing outstanding.
        let short = seen.ran_out == seen.bursts && part < ALL;
        let large = part >= REFILLS && (segments >= MIN_REFILL || short);
        let does = large && steady && self.rounds >= STEADY_ROUNDS && acks_wake_writer == Some(true);
        if does { Some(true) } else { None }
    }

    /// Whether the RTT grows with the flight. If the handshake was seen, the minimum RTT is known,
    /// and is more informative. If flights were larger only later, and the RTT was not, the path
    /// had room before, too.
    fn path_is_full(&self) -> Option<bool> {
        if self.trace.handshake_rtt_us.is_some() {
            return Some(false);
        }
        let later = || self.later.flights(self.begun, COMPARED);
        grows_with_flight(self.flights.iter(), self.reductions > 0)
            .or_else(|| grows_with_flight(later(), false).filter(|full| !full))
    }

    /// The minimum RTT of a round, and whether its excess over the flow's minimum arose before the
    /// capture. Near the sender it was measured. Elsewhere the measurement is from data to the data
    /// sent in response to its acknowledgement, which may have waited to be sent. Queues are shown
    /// by the delay from the sender's timestamp to the capture, and by that from the capture to the
    /// receiver and back; at the receiver, the latter is the receiver's own. In the middle of the
    /// path, for a flow observed from its middle, it is unknown whether the queue before the
    /// capture is in the sender's own device.
    fn least_rtt(&self, round: &Round, seen: &RoundObservations, queue_us: i64) -> (u32, bool) {
        let point = seen.point;
        if point == CapturePoint::Sender || seen.passage_us.is_none() {
            return (round.rtt_min_us, false);
        }
        // Half a tick of its clock is lost in each timestamp.
        let queue_us = u32::try_from((queue_us - TICK_US / 2).max(0)).unwrap_or(u32::MAX);
        let least_us = self.trace.min_rtt_us.saturating_add(queue_us);
        if point != CapturePoint::Middle {
            return (least_us, false);
        }
        let beyond_us = seen.min_there_us.map_or(0, |us| us.saturating_sub(self.min_there_us));
        let upstream = queue_us > beyond_us && self.trace.handshake_rtt_us.is_none();
        (least_us.saturating_add(beyond_us), upstream)
    }

    /// The reduction made by the end of this round, if any.
    fn reduction(&mut self, round: &Round) -> Option<Reduction> {
        let mut found = None;
        while let Some(reduction) = self.trace.reductions.get(self.reductions)
            && reduction.at_ns <= round.end_ns
        {
            self.reductions += 1;
            found = match (reduction.undone, reduction.cause) {
                (true, _) => Some(Reduction::Undone),
                (false, Cause::Recovery | Cause::Timeout | Cause::Ecn) => Some(Reduction::Path),
            };
        }
        found
    }
}

/// Whether the path is full, from flights with their RTTs; `losses`: they ended the flights'
/// growth.
fn grows_with_flight<'a>(
    flights: impl Iterator<Item = &'a (f64, f64)> + Clone,
    losses: bool,
) -> Option<bool> {
    let by_flight = |a: &&(f64, f64), b: &&(f64, f64)| a.0.total_cmp(&b.0);
    let least = flights.clone().min_by(by_flight)?;
    let most = flights.max_by(by_flight)?;
    let (flights, rtts) = (most.0 / least.0, most.1 / least.1);
    match rtts.ln() / flights.ln() {
        _ if flights < DIFFER => None,
        // The flight of a pacing sender is proportional to the RTT, too; but losses do not end
        // its growth.
        part if part >= AS_MUCH => losses.then_some(true),
        part if part <= LESS => Some(false),
        _ => None,
    }
}

/// The scale of a receiver whose SYN was not seen: the smallest that allowed all outstanding data.
/// If a window was ever full, it is the right one; by chance, a window of another scale is as full
/// only once in as many cases as it has segments.
fn least_scale(rounds: &[RoundObservations]) -> u32 {
    let fits = |scale: u32| rounds.iter().all(|seen| u64::from(seen.used_bytes) <= seen.window_bytes(scale));
    (0..=14).find(|scale| fits(*scale)).unwrap_or(14)
}

/// Whether windows show their scale: full windows are full to the last byte, or have many segments,
/// or there are several. A steady flight may be a segment below a single window by chance.
fn shows_scale(trace: &WindowTrace, rounds: &[RoundObservations]) -> bool {
    let scale = least_scale(rounds);
    let mss_bytes = u64::from(trace.mss_bytes.max(1));
    let mut several = std::collections::BTreeSet::new();
    for seen in rounds.iter().filter(|seen| seen.window > 0) {
        let window_bytes = seen.window_bytes(scale);
        let room_bytes = window_bytes.saturating_sub(seen.used_bytes.into());
        // A sender with little to send often has exactly one or two segments outstanding.
        let to_the_last_byte = room_bytes == 0 && window_bytes > 2 * mss_bytes;
        if to_the_last_byte {
            return true;
        }
        if room_bytes < mss_bytes && window_bytes >= MIN_WINDOW * mss_bytes {
            several.insert(seen.window);
            if window_bytes >= MANY * mss_bytes || several.len() >= 3 {
                return true;
            }
        }
    }
    false
}

/// A flight and its RTT: the flight of the previous round was acknowledged in this one. The minimum
/// RTT, since a stalling host delays single segments.
pub(super) fn timed(flight: f64, round: &Round) -> Option<(f64, f64)> {
    (round.rtt_min_us > 0).then_some((flight, round.rtt_min_us.into()))
}

fn time_us(ns: i64) -> u64 {
    u64::try_from(ns / 1000).unwrap_or(0)
}
