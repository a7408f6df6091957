//! The gate's state of a connection.

use crate::FlowKey;
use crate::raw;
use yuzuri_kernel::clock::{KernelClock, mono_ns};

/// How the gate treats a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionState {
    /// A SYN was seen, and no answer to it yet: the connection is not modified.
    SynSeen,
    /// The handshake was seen: it can be bounded.
    Established,
    /// Never modified: MPTCP, a signed header (MD5, TCP-AO), or an ambiguous handshake.
    NeverModified,
    /// A reset was seen.
    Reset,
}

/// One part of the round-trip time, measured at the gate since the handshake.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RttPart {
    /// Number of samples.
    pub samples: u32,
    /// The minimum, microseconds; 0 without a sample.
    pub min_us: u32,
    /// The sum of all samples, microseconds.
    pub sum_us: u64,
}

impl RttPart {
    /// The mean, microseconds; `None` without a sample.
    pub fn mean_us(&self) -> Option<u64> {
        self.sum_us.checked_div(u64::from(self.samples))
    }

    /// The measurements since an earlier reading: the minimum stays that of the whole connection.
    #[must_use]
    pub fn since(&self, earlier: &RttPart) -> RttPart {
        RttPart {
            samples: self.samples.wrapping_sub(earlier.samples),
            min_us: self.min_us,
            sum_us: self.sum_us.saturating_sub(earlier.sum_us),
        }
    }
}

/// The amount of traffic without a window that had arrived at a given time: as much as had passed
/// before a segment that was acknowledged at that time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ArrivedTraffic {
    /// When the segment was acknowledged, nanoseconds of the process's `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// Bytes that had passed before it, of all stations, IP packets.
    pub other_bytes: u64,
}

/// The observations of a connection so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowSeen {
    /// The connection.
    pub key: FlowKey,
    /// How the gate treats it.
    pub state: ConnectionState,
    /// When its SYN was seen, nanoseconds of the process's `CLOCK_MONOTONIC`.
    pub first_ns: u64,
    /// The time of its last segment.
    pub last_ns: u64,
    /// Payload of the station that the server acknowledged, bytes.
    pub acked_bytes: u64,
    /// Payload that came from the station, repetitions included, bytes.
    pub up_bytes: u64,
    /// Packets with payload from the station; the kernel merges segments into packets (GRO).
    pub up_segments: u64,
    /// Of these, segments without new data: retransmissions, or delayed on the air.
    pub repeated_segments: u64,
    /// New payload beyond the highest right edge that the gate saw advertised, bytes: the station
    /// ignores its window, or ACKs reach it without passing the gate.
    pub beyond_edge_bytes: u64,
    /// ACKs whose window was lowered.
    pub lowered: u64,
    /// ACKs whose window was not changed.
    pub passed: u64,
    /// ACKs that were dropped.
    pub thinned: u64,
    /// Bytes that dropped ACKs acknowledged, times how long the station waited for another ACK of
    /// them, byte microseconds. Divided by `acked_bytes`, it is the mean wait of a byte, which is a
    /// part of the station's round-trip time.
    pub waited_byte_us: u64,
    /// Round-trip time between the gate and the server.
    pub wire: RttPart,
    /// Between the gate and the station, the station's own queue included.
    pub air: RttPart,
    /// The traffic without a window that had arrived when the last measurement towards the server
    /// ended; `None`: there was none.
    pub arrived: Option<ArrivedTraffic>,
    /// Payload that passed up and is not acknowledged, bytes.
    pub in_flight_bytes: u32,
    /// The window that the station was last advertised, bytes.
    pub advertised_bytes: u32,
    /// The window offered by the server in that segment, bytes.
    pub offered_bytes: u32,
    /// The minimum unused part of the station's window in the last 0.5 to 1 s, bytes; `None`: it
    /// sent nothing.
    pub room_bytes: Option<u32>,
    /// Total time in which the station had no unacknowledged data beyond the gate, nanoseconds,
    /// counted up to its next data.
    pub quiet_ns: u64,
    /// The number of such intervals.
    pub quiets: u32,
    /// The start of the current pause, nanoseconds of the process's `CLOCK_MONOTONIC`.
    pub quiet_since_ns: Option<u64>,
    /// The station's hardware address, or that of a device in front of it.
    pub mac: [u8; 6],
    /// The highest right edge that it was advertised, a sequence number.
    pub edge: Option<u32>,
    /// The scale of the windows that it is advertised (RFC 7323).
    pub scale: u8,
    /// The largest segment that the server accepts, bytes, as announced by its MSS option.
    pub mss: Option<u16>,
}

impl FlowSeen {
    /// The state of a connection of which only a SYN was seen, at this time.
    pub fn opening(key: FlowKey, mac: [u8; 6], first_ns: u64) -> FlowSeen {
        FlowSeen {
            key,
            state: ConnectionState::SynSeen,
            first_ns,
            last_ns: first_ns,
            acked_bytes: 0,
            up_bytes: 0,
            up_segments: 0,
            repeated_segments: 0,
            beyond_edge_bytes: 0,
            lowered: 0,
            passed: 0,
            thinned: 0,
            waited_byte_us: 0,
            wire: RttPart::default(),
            air: RttPart::default(),
            arrived: None,
            in_flight_bytes: 0,
            advertised_bytes: 0,
            offered_bytes: 0,
            room_bytes: None,
            quiet_ns: 0,
            quiets: 0,
            quiet_since_ns: None,
            mac,
            edge: None,
            scale: 0,
            mss: None,
        }
    }

    pub(crate) fn of(key: FlowKey, raw: &raw::flow, clock: KernelClock) -> FlowSeen {
        let state = match raw.flags {
            flags if flags & raw::FLOW_CLOSED != 0 => ConnectionState::Reset,
            flags if flags & raw::FLOW_NEVER_MODIFIED != 0 => ConnectionState::NeverModified,
            flags if flags & raw::FLOW_KNOWN != 0 => ConnectionState::Established,
            _ => ConnectionState::SynSeen,
        };
        let ahead = raw.up_end.wrapping_sub(raw.ack);
        let has_data = raw.flags & raw::FLOW_DATA != 0 && ahead < 1 << 31;
        FlowSeen {
            key,
            state,
            first_ns: clock.ours(raw.first_ns),
            last_ns: clock.ours(raw.last_ns),
            acked_bytes: raw.acked_bytes,
            up_bytes: raw.up_bytes,
            up_segments: raw.up_segments,
            repeated_segments: raw.repeated_segments,
            beyond_edge_bytes: raw.beyond_edge,
            lowered: raw.lowered,
            passed: raw.passed,
            thinned: raw.thinned,
            waited_byte_us: raw.waited_byte_us,
            wire: RttPart { samples: raw.wire_samples, min_us: raw.wire_min_us, sum_us: raw.wire_sum_us },
            air: RttPart { samples: raw.air_samples, min_us: raw.air_min_us, sum_us: raw.air_sum_us },
            arrived: (raw.arrived_ns != 0).then(|| ArrivedTraffic {
                at_ns: clock.ours(raw.arrived_ns),
                other_bytes: raw.arrived_other,
            }),
            in_flight_bytes: if has_data { ahead } else { 0 },
            advertised_bytes: raw.advertised,
            offered_bytes: raw.offered,
            room_bytes: room(raw, clock.kernels(mono_ns())),
            quiet_ns: raw.quiet_sum_ns,
            quiets: raw.quiets,
            quiet_since_ns: (raw.quiet_ns != 0).then(|| clock.ours(raw.quiet_ns)),
            mac: raw.mac,
            edge: (raw.right_edge & raw::EDGE_KNOWN != 0).then_some(raw.right_edge as u32),
            scale: raw.scale,
            mss: (raw.mss != 0).then_some(raw.mss),
        }
    }

    /// The mean round-trip time, both parts together, microseconds; `None` before both were
    /// measured.
    pub fn rtt_us(&self) -> Option<u64> {
        Some(self.wire.mean_us()? + self.air.mean_us()?)
    }
}

/// The minimum room of the last two periods, unless they ended more than one period ago.
fn room(raw: &raw::flow, now_ns: u64) -> Option<u32> {
    let age = ((now_ns >> raw::PERIOD_SHIFT) as u32).wrapping_sub(raw.room_period);
    let room = match age {
        0 => raw.room.min(raw.room_before),
        1 => raw.room,
        _ => raw::ROOM_UNKNOWN,
    };
    (room != raw::ROOM_UNKNOWN).then_some(room)
}

/// A station's traffic without a window: QUIC and other UDP, tunnels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OtherTraffic {
    /// The station's hardware address.
    pub mac: [u8; 6],
    /// The time of its last packet, nanoseconds of the process's `CLOCK_MONOTONIC`.
    pub last_ns: u64,
    /// IP packets, headers included, bytes.
    pub bytes: u64,
    /// Packets, as the kernel merged them.
    pub packets: u64,
    /// Of these, packets that passed with a congestion mark (ECN).
    pub marked: u64,
    /// Packets that were dropped.
    pub dropped: u64,
    /// Bytes of all stations that had passed when its last packet passed, included.
    pub all_passed: u64,
}

impl OtherTraffic {
    pub(crate) fn of(mac: &[u8], raw: &raw::bucket, clock: KernelClock) -> Option<OtherTraffic> {
        Some(OtherTraffic {
            mac: *mac.first_chunk()?,
            last_ns: clock.ours(raw.last_ns),
            bytes: raw.bytes,
            packets: raw.packets,
            marked: raw.marked,
            dropped: raw.dropped,
            all_passed: raw.all_passed,
        })
    }
}

/// The programs' counters since they were loaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// TCP segments towards stations.
    pub down: u64,
    /// TCP segments from stations.
    pub up: u64,
    /// Windows lowered.
    pub lowered: u64,
    /// Segments towards stations of connections whose handshake was not observed: not modified.
    pub unknown_handshake: u64,
    /// Segments towards stations of connections that are never modified.
    pub never_modified: u64,
    /// Windows that could not be written: the packet passed unchanged.
    pub failed: u64,
    /// ACKs dropped as redundant.
    pub thinned: u64,
    /// Packets from stations without a TCP window.
    pub other: u64,
    /// Of these, ECN-marked ones.
    pub marked: u64,
    /// Of these, dropped ones.
    pub dropped: u64,
    /// All frames from stations, bytes.
    pub bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_direction_without_samples_has_no_mean() {
        assert_eq!(RttPart::default().mean_us(), None);
        let earlier = RttPart { samples: 2, min_us: 10, sum_us: 30 };
        let now = RttPart { samples: 4, min_us: 8, sum_us: 70 };
        assert_eq!(now.since(&earlier).mean_us(), Some(20));
        assert_eq!(now.since(&now).mean_us(), None);
    }
}
