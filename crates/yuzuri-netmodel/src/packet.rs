//! The packet properties that the models use.

use crate::Time;

/// A packet as the models see it. `Clone` is required only because a group-addressed frame is
/// delivered to several receivers.
pub trait Packet: Clone {
    /// Length of the IP packet plus its 14-byte Ethernet header, as on a TAP device.
    fn bytes(&self) -> u32;

    /// Hash of addresses, protocol and ports, by which FQ-CoDel separates flows.
    fn flow(&self) -> u64;

    /// Whether a radio sends the packet in the access category for voice (AC_VO): IP precedence 6
    /// or 7, as Linux maps DSCP to user priority (`cfg80211_classify8021d`). It then does not wait
    /// behind packets of best effort.
    fn is_voice(&self) -> bool {
        false
    }

    /// Whether the packet is ECN-capable (RFC 3168). CoDel marks such packets instead of dropping
    /// them.
    fn ecn_capable(&self) -> bool {
        false
    }

    /// Sets the Congestion Experienced codepoint (RFC 3168). Called only if
    /// [`ecn_capable`](Packet::ecn_capable) returns true.
    fn mark_ce(&mut self) {}
}

/// A delivered packet; `W` is the type of the model's nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival<P, W> {
    /// When the last bit arrived.
    pub at: Time,
    /// The node at which the packet arrived.
    pub at_node: W,
    /// The original sender. The access point relays between stations without becoming the sender.
    pub from: W,
    /// The packet.
    pub packet: P,
}
