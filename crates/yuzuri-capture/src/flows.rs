//! Assigns segments to flows: a bounded table from endpoints to slots.

use crate::facts::FlowCounts;
use crate::ip::IpPacket;
use crate::segment::{End, Flags, Segment};
use hashbrown::HashTable;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::{BuildHasher, Hash, Hasher};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// A flow's index for the caller's tables: dense from 0, below
/// [`Options::max_flows`](crate::Options::max_flows), and reused after
/// [`Item::Ended`](crate::Item::Ended).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowSlot(pub u32);

impl FlowSlot {
    /// As an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The endpoints of a flow, ordered: both directions have the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowKey {
    /// The end with the lower address, or with the lower port of the same address.
    pub lower: SocketAddr,
    /// The other end.
    pub higher: SocketAddr,
}

impl FlowKey {
    /// The address and port of an end.
    pub fn end(&self, end: End) -> SocketAddr {
        match end {
            End::Lower => self.lower,
            End::Higher => self.higher,
        }
    }
}

impl std::fmt::Display for FlowKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} - {}", self.lower, self.higher)
    }
}

/// The timestamps of one flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlowClock {
    /// Time of the last segment, ns since 1970-01-01 UTC.
    pub last_ns: i64,
    /// Segments stamped earlier than the flow's segment before them (saturating).
    pub steps_back: u32,
    /// The largest such step, ns.
    pub largest_step_back_ns: u64,
}

/// A flow's key in the form in which it is compared and hashed: addresses and ports in network
/// order. An end of IPv4 is its address and port, in the lowest 48 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PackedKey {
    lower: (u64, u64),
    higher: (u64, u64),
    /// For IPv6: the port of the lower end, of the higher end, and [`V6`].
    ports: u64,
}

const V6: u64 = 1 << 32;

impl PackedKey {
    /// Orders the ends; of IPv4 without a branch: which end sends is unpredictable.
    #[inline(always)]
    pub(crate) fn new(ip: &IpPacket<'_>, (from, to): (u16, u16)) -> (PackedKey, End) {
        let end = |higher: bool| if higher { End::Higher } else { End::Lower };
        if ip.v6 {
            let (source, destination) = ((ip.source, from), (ip.destination, to));
            let (lower, higher) = (source.min(destination), source.max(destination));
            let ports = V6 | u64::from(lower.1) << 16 | u64::from(higher.1);
            return (PackedKey { lower: lower.0, higher: higher.0, ports }, end(source > destination));
        }
        let source = ip.source.1 << 16 | u64::from(from);
        let destination = ip.destination.1 << 16 | u64::from(to);
        let (lower, higher) = ((0, source.min(destination)), (0, source.max(destination)));
        (PackedKey { lower, higher, ports: 0 }, end(source > destination))
    }

    fn unpack(&self) -> FlowKey {
        let end = |(high, low): (u64, u64), port: u64| match self.ports & V6 {
            0 => SocketAddr::new(Ipv4Addr::from_bits((low >> 16) as u32).into(), low as u16),
            _ => {
                let address = Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low));
                SocketAddr::new(address.into(), port as u16)
            }
        };
        FlowKey { lower: end(self.lower, self.ports >> 16), higher: end(self.higher, self.ports) }
    }
}

impl Hash for PackedKey {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.lower.1);
        state.write_u64(self.higher.1);
        if self.ports & V6 != 0 {
            for half in [self.lower.0, self.higher.0, self.ports] {
                state.write_u64(half);
            }
        }
    }
}

/// The state that every packet of a flow needs: one cache line.
#[repr(align(64))]
struct Flow {
    key: PackedKey,
    last_ns: i64,
    /// Number of the flow's last packet in the file.
    seen: u64,
    /// [`SYN_SEEN`] and [`SENT`] of each end, [`CLOSED`].
    state: u8,
}

/// The state that few packets of a flow need.
#[derive(Default)]
struct RareState {
    /// Initial sequence number of each end, where [`SYN_SEEN`] is set.
    isn: [u32; 2],
    /// Its `last_ns` is not maintained.
    clock: FlowClock,
}

const SYN_SEEN: [u8; 2] = [1, 2];
const SENT: [u8; 2] = [4, 8];
const CLOSED: u8 = 16;

/// Flags that change a flow's state.
const RARE: Flags = Flags(Flags::SYN.0 | Flags::FIN.0 | Flags::RST.0);

/// Where a packet belongs.
pub(crate) enum Lookup {
    /// To the flow in this slot, which continues.
    Known(FlowSlot),
    /// To a new flow in this slot.
    New(FlowSlot),
    /// To a new flow, once the end of the flow in this slot has been returned: look up again after
    /// that.
    After(FlowSlot),
}

/// More slots than any table has.
const NO_SLOT: u32 = u32::MAX;

pub(crate) struct Table {
    slots: Vec<Flow>,
    /// As long as `slots`.
    rare_states: Vec<RareState>,
    index: HashTable<u32>,
    hasher: foldhash::fast::SeedableRandomState,
    /// The slot of the last packet, since packets of a flow come in bursts; [`NO_SLOT`] if that
    /// flow has ended.
    last: u32,
    /// Slots free for reuse: at most one, between the end of a flow and the next packet.
    free: Option<u32>,
    /// One entry for each slot once all are in use, least recently seen first. An entry's packet
    /// number is that of the slot's last packet or of an earlier one.
    oldest: BinaryHeap<Reverse<(u64, u32)>>,
    max_flows: usize,
    idle_ns: u64,
}

impl Table {
    pub(crate) fn new(max_flows: usize, idle_ns: u64) -> Table {
        // std takes the seed from the system: the author of the file cannot know it.
        let seed = std::hash::RandomState::new().hash_one(0u64);
        Table {
            slots: Vec::new(),
            rare_states: Vec::new(),
            index: HashTable::new(),
            hasher: foldhash::fast::SeedableRandomState::with_seed(
                seed,
                foldhash::SharedSeed::global_random(),
            ),
            last: NO_SLOT,
            free: None,
            oldest: BinaryHeap::new(),
            max_flows,
            idle_ns,
        }
    }

    pub(crate) fn key(&self, slot: FlowSlot) -> Option<FlowKey> {
        self.slots.get(slot.index()).map(|flow| flow.key.unpack())
    }

    pub(crate) fn clock(&self, slot: FlowSlot) -> Option<FlowClock> {
        let flow = self.slots.get(slot.index())?;
        Some(FlowClock { last_ns: flow.last_ns, ..self.rare_states[slot.index()].clock })
    }

    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// Finds or creates the packet's flow.
    #[inline(always)]
    pub(crate) fn place(
        &mut self,
        key: PackedKey,
        segment: &Segment,
        packet: u64,
        counts: &mut FlowCounts,
    ) -> Lookup {
        if self.slots.get(self.last as usize).is_none_or(|flow| flow.key != key) && !self.look_up(key) {
            return self.open(key, segment, packet, counts);
        }
        let slot = self.last;
        let flow = &mut self.slots[slot as usize];
        if segment.time_ns < flow.last_ns || segment.flags.intersects(RARE) {
            return self.place_rare(slot, segment, packet, counts);
        }
        flow.see(segment, packet);
        Lookup::Known(FlowSlot(slot))
    }

    /// Makes a flow the last one; `false` if it is unknown.
    #[inline(never)]
    fn look_up(&mut self, key: PackedKey) -> bool {
        let hash = self.hasher.hash_one(key);
        let Some(&slot) = self.index.find(hash, |&slot| self.slots[slot as usize].key == key) else {
            return false;
        };
        self.last = slot;
        true
    }

    /// The same for a packet with SYN, FIN or RST, or with an earlier timestamp.
    #[cold]
    #[inline(never)]
    fn place_rare(&mut self, slot: u32, segment: &Segment, packet: u64, counts: &mut FlowCounts) -> Lookup {
        let flow = &mut self.slots[slot as usize];
        let rare = &mut self.rare_states[slot as usize];
        if segment.flags.contains(Flags::SYN) && flow.ends_before(rare, segment, self.idle_ns, counts) {
            counts.superseded += 1;
            self.close(slot);
            return Lookup::After(FlowSlot(slot));
        }
        if segment.time_ns < flow.last_ns {
            let clock = &mut rare.clock;
            clock.steps_back = clock.steps_back.saturating_add(1);
            let step_ns = flow.last_ns.abs_diff(segment.time_ns);
            clock.largest_step_back_ns = clock.largest_step_back_ns.max(step_ns);
        }
        flow.note_control(rare, segment);
        flow.see(segment, packet);
        Lookup::Known(FlowSlot(slot))
    }

    #[inline(never)]
    fn open(&mut self, key: PackedKey, segment: &Segment, packet: u64, counts: &mut FlowCounts) -> Lookup {
        if self.free.is_none() && self.slots.len() >= self.max_flows {
            let slot = self.min_recent();
            counts.evicted += 1;
            self.close(slot);
            return Lookup::After(FlowSlot(slot));
        }
        let mut flow = Flow { key, last_ns: segment.time_ns, seen: packet, state: 0 };
        let mut rare = RareState::default();
        flow.note_control(&mut rare, segment);
        flow.see(segment, packet);
        let slot = match self.free.take() {
            Some(slot) => {
                self.slots[slot as usize] = flow;
                self.rare_states[slot as usize] = rare;
                slot
            }
            None => {
                self.slots.push(flow);
                self.rare_states.push(rare);
                (self.slots.len() - 1) as u32
            }
        };
        let (slots, hasher) = (&self.slots, &self.hasher);
        self.index
            .insert_unique(hasher.hash_one(key), slot, |&slot| hasher.hash_one(slots[slot as usize].key));
        counts.seen += 1;
        Lookup::New(FlowSlot(slot))
    }

    /// Removes a flow from the index. Its slot keeps its content until the next flow takes it.
    fn close(&mut self, slot: u32) {
        let slots = &self.slots;
        let hash = self.hasher.hash_one(slots[slot as usize].key);
        if let Ok(entry) = self.index.find_entry(hash, |&other| other == slot) {
            entry.remove();
        }
        self.last = NO_SLOT;
        self.free = Some(slot);
    }

    /// The flow seen least recently: the first entry that is up to date. There is at most one
    /// correction of an entry for each packet of its flow.
    fn min_recent(&mut self) -> u32 {
        if self.oldest.is_empty() {
            self.oldest = (0..).zip(&self.slots).map(|(slot, flow)| Reverse((flow.seen, slot))).collect();
        }
        loop {
            let Some(mut first) = self.oldest.peek_mut() else { return 0 };
            let Reverse((when, slot)) = *first;
            let seen = self.slots[slot as usize].seen;
            if seen == when {
                return slot;
            }
            *first = Reverse((seen, slot));
        }
    }
}

impl Flow {
    /// Whether a packet with SYN begins a new connection between the same ends.
    fn ends_before(
        &self,
        rare: &RareState,
        segment: &Segment,
        idle_ns: u64,
        counts: &mut FlowCounts,
    ) -> bool {
        let from = segment.from.index();
        // A SYN-ACK belongs to the SYN that was already evaluated. A SYN with the same number is a
        // retransmission.
        let same = self.state & SYN_SEEN[from] != 0 && rare.isn[from] == segment.seq;
        if segment.flags.contains(Flags::ACK) || same {
            return false;
        }
        let closed = self.state & CLOSED != 0;
        let idle = u64::try_from(segment.time_ns.saturating_sub(self.last_ns)).is_ok_and(|ns| ns >= idle_ns);
        // The first attempt was not answered, and this is the next one.
        let unanswered = self.state & SYN_SEEN[from] != 0 && self.state & SENT[1 - from] == 0;
        let ends = closed || idle || unanswered;
        // The first packet of the second end may be a SYN as well: a simultaneous open.
        if !ends && self.state & SENT[from] != 0 {
            counts.stray_syns += 1;
        }
        ends
    }

    #[inline]
    fn see(&mut self, segment: &Segment, packet: u64) {
        self.seen = packet;
        self.last_ns = segment.time_ns;
        self.state |= SENT[segment.from.index()];
    }

    fn note_control(&mut self, rare: &mut RareState, segment: &Segment) {
        let from = segment.from.index();
        if segment.flags.contains(Flags::SYN) && self.state & SYN_SEEN[from] == 0 {
            self.state |= SYN_SEEN[from];
            rare.isn[from] = segment.seq;
        }
        if segment.flags.intersects(Flags::FIN | Flags::RST) {
            self.state |= CLOSED;
        }
    }
}
