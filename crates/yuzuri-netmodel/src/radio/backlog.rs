//! The backlog of a node by receiver, in one of two disciplines: a shared FIFO for all receivers
//! (drop-tail or CoDel), or one queue per receiver (FQ-CoDel) with receivers served by round robin
//! or by airtime.

use super::{Node, To};
use crate::queue::{CoDelLine, FqCodel, FqCodelConfig, QueueConfig, QueueDrops};
use crate::{Packet, Time};
use std::collections::VecDeque;

/// A packet on its way through the cell.
#[derive(Clone, Debug)]
pub(super) struct Item<P> {
    pub(super) packet: P,
    /// The original sender.
    pub(super) origin: Node,
    /// The final destination.
    pub(super) to: To,
    /// Sequence number of its arrival at this node.
    pub(super) order: u64,
}

impl<P: Packet> Packet for Item<P> {
    fn bytes(&self) -> u32 {
        self.packet.bytes()
    }
    fn flow(&self) -> u64 {
        self.packet.flow()
    }
    fn is_voice(&self) -> bool {
        self.packet.is_voice()
    }
    fn ecn_capable(&self) -> bool {
        self.packet.ecn_capable()
    }
    fn mark_ce(&mut self) {
        self.packet.mark_ce();
    }
}

/// Index of a node's receiver. 0 is the group. At the access point, station n is n + 1; at a
/// station, the access point is 1.
pub(super) type Receiver = usize;
pub(super) const GROUP: Receiver = 0;

/// Drops of the queues, separately for unicast and group-addressed packets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BacklogDrops {
    pub(super) one: QueueDrops,
    pub(super) group: QueueDrops,
}

impl BacklogDrops {
    fn of(&mut self, receiver: Receiver) -> &mut QueueDrops {
        if receiver == GROUP { &mut self.group } else { &mut self.one }
    }
}

/// Backlog of a node.
#[derive(Clone, Debug)]
pub(super) enum Backlog<P> {
    Shared(Shared<P>),
    PerReceiver(PerReceiver<P>),
}

impl<P: Packet> Backlog<P> {
    /// Creates an empty backlog. The queue configuration must have been checked.
    pub(super) fn new(config: &QueueConfig, airtime_fairness: bool) -> Backlog<P> {
        let shared = |packets: Option<u32>, bytes: Option<u64>, codel| {
            Backlog::Shared(Shared {
                receivers: Vec::new(),
                order: VecDeque::new(),
                arrived: 0,
                packets: 0,
                bytes: 0,
                max_packets: packets.map_or(usize::MAX, |n| n as usize),
                max_bytes: bytes.unwrap_or(u64::MAX),
                codel,
            })
        };
        match config {
            QueueConfig::DropTail { packets, bytes } => shared(*packets, *bytes, None),
            QueueConfig::Codel(codel) => shared(Some(codel.packets), None, Some(CoDelLine::new(codel))),
            QueueConfig::FqCodel(fq) => Backlog::PerReceiver(PerReceiver {
                receivers: Vec::new(),
                active: VecDeque::new(),
                packets: 0,
                config: fq.clone(),
                airtime_fairness,
            }),
        }
    }

    /// Number of queued packets.
    pub(super) fn packets(&self) -> usize {
        match self {
            Backlog::Shared(shared) => shared.packets,
            Backlog::PerReceiver(per) => per.packets,
        }
    }

    /// Queues a packet. Packets dropped as a result are counted in `drops`.
    pub(super) fn push(&mut self, now: Time, receiver: Receiver, item: Item<P>, drops: &mut BacklogDrops) {
        match self {
            Backlog::Shared(shared) => shared.push(now, receiver, item, drops),
            Backlog::PerReceiver(per) => per.push(now, receiver, item, drops),
        }
    }

    /// The receiver to be served next.
    pub(super) fn next_receiver(&mut self) -> Option<Receiver> {
        match self {
            Backlog::Shared(shared) => shared.next_receiver(),
            Backlog::PerReceiver(per) => per.next_receiver(),
        }
    }

    /// The next packet for `receiver`.
    pub(super) fn pop(&mut self, now: Time, receiver: Receiver, drops: &mut BacklogDrops) -> Option<Item<P>> {
        match self {
            Backlog::Shared(shared) => shared.pop(now, receiver, drops),
            Backlog::PerReceiver(per) => per.pop(now, receiver, drops),
        }
    }

    /// Returns the packet that was popped last to the head of the queue, because it does not fit.
    pub(super) fn put_back(&mut self, now: Time, receiver: Receiver, item: Item<P>) {
        match self {
            Backlog::Shared(shared) => shared.put_back(now, receiver, item),
            Backlog::PerReceiver(per) => per.put_back(receiver, item),
        }
    }

    /// Records that a frame was built for `receiver`. Without airtime fairness, the next receiver
    /// takes its turn.
    pub(super) fn served(&mut self, receiver: Receiver) {
        if let Backlog::PerReceiver(per) = self {
            per.served(receiver);
        }
    }

    /// Charges `receiver` for `airtime_ns` of channel use in either direction.
    pub(super) fn charge(&mut self, receiver: Receiver, airtime_ns: u64) {
        if let Backlog::PerReceiver(per) = self {
            per.charge(receiver, airtime_ns);
        }
    }

    /// Discards all packets for `receiver` and returns their number.
    pub(super) fn clear(&mut self, receiver: Receiver) -> usize {
        match self {
            Backlog::Shared(shared) => shared.clear(receiver),
            Backlog::PerReceiver(per) => per.clear(receiver),
        }
    }
}

/// A shared queue with a common limit. Packets of one receiver can be taken from its middle for
/// aggregation.
#[derive(Clone, Debug)]
pub(super) struct Shared<P> {
    receivers: Vec<VecDeque<(Time, Item<P>)>>,
    /// Arrivals in order. Entries whose packet has been taken are skipped when they reach the
    /// front.
    order: VecDeque<(u64, Receiver)>,
    arrived: u64,
    packets: usize,
    bytes: u64,
    max_packets: usize,
    max_bytes: u64,
    codel: Option<CoDelLine>,
}

impl<P: Packet> Shared<P> {
    fn push(&mut self, now: Time, receiver: Receiver, mut item: Item<P>, drops: &mut BacklogDrops) {
        let bytes = u64::from(item.bytes());
        if self.packets >= self.max_packets || self.bytes + bytes > self.max_bytes {
            drops.of(receiver).overflow += 1;
            return;
        }
        if self.receivers.len() <= receiver {
            self.receivers.resize_with(receiver + 1, VecDeque::new);
        }
        item.order = self.arrived;
        self.arrived += 1;
        self.order.push_back((item.order, receiver));
        self.receivers[receiver].push_back((now, item));
        self.packets += 1;
        self.bytes += bytes;
    }

    fn next_receiver(&mut self) -> Option<Receiver> {
        while let Some(&(order, receiver)) = self.order.front() {
            if self.receivers[receiver].front().is_some_and(|(_, head)| head.order == order) {
                return Some(receiver);
            }
            self.order.pop_front();
        }
        None
    }

    /// Receiver and size of the next packet; `None` if an AQM may change which packet is next.
    pub(super) fn first(&self) -> Option<(Receiver, u32)> {
        if self.codel.is_some() {
            return None;
        }
        self.order.iter().find_map(|(order, receiver)| {
            let (_, head) = self.receivers[*receiver].front()?;
            (head.order == *order).then(|| (*receiver, head.bytes()))
        })
    }

    fn pop(&mut self, now: Time, receiver: Receiver, drops: &mut BacklogDrops) -> Option<Item<P>> {
        let queue = self.receivers.get_mut(receiver)?;
        let before = queue.len();
        let taken = match &mut self.codel {
            None => {
                let (_, item) = queue.pop_front()?;
                self.bytes -= u64::from(item.bytes());
                Some(item)
            }
            Some(_) if queue.is_empty() => None,
            Some(codel) => codel.pop(now, queue, &mut self.bytes, drops.of(receiver)),
        };
        self.packets -= before - queue.len();
        taken
    }

    fn put_back(&mut self, now: Time, receiver: Receiver, item: Item<P>) {
        self.packets += 1;
        self.bytes += u64::from(item.bytes());
        // CoDel's sojourn time restarts. A packet that does not fit is sent in the next frame.
        self.receivers[receiver].push_front((now, item));
    }

    fn clear(&mut self, receiver: Receiver) -> usize {
        let Some(queue) = self.receivers.get_mut(receiver) else { return 0 };
        let count = queue.len();
        for (_, item) in queue.drain(..) {
            self.bytes -= u64::from(item.bytes());
        }
        self.packets -= count;
        count
    }
}

/// Airtime quantum of a receiver per round, ns; similar to mac80211's (256 to 300 µs).
const AIRTIME_QUANTUM_NS: i64 = 300_000;

/// One queue per receiver.
#[derive(Clone, Debug)]
pub(super) struct PerReceiver<P> {
    receivers: Vec<ReceiverQueue<P>>,
    /// Receivers with packets, in the order in which they are served.
    active: VecDeque<Receiver>,
    packets: usize,
    config: FqCodelConfig,
    airtime_fairness: bool,
}

#[derive(Clone, Debug)]
struct ReceiverQueue<P> {
    queue: FqCodel<Item<P>>,
    /// A packet that did not fit into the last frame.
    held: Option<Item<P>>,
    deficit_ns: i64,
    is_active: bool,
}

impl<P: Packet> ReceiverQueue<P> {
    fn packets(&self) -> usize {
        self.queue.packets() + usize::from(self.held.is_some())
    }
}

impl<P: Packet> PerReceiver<P> {
    fn grow(&mut self, receiver: Receiver) {
        while self.receivers.len() <= receiver {
            self.receivers.push(ReceiverQueue {
                queue: FqCodel::new(&self.config),
                held: None,
                deficit_ns: AIRTIME_QUANTUM_NS,
                is_active: false,
            });
        }
    }

    fn push(&mut self, now: Time, receiver: Receiver, item: Item<P>, drops: &mut BacklogDrops) {
        self.grow(receiver);
        let one = &mut self.receivers[receiver];
        let before = one.queue.packets();
        one.queue.push(now, item, drops.of(receiver));
        self.packets = self.packets + one.queue.packets() - before;
        if !one.is_active {
            one.is_active = true;
            self.active.push_back(receiver);
        }
        if self.packets > self.config.packets as usize {
            self.drop_from_fattest(drops);
        }
    }

    fn drop_from_fattest(&mut self, drops: &mut BacklogDrops) {
        let fattest = self.receivers.iter_mut().enumerate().max_by_key(|(_, one)| one.queue.fattest_bytes());
        let Some((receiver, one)) = fattest else { return };
        let before = one.queue.packets();
        one.queue.drop_from_fattest(drops.of(receiver));
        self.packets -= before - one.queue.packets();
    }

    fn next_receiver(&mut self) -> Option<Receiver> {
        loop {
            let receiver = *self.active.front()?;
            let one = &mut self.receivers[receiver];
            if one.packets() == 0 {
                one.is_active = false;
                self.active.pop_front();
            } else if self.airtime_fairness && one.deficit_ns <= 0 {
                one.deficit_ns += AIRTIME_QUANTUM_NS;
                self.active.rotate_left(1);
            } else {
                return Some(receiver);
            }
        }
    }

    fn pop(&mut self, now: Time, receiver: Receiver, drops: &mut BacklogDrops) -> Option<Item<P>> {
        let one = self.receivers.get_mut(receiver)?;
        let before = one.packets();
        let taken = one.held.take().or_else(|| one.queue.pop(now, drops.of(receiver)));
        self.packets -= before - one.packets();
        taken
    }

    fn put_back(&mut self, receiver: Receiver, item: Item<P>) {
        self.receivers[receiver].held = Some(item);
        self.packets += 1;
    }

    fn served(&mut self, receiver: Receiver) {
        if !self.airtime_fairness && self.active.front() == Some(&receiver) {
            self.active.rotate_left(1);
        }
    }

    fn charge(&mut self, receiver: Receiver, airtime_ns: u64) {
        if self.airtime_fairness {
            self.grow(receiver);
            self.receivers[receiver].deficit_ns -= airtime_ns as i64;
        }
    }

    fn clear(&mut self, receiver: Receiver) -> usize {
        let Some(one) = self.receivers.get_mut(receiver) else { return 0 };
        let count = one.packets();
        one.queue = FqCodel::new(&self.config);
        one.held = None;
        one.deficit_ns = AIRTIME_QUANTUM_NS;
        self.packets -= count;
        count
    }
}
