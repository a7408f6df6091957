//! What limited a sender, from its packets: the words and rules of `yuzuri-limits`.

use super::look::{Look, Looks};
use crate::window_trace::{CapturePoint, Cause, Round, WindowTrace};
use yuzuri_limits::{Classifier, Limit, Moment, Observation, Reduction, State, Stretch};

/// Segments lie in the sender's own device for longer than TCP small queues let them (1 ms of the pacing rate), and than the
/// millisecond of a timestamp blurs.
const HELD_US: i64 = 2_000;
/// Readings of the sender's clock, microseconds.
const TICK_US: i64 = 1_000;
/// Growth of a round below which slow start is over: a delayed acknowledgement for every second segment makes it 1.5.
const SLOW_START_GROWTH: f64 = 1.3;
/// Fewer runs do not tell whether they are evenly spaced; and they are where the variance of their distances is less than this part of
/// their mean squared. What a window lets through comes in a block, at the rate of the path, and then there is nothing until
/// the first acknowledgement.
const MIN_RUNS: f64 = 12.0;
const EVEN: f64 = 0.3;
/// Runs that no acknowledgement drew: the part from which on a clock of the sender's own draws them.
const BY_CLOCK: f64 = 0.02;
/// Segments of a window whose scale may be told, and of one of which the chance that a flight lies just below it is small.
const MIN_WINDOW: u64 = 4;
const MANY: u64 = 32;
/// The part of the runs from which on acknowledgements draw them: a single one in several rounds may be late.
const NEARLY_ALL: f64 = 0.7;
/// How fast the means over rounds forget.
const FORGETS: f64 = 0.25;
/// A writer wakes up once a third of the send buffer is free (`sk_stream_min_wspace`), of which a segment's overhead is a part; what a
/// window lets through is what an acknowledgement acknowledged: two segments.
const REFILLS: f64 = 0.3;
/// A run that is most of a flight is a window's, too, where it did not empty the sender's queue.
const WINDOWS: f64 = 0.75;
const MIN_REFILL: f64 = 3.0;
/// Rounds in which a flight stays the same until it is called steady; by what part it may vary.
const STEADY_ROUNDS: u32 = 5;
const STEADY: f64 = 0.08;

/// What limited each round of a trace, and the time between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketLimits {
    /// What a round tells of the sender at its end, and the end of each time in which nothing was outstanding, in the terms of the kernel's
    /// variables. The congestion window is what was in flight, where nothing else held it.
    pub observations: Vec<Observation>,
    /// Stretches without a gap from the first round's begin to the last one's end, microseconds of the capture's clock since 1970.
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
    /// Flight of the round before, segments.
    flight: f64,
    /// Since when the flight is steady: what it was, and for how many rounds.
    steady: (f64, u32),
    rounds: u32,
    /// Means over the last rounds: runs that followed an acknowledgement as a writer does that it woke, all runs, those by clock, and their distances (sum, and sum of squares, ms).
    woken: f64,
    runs: f64,
    by_clock: f64,
    gaps: (f64, f64),
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
            steady: (0.0, 0),
            rounds: 0,
            woken: 0.0,
            runs: 0.0,
            by_clock: 0.0,
            gaps: (0.0, 0.0),
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
        let (srtt_us, rttvar_us) = self.rtt(round, queue_us);
        let time_us = time_us(round.end_ns);
        if look.runs == 0 && !look.repair && reduction.is_none() {
            // What kept it from sending before keeps it still.
            return Observation { time_us, acked_bytes: self.acked_bytes, ..self.last };
        }
        self.follow(round, look, flight, reduction.is_some() || look.repair);

        let emptied = look.runs > 0 && look.emptied * 2 > look.runs;
        let refills = self.refills(look, emptied);
        let receiver_full = self.receiver_full(look, window_bytes);
        let held = near && i64::from(look.held_us).max(queue_us - TICK_US / 2) > HELD_US;
        let cwnd_segments = flight.ceil() as u32;
        let seen = Observation {
            time_us,
            moment: Moment::Arrival,
            state: match (look.timeout, look.repair) {
                (true, _) => State::Loss,
                (false, true) => State::Recovery,
                (false, false) => State::Open,
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
            unsent_bytes: Some(if (emptied || refills) && !receiver_full { 0 } else { u64::MAX }),
            writer_waits: if refills || !self.perhaps_refills(look) { Some(refills) } else { None },
            window_updates: Some(look.updates > 0),
            srtt_us: Some(srtt_us).filter(|srtt_us| *srtt_us > 0),
            rttvar_us,
            min_rtt_us: Some(self.trace.min_rtt_us).filter(|min_us| *min_us > 0),
            acked_bytes: self.acked_bytes,
            retransmitted_segments: self.retransmitted,
            ..Observation::default()
        };
        let queue = seen.standing_queue_us(cwnd_segments.into()).is_some();
        let paced = self.paced(round, near) && !queue && !receiver_full;
        let room = held || paced;
        self.last = Observation {
            in_flight_segments: if room { 0 } else { cwnd_segments },
            pacing_wait_us: Some(u32::from(paced && !held)),
            device_full: Some(held),
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

    /// Whether a clock of the sender's own draws what it sends: its runs are evenly spaced, and near it they are not drawn by
    /// acknowledgements. Away from it, of a flow seen from its middle, that may also be its device; and of a window that grows it
    /// may be the path.
    fn paced(&self, round: &Round, near: bool) -> bool {
        let (sum, squares) = self.gaps;
        let mean = sum / self.runs.max(1e-9);
        let variance = squares / self.runs.max(1e-9) - mean * mean;
        let even = self.runs * (1.0 / FORGETS) >= MIN_RUNS && variance < EVEN * mean * mean;
        if near {
            return even && self.by_clock > BY_CLOCK * self.runs;
        }
        let (since_ns, flight) = self.flat;
        let flat_us = (round.end_ns - since_ns) / 1000;
        let rounds = flat_us as f64 / f64::from(round.rtt_mean_us.max(1));
        even && self.trace.handshake_rtt_us.is_some() && rounds > 0.57 * flight + 2.0
    }

    fn follow(&mut self, round: &Round, look: &Look, flight: f64, reduced: bool) {
        let grows = self.flight > 0.0 && flight >= self.flight * SLOW_START_GROWTH;
        if reduced || (self.flight > 0.0 && !grows) {
            self.slow_start_over = true;
        }
        if reduced || (self.slow_start_over && self.ssthresh == u32::MAX) {
            self.ssthresh = flight as u32;
        }
        self.flight = flight;
        let (was, rounds) = self.steady;
        let same = rounds > 0 && (flight - was).abs() <= (was * STEADY).max(1.0) && !reduced;
        self.steady = if same { (was, rounds + 1) } else { (flight, 1) };
        if flight > self.flat.1 + 1.0 || reduced {
            self.flat = (round.end_ns, flight);
        }
        self.rounds += 1;
        let keep = 1.0 - FORGETS;
        let mean = |mean: &mut f64, value: f64| *mean = *mean * keep + value * FORGETS;
        mean(&mut self.woken, look.woken.into());
        mean(&mut self.runs, look.runs.into());
        mean(&mut self.by_clock, f64::from(look.runs - look.drawn));
        mean(&mut self.gaps.0, look.gaps_ms);
        mean(&mut self.gaps.1, look.gaps_ms2);
    }

    /// Whether the sender sends what a send buffer took in once a third of it was free: nearly each run followed an acknowledgement, and
    /// did so for several rounds.
    fn refills(&self, look: &Look, emptied: bool) -> bool {
        let runs = f64::from(look.runs.max(1));
        let part = f64::from(look.refilled) / runs;
        // Away from the sender a run that leaves nothing out follows the last acknowledgement as a program's own rhythm has it.
        let near = self.trace.capture_point == CapturePoint::Sender;
        let steady =
            if emptied { near || part < WINDOWS } else { part < WINDOWS && self.steady.1 >= STEADY_ROUNDS };
        let large = part >= REFILLS && f64::from(look.segments) / runs >= MIN_REFILL;
        large && steady && self.rounds >= STEADY_ROUNDS && self.woken >= NEARLY_ALL * self.runs
    }

    /// Whether it may be so, of a flow whose acknowledgements tell it less clearly.
    fn perhaps_refills(&self, look: &Look) -> bool {
        self.trace.capture_point != CapturePoint::Sender && look.woken * 2 > look.runs
    }

    /// Near the sender the round-trip time was measured. Elsewhere data queued before it passed, and its passage tells that.
    fn rtt(&self, round: &Round, queue_us: i64) -> (u32, u32) {
        if self.trace.capture_point == CapturePoint::Sender {
            return (round.rtt_mean_us, round.rtt_max_us.saturating_sub(round.rtt_min_us) / 4);
        }
        // Half a tick of its clock is lost in each timestamp.
        let queue_us = u32::try_from((queue_us - TICK_US / 2).max(0)).unwrap_or(u32::MAX);
        (self.trace.min_rtt_us.saturating_add(queue_us).max(round.rtt_mean_us), 0)
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

/// The scale of a receiver whose SYN was not seen: the least with which it allowed all that was outstanding. If a window was ever full,
/// it is this one; by chance a window of another scale is as full only once in as many times as segments fit into it.
fn least_scale(looks: &[Look]) -> u32 {
    let fits = |scale: u32| looks.iter().all(|look| look.used_bytes <= u64::from(look.window) << scale);
    (0..=14).find(|scale| fits(*scale)).unwrap_or(14)
}

/// Whether windows show their scale: those that are full by it are full to the last byte, or of many segments, or several. A steady
/// flight may lie a segment below one window by chance.
fn shows_scale(trace: &WindowTrace, looks: &[Look]) -> bool {
    let scale = least_scale(looks);
    let mss_bytes = u64::from(trace.mss_bytes.max(1));
    let mut several = std::collections::BTreeSet::new();
    for look in looks.iter().filter(|look| look.window > 0) {
        let window_bytes = u64::from(look.window) << scale;
        let room_bytes = window_bytes.saturating_sub(look.used_bytes);
        if room_bytes < mss_bytes && window_bytes >= MIN_WINDOW * mss_bytes {
            several.insert(look.window);
            if room_bytes == 0 || window_bytes >= MANY * mss_bytes || several.len() >= 3 {
                return true;
            }
        }
    }
    false
}

fn time_us(ns: i64) -> u64 {
    u64::try_from(ns / 1000).unwrap_or(0)
}
