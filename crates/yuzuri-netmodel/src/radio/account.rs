//! Statistics of the cell, per node.

use super::backlog::BacklogDrops;
use crate::Time;
use serde::{Deserialize, Serialize};

/// Channel time of a node by purpose, ns. A response and its SIFS are charged to the node that sent
/// the frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Airtime {
    /// Data PPDUs of which at least one MPDU was received.
    pub data_ns: u64,
    /// SIFS and Ack or BlockAck.
    pub response_ns: u64,
    /// RTS, CTS and the SIFS after each.
    pub protection_ns: u64,
    /// BlockAckReq.
    pub block_ack_req_ns: u64,
    /// Group-addressed frames.
    pub group_ns: u64,
    /// PPDUs or RTS frames sent without collision of which nothing was received.
    pub failed_ns: u64,
    /// Share of collisions: while k nodes transmit simultaneously, each is charged 1/k of the time.
    pub collision_ns: u64,
}

impl Airtime {
    /// Sum over all purposes, ns.
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

/// Length of a node's queue, packets. Excludes packets that the MAC has dequeued for transmission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueLength {
    /// Current length.
    pub now: u64,
    /// Maximum length.
    pub max: u64,
    packet_ns: u128,
    since_ns: u64,
}

impl QueueLength {
    /// Time average of the length from the start to `now`.
    pub fn time_mean(&self, now: Time) -> f64 {
        let waiting = u128::from(self.now) * u128::from(now.as_nanos().saturating_sub(self.since_ns));
        if now == Time::ZERO { 0.0 } else { (self.packet_ns + waiting) as f64 / now.as_nanos() as f64 }
    }

    /// Integral of the length from the start to `now`, packet nanoseconds. The difference of two
    /// readings divided by the time between them is the average over that time.
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

/// Dropped packets by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drops {
    /// The queue was full.
    pub overflow: u64,
    /// CoDel dropped the packet because of its sojourn time.
    pub aqm: u64,
    /// Discarded after [`retry_limit`](super::CellConfig::retry_limit) attempts.
    pub retry: u64,
    /// The sender or receiver is not, or no longer, associated.
    pub departed: u64,
}

impl Drops {
    /// Sum over all causes.
    pub fn total(&self) -> u64 {
        self.overflow + self.aqm + self.retry + self.departed
    }
}

/// Group-addressed frames, counted separately because one transmission is delivered to several
/// stations. Only the access point sends them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupAccount {
    /// Packets queued, own and relayed: `offered = sent + dropped + queued`.
    pub offered: u64,
    /// Packets transmitted.
    pub sent: u64,
    /// Packets dropped by the queue.
    pub dropped: u64,
    /// Packets queued or in transmission.
    pub queued: u64,
    /// Copies received by stations.
    pub copies: u64,
    /// Copies lost to errors or collisions. Group-addressed frames are neither acknowledged nor
    /// retransmitted.
    pub copies_lost: u64,
}

/// Statistics of one node. For unicast packets `offered = sent + drops.total() + queue + in_mac`,
/// where `queue` excludes group-addressed packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeAccount {
    /// Channel time.
    pub airtime: Airtime,
    /// Queue length, including group-addressed packets.
    pub queue: QueueLength,
    /// Unicast packets queued, own and relayed.
    pub offered: u64,
    /// Unicast packets that the receiver of this hop delivered in order.
    pub sent: u64,
    /// Bytes in `sent`, as defined by [`Packet::bytes`](crate::Packet::bytes).
    pub sent_bytes: u64,
    /// Dropped unicast packets.
    pub drops: Drops,
    /// Packets that CoDel marked Congestion Experienced.
    pub marked: u64,
    /// Packets dequeued by the MAC: in transmission, waiting for a retransmission, or held by the
    /// receiver for reordering.
    pub in_mac: u64,
    /// Number of channel accesses, including those that collided.
    pub accesses: u64,
    /// Unicast data PPDUs sent, including collided ones.
    pub frames: u64,
    /// MPDUs in `frames`.
    pub mpdus: u64,
    /// MPDUs in `frames` that were retransmissions.
    pub retries: u64,
    /// Accesses that collided.
    pub collisions: u64,
    /// Accesses without collision that received no response.
    pub unanswered: u64,
    /// Packets delivered to the node, including copies of group-addressed packets and packets to be
    /// relayed.
    pub received: u64,
    /// Bytes in `received`.
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

/// Time without transmission, ns: interframe spaces, back-off and absence of traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleTime {
    /// Idle time while at least one node contends for the channel.
    pub contention_ns: u64,
    /// Idle time while no node has anything to send.
    pub empty_ns: u64,
}

/// Statistics of the cell from the start to `at`. The airtime of all nodes and the idle time add up
/// to `at`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CellAccount {
    /// The time up to which the cell was advanced, ns.
    pub at_ns: u64,
    /// The access point.
    pub ap: NodeAccount,
    /// The stations by number, including those that have left.
    pub stations: Vec<NodeAccount>,
    /// Time without transmission.
    pub idle: IdleTime,
    /// Collisions, each counted once regardless of the number of nodes involved.
    pub collisions: u64,
    /// Number of times the channel became busy, by a collision or a single transmission.
    pub busy_periods: u64,
    /// Packets from stations that never existed. They are discarded and appear in no node's
    /// statistics.
    pub unknown_senders: u64,
}

impl CellAccount {
    /// The time up to which the cell was advanced.
    pub fn at(&self) -> Time {
        Time::from_nanos(self.at_ns)
    }

    /// Statistics of one node; `None` for a station that never existed.
    pub fn node(&self, node: super::Node) -> Option<&NodeAccount> {
        match node {
            super::Node::Ap => Some(&self.ap),
            super::Node::Station(number) => self.stations.get(usize::from(number)),
        }
    }

    /// Statistics of all nodes, the access point first.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeAccount> {
        std::iter::once(&self.ap).chain(&self.stations)
    }
}
