//! What limited a sender, from its packets: the words and rules of `yuzuri-limits`.

use super::look::{Look, Looks};
use super::runs::{MIN_RUNS, Runs};
use crate::window_trace::{CapturePoint, Cause, Round, WindowTrace};
use std::collections::VecDeque;
use yuzuri_cca::CaState;
use yuzuri_limits::{Classifier, Limit, Moment, Observation, Reader, Reduction, Stretch};

/// Segments lie in the sender's own device for longer than TCP small queues let them (1 ms of the
/// pacing rate), and than the millisecond of a timestamp blurs.
const HELD_US: i64 = 2_000;
/// Readings of the sender's clock, microseconds.
const TICK_US: i64 = 1_000;
/// Growth of a round below which slow start is over: a delayed acknowledgement for every second
/// segment makes it 1.5.
const SLOW_START_GROWTH: f64 = 1.3;
/// Segments of a window whose scale may be told, and of one of which the chance that a flight lies
/// just below it is small.
const MIN_WINDOW: u64 = 4;
const MANY: u64 = 32;
/// The part of the runs from which on acknowledgements draw them: a single one in several rounds
/// may be late.
const NEARLY_ALL: f64 = 0.7;
/// Flights of so many rounds are compared; they differ by this factor at least. Where a path
/// carries no more, the RTT grows as they do: by this part of their growth at least (as
/// logarithms).
const COMPARED: usize = 64;
const DIFFER: f64 = 1.15;
const AS_MUCH: f64 = 0.75;
/// Where most of the growth is that of the rate, the path has room.
const LESS: f64 = 0.5;
/// A writer wakes up once a third of the send buffer is free (`sk_stream_min_wspace`), of which a
/// segment's overhead is a part; what a window lets through is what an acknowledgement
/// acknowledged: two segments.
const REFILLS: f64 = 0.3;
const MIN_REFILL: f64 = 3.0;
/// A run that is a smaller part of the flight than this is none of a send buffer, and where fewer
/// follow an acknowledgement neither.
const MAY_REFILL: f64 = 0.2;
const NEARLY_NONE: f64 = 0.1;
const ALL: f64 = 0.99;
/// Rounds after which means tell.
const STEADY_ROUNDS: u32 = 5;

/// What limited each round of a trace, and the time between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketLimits {
    /// What a round tells of the sender at its end, and the end of each time in which nothing was
    /// outstanding, in the terms of the kernel's variables. The congestion window is what was in
    /// flight, where nothing else held it.
    pub observations: Vec<Observation>,
    /// Stretches without a gap from the first round's begin to the last one's end, microseconds of
    /// the capture's clock since 1970.
    pub stretches: Vec<Stretch>,
    /// By round, as in [`WindowTrace::rounds`].
    pub rounds: Vec<Limit>,
}

/// Tells what limited the sender of a trace. `looks` are the tracker's, of the same rounds.
pub fn packet_limits(trace: &WindowTrace, looks: &Looks) -> PacketLimits {
    let mut limits = PacketLimits::default();
    let Some(first) = trace.rounds.first() else { return limits };
    let mut teller = Teller::new(trace, looks);
    let mut classifier = Classifier::default();
    let mut stretches = Vec::new();
    let mut observe = |now: Observation| {
        classifier.observe(&now, |stretch| stretches.push(stretch));
        limits.observations.push(now);
        classifier.limit()
    };
    observe(teller.idle(first.start_ns, &Look::default()));
    let mut rounds = Vec::with_capacity(trace.rounds.len());
    let mut before: Option<(&Round, &Look)> = None;
    for (round, look) in trace.rounds.iter().zip(&looks.rounds) {
        if let Some((last, last_look)) = before
            && round.start_ns > last.end_ns
        {
            observe(teller.idle(round.start_ns, last_look));
        }
        rounds.push(observe(teller.round(round, look)));
        before = Some((round, look));
    }
    PacketLimits { rounds, stretches, ..limits }
}

struct Teller<'a> {
    trace: &'a WindowTrace,
    scale: u32,
    knows_scale: bool,
    /// The least passage from the sender's timestamp to the capture.
    least_passage_us: i64,
    reductions: usize,
    acked_bytes: u64,
    retransmitted: u32,
    /// Flight of the round before, segments, and whether losses were repaired in it.
    flight: f64,
    repaired: bool,
    rounds: u32,
    runs: Runs,
    reader: Reader,
    /// Flights of the last rounds, segments, with their RTTs, microseconds.
    flights: VecDeque<(f64, f64)>,
    /// When the flight became as large as it is, and what it was.
    flat: (i64, f64),
    /// What was last seen of a round in which something was sent.
    last: Observation,
    slow_start_over: bool,
    ssthresh: u32,
}

impl<'a> Teller<'a> {
    fn new(trace: &'a WindowTrace, looks: &Looks) -> Teller<'a> {
        Teller {
            trace,
            scale: looks.scale.map_or_else(|| least_scale(&looks.rounds), |scale| u32::from(scale.min(14))),
            knows_scale: looks.scale.is_some() || shows_scale(trace, &looks.rounds),
            least_passage_us: looks.rounds.iter().filter_map(|look| look.least_passage_us).min().unwrap_or(0),
            reductions: 0,
            // Of a flow seen from its middle nobody knows how much came before.
            acked_bytes: if trace.handshake_rtt_us.is_some() { 0 } else { 1 << 30 },
            retransmitted: 0,
            flight: 0.0,
            repaired: false,
            rounds: 0,
            runs: Runs::default(),
            reader: Reader::default(),
            flights: VecDeque::new(),
            flat: (0, 0.0),
            last: Observation::default(),
            slow_start_over: false,
            ssthresh: u32::MAX,
        }
    }

    /// Nothing was outstanding until now.
    fn idle(&self, now_ns: i64, look: &Look) -> Observation {
        Observation {
            time_us: time_us(now_ns),
            begins: self.acked_bytes == 0,
            mss_bytes: self.trace.mss_bytes,
            unsent_bytes: Some(if look.closed { u64::MAX } else { 0 }),
            receive_window_bytes: Some(if look.closed { 0 } else { u64::from(look.window) << self.scale }),
            cwnd_segments: 10,
            acked_bytes: self.acked_bytes,
            ..Observation::default()
        }
    }

    /// What the packets of a round tell, in the terms of the kernel's variables.
    fn round(&mut self, round: &Round, look: &Look) -> Observation {
        let mss_bytes = self.trace.mss_bytes.max(1);
        let flight = f64::from(round.window).max(1.0);
        self.acked_bytes += (f64::from(round.acked) * f64::from(mss_bytes)) as u64;
        self.retransmitted += round.retransmitted;
        let window_bytes = u64::from(look.window) << self.scale;
        let near = self.trace.capture_point == CapturePoint::Sender;
        let reduction = self.reduction(round);
        let queue_us = look.passage_us.map_or(0, |passage_us| passage_us - self.least_passage_us);
        let (srtt_us, rttvar_us) = (round.rtt_mean_us, round.rtt_max_us.saturating_sub(round.rtt_min_us) / 4);
        let (least_rtt_us, upstream) = self.least_rtt(round, look, queue_us);
        let time_us = time_us(round.end_ns);
        if look.runs == 0 && !look.repair && reduction.is_none() {
            // What kept it from sending before keeps it still.
            return Observation { time_us, acked_bytes: self.acked_bytes, ..self.last };
        }
        self.follow(round, look, flight, reduction.is_some() || look.repair);

        // At most of the acknowledgements nothing was left to send.
        let (emptied_ms, others_ms) = look.rests_ms;
        let emptied = look.runs > 0 && emptied_ms > others_ms;
        let refills = self.refills(look, emptied);
        let receiver_full = self.receiver_full(look, window_bytes);
        let held = near && i64::from(look.held_us).max(queue_us - TICK_US / 2) > HELD_US;
        let cwnd_segments = flight.ceil() as u32;
        let seen = Observation {
            time_us,
            moment: Moment::Arrival,
            state: match (look.timeout, look.repair) {
                (true, _) => CaState::Loss,
                (false, true) => CaState::Recovery,
                (false, false) => CaState::Open,
            },
            reduction,
            // With nothing else in its way a window is full.
            cwnd_segments: if receiver_full { cwnd_segments.saturating_mul(2) } else { cwnd_segments },
            ssthresh_segments: (self.ssthresh != u32::MAX).then_some(self.ssthresh.min(cwnd_segments)),
            in_flight_segments: cwnd_segments,
            outstanding_bytes: if receiver_full {
                window_bytes
            } else {
                (flight * f64::from(mss_bytes)) as u64
            },
            mss_bytes,
            receive_window_bytes: (receiver_full || self.knows_scale).then_some(window_bytes),
            unsent_bytes: Some(if (emptied || refills == Some(true)) && !receiver_full {
                0
            } else {
                u64::MAX
            }),
            writer_waits: refills,
            window_updates: Some(look.updates > 0),
            reads_at_once: self.reader.at_once(),
            path_is_full: self.path_is_full().filter(|_| !upstream),
            srtt_us: Some(srtt_us).filter(|srtt_us| *srtt_us > 0),
            least_rtt_us: Some(least_rtt_us).filter(|least_us| *least_us > 0),
            rttvar_us,
            min_rtt_us: Some(self.trace.min_rtt_us).filter(|min_us| *min_us > 0 && !upstream),
            acked_bytes: self.acked_bytes,
            retransmitted_segments: self.retransmitted,
            ..Observation::default()
        };
        let queue = seen.standing_queue_us(cwnd_segments.into()).is_some();
        // What acknowledgements do not draw waits in no queue of its own making.
        let own_rate = self.runs.has_own_rate(near);
        let undrawn = own_rate || (near && self.runs.most_by_clock());
        let paced = if receiver_full || (queue && !undrawn) {
            Some(false)
        } else {
            self.paced(round, near, queue_us)
        };
        let room = held || paced != Some(false);
        self.last = Observation {
            in_flight_segments: if room { 0 } else { cwnd_segments },
            pacing_wait_us: Some(u32::from(paced == Some(true) && !held)),
            device_full: Some(held),
            own_rate: Some(own_rate && !receiver_full),
            ..seen
        };
        self.last
    }

    /// Whether the receiver's window was full.
    fn receiver_full(&self, look: &Look, window_bytes: u64) -> bool {
        let mss_bytes = u64::from(self.trace.mss_bytes.max(1));
        let room_bytes = window_bytes.saturating_sub(look.used_bytes);
        look.window > 0 && room_bytes < mss_bytes && self.knows_scale
    }

    /// Whether pacing holds what it sends. `None`: it may be so. Away from the sender that may also
    /// be its device, which holds as much as it sends in 1 ms at least (TCP small queues), or of a
    /// window that grows the path; and of few runs those of a window may be even, too.
    fn paced(&self, round: &Round, near: bool, queue_us: i64) -> Option<bool> {
        let clocked = self.runs.clocked();
        if near {
            // One block each round trip is even, too: a window lets it through.
            let even = self.runs.even() && self.runs.count >= 2.0;
            return clocked.or(Some(even && self.runs.some_by_clock()));
        }
        // Half a tick of its clock is lost in each timestamp.
        let in_device = queue_us >= TICK_US;
        let from_begin = self.trace.handshake_rtt_us.is_some();
        if self.runs.has_own_rate(near) {
            return (from_begin && !in_device).then_some(true);
        }
        if !self.runs.even() || clocked == Some(false) {
            return Some(false);
        }
        if self.runs.count < MIN_RUNS || self.reductions > 0 {
            return Some(false);
        }
        let tells = !in_device && from_begin && self.stands_still(round);
        tells.then_some(true)
    }

    /// Whether the flight has stayed the same for longer than a window that grows can: by 0.53
    /// segments each round trip at least (RFC 9438 section 4.3), from 0.7 of it.
    fn stands_still(&self, round: &Round) -> bool {
        let (since_ns, flight) = self.flat;
        let flat_us = (round.end_ns - since_ns) / 1000;
        let rounds = flat_us as f64 / f64::from(round.rtt_mean_us.max(1));
        rounds > 0.57 * flight + 2.0
    }

    fn follow(&mut self, round: &Round, look: &Look, flight: f64, reduced: bool) {
        let grows = self.flight > 0.0 && flight >= self.flight * SLOW_START_GROWTH;
        if reduced || (self.flight > 0.0 && !grows) {
            self.slow_start_over = true;
        }
        if reduced || (self.slow_start_over && self.ssthresh == u32::MAX) {
            self.ssthresh = flight as u32;
        }
        if self.flight == 0.0 && self.trace.handshake_rtt_us.is_none() {
            // A flow seen from its middle has most likely left it.
            self.slow_start_over = true;
        }
        // What was in flight in the round before was acknowledged in this one. The least RTT: a
        // host that stalls makes single ones long. What was sent before a capture that begins in
        // the middle is in flight in its first round, and was not seen.
        let whole = self.rounds >= 2 && self.flight > 0.0;
        if round.rtt_min_us > 0 && whole && !look.repair && !self.repaired {
            if self.flights.len() == COMPARED {
                self.flights.pop_front();
            }
            self.flights.push_back((self.flight, round.rtt_min_us.into()));
        }
        // The flight of a repair is not the window after it.
        if flight > self.flat.1 + 1.0 || reduced || self.repaired {
            self.flat = (round.end_ns, flight);
        }
        self.repaired = reduced;
        self.flight = flight;
        self.rounds += 1;
        self.runs.add(round, look);
        self.reader.add(look.told, look.shrunk);
    }

    /// Whether the sender sends what a send buffer took in once a third of it was free: nearly each
    /// run is as large as that, and followed an acknowledgement. `None`: it may be so.
    fn refills(&self, look: &Look, emptied: bool) -> Option<bool> {
        let runs = f64::from(look.runs.max(1));
        let part = f64::from(look.refilled) / runs;
        let segments = f64::from(look.segments) / runs;
        let small = look.used_bytes < 2 * u64::from(self.trace.mss_bytes);
        if part < MAY_REFILL || small {
            return Some(false);
        }
        let near = self.trace.capture_point == CapturePoint::Sender;
        let woken = self.runs.woken();
        // What a clock draws no acknowledgement woke up.
        let clocked = self.runs.clocked();
        if clocked == Some(true) {
            return Some(false);
        }
        // How long data takes from an acknowledgement at least, only the handshake tells away from
        // the sender: else a rhythm looks so.
        let tells = near || clocked == Some(false) || self.trace.handshake_rtt_us.is_some();
        // A program in a rhythm of its own writes as often after an acknowledgement as chance has
        // it.
        let rarely = (self.runs.by_chance().min(NEARLY_ALL) + NEARLY_ALL) / 2.0;
        if woken < if tells { rarely } else { NEARLY_NONE } {
            return Some(false);
        }
        // What ends with a full segment may as well be what a window lets through.
        let steady = emptied && (near || part < ALL);
        let large = part >= REFILLS && segments >= MIN_REFILL;
        let does = large && steady && tells && self.rounds >= STEADY_ROUNDS && woken >= NEARLY_ALL;
        if does { Some(true) } else { None }
    }

    /// Whether the RTT grows as the flight does. Of a flow whose handshake was seen the least RTT
    /// is known, and tells more.
    fn path_is_full(&self) -> Option<bool> {
        if self.trace.handshake_rtt_us.is_some() {
            return Some(false);
        }
        let by_flight = |a: &&(f64, f64), b: &&(f64, f64)| a.0.total_cmp(&b.0);
        let least = self.flights.iter().min_by(by_flight)?;
        let most = self.flights.iter().max_by(by_flight)?;
        let (flights, rtts) = (most.0 / least.0, most.1 / least.1);
        match rtts.ln() / flights.ln() {
            _ if flights < DIFFER => None,
            // A sender that paces has as much in flight as the RTT lets it, too; but no losses end
            // its growth.
            part if part >= AS_MUCH => (self.reductions > 0).then_some(true),
            part if part <= LESS => Some(false),
            _ => None,
        }
    }

    /// The least round-trip time of a round, and whether what it is longer than the least of all
    /// was spent before the capture. Near the sender it was measured. Elsewhere what was measured
    /// is from data to what its acknowledgement drew, which may have waited for its time; the
    /// passage from the sender's timestamp to the capture tells of a queue alone. On the way, of a
    /// flow seen from its middle, nobody knows whether that queue is the sender's own device's.
    fn least_rtt(&self, round: &Round, look: &Look, queue_us: i64) -> (u32, bool) {
        let point = self.trace.capture_point;
        if point == CapturePoint::Sender || look.passage_us.is_none() {
            return (round.rtt_min_us, false);
        }
        // Half a tick of its clock is lost in each timestamp.
        let queue_us = u32::try_from((queue_us - TICK_US / 2).max(0)).unwrap_or(u32::MAX);
        let least_us = self.trace.min_rtt_us.saturating_add(queue_us);
        if point != CapturePoint::Middle {
            return (least_us, false);
        }
        let longer_us = round.rtt_min_us.saturating_sub(self.trace.min_rtt_us);
        let upstream = queue_us > longer_us / 2 && self.trace.handshake_rtt_us.is_none();
        (round.rtt_min_us.max(least_us), upstream)
    }

    /// The reduction that was made by this round's end, if one was.
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

/// The scale of a receiver whose SYN was not seen: the least with which it allowed all that was
/// outstanding. If a window was ever full, it is this one; by chance a window of another scale is
/// as full only once in as many times as segments fit into it.
fn least_scale(looks: &[Look]) -> u32 {
    let fits = |scale: u32| looks.iter().all(|look| look.used_bytes <= u64::from(look.window) << scale);
    (0..=14).find(|scale| fits(*scale)).unwrap_or(14)
}

/// Whether windows show their scale: those that are full by it are full to the last byte, or of
/// many segments, or several. A steady flight may lie a segment below one window by chance.
fn shows_scale(trace: &WindowTrace, looks: &[Look]) -> bool {
    let scale = least_scale(looks);
    let mss_bytes = u64::from(trace.mss_bytes.max(1));
    let mut several = std::collections::BTreeSet::new();
    for look in looks.iter().filter(|look| look.window > 0) {
        let window_bytes = u64::from(look.window) << scale;
        let room_bytes = window_bytes.saturating_sub(look.used_bytes);
        // Of one segment or two that is also what any sender with little to send has outstanding.
        let to_the_last_byte = room_bytes == 0 && window_bytes > 2 * mss_bytes;
        if to_the_last_byte {
            return true;
        }
        if room_bytes < mss_bytes && window_bytes >= MIN_WINDOW * mss_bytes {
            several.insert(look.window);
            if window_bytes >= MANY * mss_bytes || several.len() >= 3 {
                return true;
            }
        }
    }
    false
}

fn time_us(ns: i64) -> u64 {
    u64::try_from(ns / 1000).unwrap_or(0)
}
