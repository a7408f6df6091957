//! What the medium has to know of a packet.

use crate::Time;

/// A packet as the medium sees it. `Clone` only because a group-addressed frame is delivered to many.
pub trait Packet: Clone {
    /// Length of the IP packet plus its 14-byte Ethernet header: what a TAP device carries.
    fn bytes(&self) -> u32;

    /// A hash of addresses, protocol and ports: the flow that FQ-CoDel keeps apart.
    fn flow(&self) -> u64;

    /// Whether the packet is marked ECN-capable (RFC 3168): CoDel then marks instead of dropping.
    fn ecn_capable(&self) -> bool {
        false
    }

    /// Sets "congestion experienced" (RFC 3168). Called only if [`ecn_capable`](Packet::ecn_capable).
    fn mark_ce(&mut self) {}
}

/// A packet that has come through; `W` names the places of the medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival<P, W> {
    /// When the last bit arrived.
    pub at: Time,
    /// Where.
    pub at_node: W,
    /// Who sent it first (the access point relays between stations without becoming the sender).
    pub from: W,
    /// The packet.
    pub packet: P,
}
