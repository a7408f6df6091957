//! Simplified TCP senders with a bounded window for the tests and examples of this crate: slow
//! start up to the bound, then a constant window, one ACK per two segments or after 40 ms, and
//! selective retransmission. They suffice to load a cell; the full senders are in another crate.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use yuzuri_netmodel::fairness::jain;
use yuzuri_netmodel::radio::{Cell, CellConfig, Node, To};
use yuzuri_netmodel::wire::{Direction, Wire, WireConfig};
use yuzuri_netmodel::{ConfigError, Packet, Time};

/// Payload of a segment, bytes.
pub const MSS: u64 = 1448;
const DATA_BYTES: u32 = 1514;
const ACK_BYTES: u32 = 66;
const DELAYED_ACK_NS: u64 = 40_000_000;
const RTO_MIN_NS: u64 = 200_000_000;
const INITIAL_WINDOW: f64 = 10.0;

/// A segment (up) or an ACK (down).
#[derive(Clone, Debug)]
pub struct Segment {
    flow: u16,
    /// Sequence number of the segment, or of the next segment expected; in segments.
    number: u64,
    /// In an ACK triggered by an out-of-order segment: the number of that segment.
    selective: Option<u64>,
    /// When the segment was sent, echoed by the ACK (RFC 7323). ZERO if it must not be used for an
    /// RTT sample.
    sent: Time,
    bytes: u32,
}

impl Packet for Segment {
    fn bytes(&self) -> u32 {
        self.bytes
    }
    fn flow(&self) -> u64 {
        u64::from(self.flow)
    }
}

/// Result of a flow.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Segments received in order.
    pub segments: u64,
    /// Segments received in order during the first half of the run.
    pub segments_at_half: u64,
    /// Retransmissions.
    pub retransmissions: u64,
}

/// Result of all flows.
#[derive(Clone, Debug)]
pub struct Uploaded {
    pub flows: Vec<Outcome>,
    pub seconds: f64,
    /// Mean of all RTT samples after `warm` seconds.
    pub mean_rtt_ms: f64,
}

impl Uploaded {
    pub fn total_mbps(&self) -> f64 {
        let segments: u64 = self.flows.iter().map(|flow| flow.segments).sum();
        (segments * MSS * 8) as f64 / self.seconds / 1e6
    }
    pub fn second_half_mbps(&self) -> f64 {
        let segments: u64 = self.flows.iter().map(|flow| flow.segments - flow.segments_at_half).sum();
        (segments * MSS * 8) as f64 / (self.seconds / 2.0) / 1e6
    }
    pub fn jain(&self) -> f64 {
        jain(self.flows.iter().map(|flow| flow.segments as f64)).unwrap_or(1.0)
    }
}

#[derive(Default)]
struct Flow {
    window: f64,
    bound: f64,
    acknowledged: u64,
    next: u64,
    /// For each segment from `acknowledged` to `next`: whether it was selectively acknowledged, and
    /// when it was retransmitted.
    outstanding: VecDeque<(bool, Option<Time>)>,
    selective: u64,
    /// One past the highest selectively acknowledged segment.
    highest: u64,
    /// End of the range that has been searched for holes.
    scanned: u64,
    timeout: Option<Time>,
    srtt_ns: f64,
    // Receiver state.
    wanted: u64,
    ahead: BTreeSet<u64>,
    unacknowledged: u32,
    delayed: Option<Time>,
    delayed_is_timed: bool,
    echo: Time,
    outcome: Outcome,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// Start of the flow, later the retransmission timeout.
    Send,
    DelayedAck,
}

/// A cell whose stations upload through the access point and a wire to a server.
pub struct Uploads {
    pub cell: Cell<Segment>,
    wire: Wire<Segment>,
    flows: Vec<Flow>,
    /// At most one timer of each kind per flow. A timer whose time has changed is set again when it
    /// fires.
    timers: BinaryHeap<Reverse<(Time, u16, Timer)>>,
    now: Time,
    warm: Time,
    rtt_ns: f64,
    rtt_samples: u64,
}

impl Uploads {
    /// Creates the uploads. `bounds` holds the window of each station in segments; flows start
    /// evenly spaced over `stagger`.
    pub fn new(
        cell: &CellConfig,
        wire: &WireConfig,
        bounds: &[f64],
        stagger: Time,
        warm: Time,
        seed: u64,
    ) -> Result<Uploads, ConfigError> {
        let mut timers = BinaryHeap::new();
        let flows = bounds.iter().enumerate().map(|(index, bound)| {
            let start = Time::from_nanos(stagger.as_nanos() * index as u64 / bounds.len() as u64);
            timers.push(Reverse((start, index as u16, Timer::Send)));
            Flow {
                window: INITIAL_WINDOW.min(*bound),
                bound: *bound,
                timeout: Some(start),
                ..Flow::default()
            }
        });
        let flows = flows.collect();
        Ok(Uploads {
            cell: Cell::new(cell, seed)?,
            wire: Wire::new(wire, seed)?,
            flows,
            timers,
            now: Time::ZERO,
            warm,
            rtt_ns: 0.0,
            rtt_samples: 0,
        })
    }

    /// Runs for `seconds` and returns the results.
    pub fn run(mut self, seconds: f64) -> (Uploaded, Cell<Segment>, Wire<Segment>) {
        let end = Time::from_secs_f64(seconds);
        let half = Time::from_secs_f64(seconds / 2.0);
        let mut halved = false;
        let (mut from_cell, mut from_wire) = (Vec::new(), Vec::new());
        loop {
            let cell = self.cell.next().unwrap_or(Time::MAX);
            let wire = self.wire.next().unwrap_or(Time::MAX);
            let timer = self.timers.peek().map_or(Time::MAX, |Reverse((at, ..))| *at);
            let at = cell.min(wire).min(timer);
            if !halved && at >= half {
                halved = true;
                for flow in &mut self.flows {
                    flow.outcome.segments_at_half = flow.wanted;
                }
            }
            if at > end {
                break;
            }
            self.now = at;
            if cell == at {
                self.cell.advance(at, &mut from_cell);
                for arrival in from_cell.drain(..) {
                    match arrival.at_node {
                        Node::Ap => self.wire.send(at, Direction::Up, arrival.packet),
                        Node::Station(_) => self.on_ack(&arrival.packet),
                    }
                }
            } else if wire == at {
                self.wire.advance(at, &mut from_wire);
                for arrival in from_wire.drain(..) {
                    match arrival.at_node {
                        Direction::Up => self.on_segment(&arrival.packet),
                        Direction::Down => {
                            let station = Node::Station(arrival.packet.flow);
                            self.cell.advance(at, &mut from_cell);
                            self.cell.send(at, Node::Ap, To::One(station), arrival.packet);
                        }
                    }
                }
            } else {
                match self.timers.pop() {
                    Some(Reverse((_, flow, Timer::Send))) => self.on_send_timer(usize::from(flow)),
                    Some(Reverse((_, flow, Timer::DelayedAck))) => self.on_ack_timer(usize::from(flow)),
                    None => break,
                }
            }
        }
        self.cell.advance(end, &mut from_cell);
        for flow in &mut self.flows {
            flow.outcome.segments = flow.wanted;
        }
        let result = Uploaded {
            flows: self.flows.into_iter().map(|flow| flow.outcome).collect(),
            seconds,
            mean_rtt_ms: self.rtt_ns / self.rtt_samples.max(1) as f64 / 1e6,
        };
        (result, self.cell, self.wire)
    }

    fn transmit(&mut self, index: usize, number: u64, again: bool) {
        let sent = if again { Time::ZERO } else { self.now };
        let segment = Segment { flow: index as u16, number, selective: None, sent, bytes: DATA_BYTES };
        self.cell.send(self.now, Node::Station(index as u16), To::One(Node::Ap), segment);
    }

    fn fill(&mut self, index: usize) {
        while {
            let flow = &self.flows[index];
            ((flow.next - flow.acknowledged - flow.selective) as f64) < flow.window.floor()
        } {
            let number = self.flows[index].next;
            self.flows[index].next += 1;
            self.flows[index].outstanding.push_back((false, None));
            self.transmit(index, number, false);
        }
        if self.flows[index].timeout.is_none() {
            self.arm(index);
        }
    }

    fn arm(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        let wait = (4.0 * flow.srtt_ns) as u64;
        let at = self.now + std::time::Duration::from_nanos(wait.max(RTO_MIN_NS).max(1_000_000_000));
        if flow.timeout.replace(at).is_none() {
            self.timers.push(Reverse((at, index as u16, Timer::Send)));
        }
    }

    fn on_send_timer(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        let Some(timeout) = flow.timeout else { return };
        if timeout > self.now {
            self.timers.push(Reverse((timeout, index as u16, Timer::Send)));
            return;
        }
        flow.timeout = None;
        if flow.next == 0 {
            self.fill(index);
        } else if flow.acknowledged < flow.next {
            flow.outcome.retransmissions += 1;
            flow.outstanding[0].1 = Some(self.now);
            let number = flow.acknowledged;
            self.transmit(index, number, true);
            self.arm(index);
        }
    }

    fn on_ack_timer(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        flow.delayed_is_timed = false;
        match flow.delayed {
            Some(at) if at > self.now => {
                flow.delayed_is_timed = true;
                self.timers.push(Reverse((at, index as u16, Timer::DelayedAck)));
            }
            Some(_) => self.acknowledge(index, None),
            None => {}
        }
    }

    fn on_ack(&mut self, ack: &Segment) {
        let index = usize::from(ack.flow);
        let now = self.now;
        let flow = &mut self.flows[index];
        if ack.sent > Time::ZERO {
            let rtt_ns = now.since(ack.sent).as_nanos() as f64;
            flow.srtt_ns += (rtt_ns - flow.srtt_ns) * if flow.srtt_ns == 0.0 { 1.0 } else { 0.125 };
            if now > self.warm {
                self.rtt_ns += rtt_ns;
                self.rtt_samples += 1;
            }
        }
        let before = flow.acknowledged;
        while flow.acknowledged < ack.number {
            flow.acknowledged += 1;
            flow.window = (flow.window + 1.0).min(flow.bound);
            if let Some((true, _)) = flow.outstanding.pop_front() {
                flow.selective -= 1;
            }
        }
        if let Some(number) = ack.selective.filter(|number| *number >= flow.acknowledged) {
            let place = &mut flow.outstanding[(number - flow.acknowledged) as usize].0;
            flow.selective += u64::from(!std::mem::replace(place, true));
            flow.highest = flow.highest.max(number + 1);
        }
        flow.scanned = flow.scanned.max(flow.acknowledged);
        // Three later segments have been received, so the hole is lost (RFC 6675).
        while self.flows[index].scanned + 3 < self.flows[index].highest {
            let flow = &mut self.flows[index];
            let number = flow.scanned;
            flow.scanned += 1;
            let place = &mut flow.outstanding[(number - flow.acknowledged) as usize];
            if *place == (false, None) {
                place.1 = Some(now);
                flow.outcome.retransmissions += 1;
                self.transmit(index, number, true);
            }
        }
        // A segment retransmitted more than a round trip ago was lost again (RACK, RFC 8985).
        let flow = &mut self.flows[index];
        if let Some((false, Some(again))) = flow.outstanding.front_mut()
            && now.since(*again).as_nanos() as f64 > 1.5 * flow.srtt_ns
        {
            *again = now;
            flow.outcome.retransmissions += 1;
            let number = flow.acknowledged;
            self.transmit(index, number, true);
        }
        self.fill(index);
        if self.flows[index].acknowledged > before {
            self.arm(index);
        }
    }

    fn on_segment(&mut self, segment: &Segment) {
        let index = usize::from(segment.flow);
        let now = self.now;
        let flow = &mut self.flows[index];
        if flow.unacknowledged == 0 {
            flow.echo = segment.sent;
        }
        flow.unacknowledged += 1;
        let in_order = segment.number == flow.wanted && flow.ahead.is_empty();
        if in_order {
            flow.wanted += 1;
        } else if segment.number >= flow.wanted {
            flow.ahead.insert(segment.number);
            while flow.ahead.remove(&flow.wanted) {
                flow.wanted += 1;
            }
        }
        if !in_order {
            let ahead = Some(segment.number).filter(|number| *number > flow.wanted);
            self.acknowledge(index, ahead);
        } else if flow.unacknowledged >= 2 {
            self.acknowledge(index, None);
        } else {
            let at = now + std::time::Duration::from_nanos(DELAYED_ACK_NS);
            flow.delayed = Some(at);
            if !std::mem::replace(&mut flow.delayed_is_timed, true) {
                self.timers.push(Reverse((at, index as u16, Timer::DelayedAck)));
            }
        }
    }

    fn acknowledge(&mut self, index: usize, selective: Option<u64>) {
        let flow = &mut self.flows[index];
        flow.unacknowledged = 0;
        flow.delayed = None;
        let ack =
            Segment { flow: index as u16, number: flow.wanted, selective, sent: flow.echo, bytes: ACK_BYTES };
        self.wire.send(self.now, Direction::Down, ack);
    }
}
