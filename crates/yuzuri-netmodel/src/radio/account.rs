//! What happened in the cell, node by node.

use super::backlog::BacklogDrops;
use crate::Time;
use serde::{Deserialize, Serialize};

/// Time on the channel by what it was spent on, ns. A response and its SIFS are charged to the node whose frame it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Airtime {
    /// PPDUs with data of which at least one MPDU was received.
    pub data_ns: u64,
    /// SIFS and Ack or BlockAck.
    pub response_ns: u64,
    /// RTS, CTS and the SIFS behind each.
    pub protection_ns: u64,
    /// BlockAckReq.
    pub block_ack_req_ns: u64,
    /// Group-addressed frames.
    pub group_ns: u64,
    /// PPDUs (or RTS) sent alone of which nothing was received.
    pub failed_ns: u64,
    /// Share of collisions: while k nodes send at once, each bears one kth.
    pub collision_ns: u64,
}

impl Airtime {
    /// All of it.
    pub fn total_ns(&self) -> u64 {
        self.data_ns
            + self.response_ns
            + self.protection_ns
            + self.block_ack_req_ns
            + self.group_ns
            + self.failed_ns
            + self.collision_ns
    }
}

/// Packets that wait in a node's queue. Not counted: those the MAC has taken out to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueLength {
    /// Now.
    pub now: u64,
    /// The most there were.
    pub max: u64,
    packet_ns: u128,
    since_ns: u64,
}

impl QueueLength {
    /// Mean from the start to `now`.
    pub fn time_mean(&self, now: Time) -> f64 {
        let waiting = u128::from(self.now) * u128::from(now.as_nanos().saturating_sub(self.since_ns));
        if now == Time::ZERO { 0.0 } else { (self.packet_ns + waiting) as f64 / now.as_nanos() as f64 }
    }

    /// Packets times nanoseconds from the start to `now`: the difference of two readings, over the time between them, is the
    /// mean of that time.
    pub fn packet_ns(&self, now: Time) -> u128 {
        self.packet_ns + u128::from(self.now) * u128::from(now.as_nanos().saturating_sub(self.since_ns))
    }

    pub(super) fn set(&mut self, now: Time, packets: usize) {
        self.packet_ns = self.packet_ns(now);
        self.since_ns = now.as_nanos().max(self.since_ns);
        self.now = packets as u64;
        self.max = self.max.max(self.now);
    }
}

/// Packets that did not come through, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drops {
    /// The queue was full.
    pub overflow: u64,
    /// CoDel: it waited too long.
    pub aqm: u64,
    /// Given up after [`retry_limit`](super::CellConfig::retry_limit) attempts.
    pub retry: u64,
    /// Its sender or receiver is not (or no longer) associated.
    pub departed: u64,
}

impl Drops {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.overflow + self.aqm + self.retry + self.departed
    }
}

/// Group-addressed frames, counted apart because one that is sent is delivered to many. Only the access point sends them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupAccount {
    /// Packets put into the queue, own and relayed: `offered = sent + dropped + queued`.
    pub offered: u64,
    /// Sent on the channel.
    pub sent: u64,
    /// Dropped by the queue.
    pub dropped: u64,
    /// Waiting or being sent now.
    pub queued: u64,
    /// Copies received by stations.
    pub copies: u64,
    /// Copies lost to errors or collisions: nobody acknowledges, nobody retries.
    pub copies_lost: u64,
}

/// What one node did. For packets to one receiver `offered = sent + drops.total() + queue + in_mac`, where the queue
/// does not count group-addressed ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeAccount {
    /// Time on the channel.
    pub airtime: Airtime,
    /// The queue, group-addressed packets included.
    pub queue: QueueLength,
    /// Packets to one receiver put into the queue, own and relayed.
    pub offered: u64,
    /// Packets that the receiver at the other end of this hop has handed on.
    pub sent: u64,
    /// Their bytes, as [`Packet::bytes`](crate::Packet::bytes).
    pub sent_bytes: u64,
    /// Packets that did not come through.
    pub drops: Drops,
    /// Packets marked "congestion experienced" by CoDel.
    pub marked: u64,
    /// Packets taken out of the queue, being sent, waiting for another attempt, or held at the receiver to keep order.
    pub in_mac: u64,
    /// Times the node got (or took) the channel.
    pub accesses: u64,
    /// PPDUs with data to one receiver sent, collided ones included.
    pub frames: u64,
    /// MPDUs in them.
    pub mpdus: u64,
    /// MPDUs in them that were sent before.
    pub retries: u64,
    /// Accesses that collided.
    pub collisions: u64,
    /// Accesses without collision that got no response.
    pub unanswered: u64,
    /// Packets delivered to the node, copies of group-addressed ones and those it relays included.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Group-addressed frames.
    pub group: GroupAccount,
}

impl NodeAccount {
    pub(super) fn count_drops(&mut self, drops: &BacklogDrops) {
        self.drops.overflow += drops.one.overflow;
        self.drops.aqm += drops.one.aqm;
        self.marked += drops.one.marked + drops.group.marked;
        let group = drops.group.overflow + drops.group.aqm;
        self.group.dropped += group;
        self.group.queued -= group;
    }
}

/// Time nobody sends, ns: inter-frame spaces, back-off, and nothing to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleTime {
    /// While at least one node waits for its turn.
    pub contention_ns: u64,
    /// While nobody has anything to send.
    pub empty_ns: u64,
}

/// What happened in the cell from the start to `at`: the airtime of all nodes plus the idle time is `at`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CellAccount {
    /// The time up to which the cell was advanced, ns.
    pub at_ns: u64,
    /// The access point.
    pub ap: NodeAccount,
    /// The stations by number, also those that left.
    pub stations: Vec<NodeAccount>,
    /// Time nobody sent.
    pub idle: IdleTime,
    /// Collisions, each counted once, whatever the number of nodes in it.
    pub collisions: u64,
    /// Times the channel became busy: collisions and frames sent alone.
    pub busy_periods: u64,
    /// Packets handed in for stations that never were: refused, and in no node's account.
    pub unknown_senders: u64,
}

impl CellAccount {
    /// The time up to which the cell was advanced.
    pub fn at(&self) -> Time {
        Time::from_nanos(self.at_ns)
    }

    /// One node's account; `None` for a station that never was.
    pub fn node(&self, node: super::Node) -> Option<&NodeAccount> {
        match node {
            super::Node::Ap => Some(&self.ap),
            super::Node::Station(number) => self.stations.get(usize::from(number)),
        }
    }

    /// All nodes, the access point first.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeAccount> {
        std::iter::once(&self.ap).chain(&self.stations)
    }
}
