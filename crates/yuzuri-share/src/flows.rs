//! A terminal's flows from the kernel's walk to the policy's words.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use yuzuri_kernel::steer::FlowState;
use yuzuri_policy::{Destination, FlowSeen, Moment};

/// Counters that wrap in the kernel, continued; and what a screen shows beside.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    known: HashMap<u64, Known>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Known {
    delivered: u64,
    lost: u64,
    retransmitted: u64,
    bytes_acked: u64,
    at: Moment,
    rate_bps: f64,
    seen: bool,
}

/// The next value of a counter whose lower half alone is seen.
fn widen(before: u64, now: u32) -> u64 {
    before + u64::from(now.wrapping_sub(before as u32))
}

impl Flows {
    /// Begins a walk.
    pub(crate) fn begin(&mut self) {
        self.known.values_mut().for_each(|known| known.seen = false);
    }

    /// One flow of the walk.
    pub(crate) fn see(&mut self, now: Moment, flow: &FlowState) -> FlowSeen {
        let first = Known {
            delivered: flow.delivered.into(),
            lost: flow.lost.into(),
            retransmitted: flow.total_retrans.into(),
            bytes_acked: flow.bytes_acked,
            at: now,
            ..Known::default()
        };
        let known = self.known.entry(flow.id.0).or_insert(first);
        known.delivered = widen(known.delivered, flow.delivered);
        known.lost = widen(known.lost, flow.lost);
        known.retransmitted = widen(known.retransmitted, flow.total_retrans);
        let elapsed = now.since(known.at);
        if elapsed >= Duration::from_millis(250) {
            let bits = flow.bytes_acked.saturating_sub(known.bytes_acked) as f64 * 8.0;
            known.rate_bps = bits / elapsed.as_secs_f64();
            (known.at, known.bytes_acked) = (now, flow.bytes_acked);
        }
        known.seen = true;
        FlowSeen {
            id: flow.id.0,
            destination: destination(flow.remote),
            mss_bytes: flow.mss,
            cwnd: flow.cwnd,
            in_flight: flow.in_flight(),
            srtt_us: flow.srtt_us,
            min_rtt_us: flow.min_rtt_us,
            delivered: known.delivered,
            bytes_acked: flow.bytes_acked,
            lost: known.lost,
            retransmitted: known.retransmitted,
            app_limited: flow.held_back_by_application(),
            // Half of the send buffer is the kernel's own.
            window_bytes: u64::from(flow.sndbuf_bytes / 2).min(flow.snd_wnd_bytes.into()),
        }
    }

    /// Forgets what the walk did not meet.
    pub(crate) fn end(&mut self) {
        self.known.retain(|_, known| known.seen);
    }

    /// Payload acknowledged between the last two walks, bits per second.
    pub(crate) fn rate_bps(&self, flow: u64) -> f64 {
        self.known.get(&flow).map_or(0.0, |known| known.rate_bps)
    }
}

/// Where a flow goes: FNV-1a (32 bits) over the family (4 or 6) and the first 3 bytes of an IPv4 address or the first 6 of an IPv6 one, so
/// the same at each terminal.
pub fn destination(remote: SocketAddr) -> Destination {
    let fnv = |bytes: &[u8]| {
        bytes.iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
    };
    Destination(match remote.ip().to_canonical() {
        IpAddr::V4(v4) => {
            let [a, b, c, _] = v4.octets();
            fnv(&[4, a, b, c])
        }
        IpAddr::V6(v6) => {
            let mut prefix = [6; 7];
            prefix[1..].copy_from_slice(&v6.octets()[..6]);
            fnv(&prefix)
        }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn counters_go_on_where_the_kernels_wrap() {
        assert_eq!(widen(5, 9), 9);
        assert_eq!(widen(u64::from(u32::MAX), 3), u64::from(u32::MAX) + 4);
        assert_eq!(widen(0x3_ffff_fff0, 0x10), 0x4_0000_0010);
    }

    #[test]
    fn destinations_are_networks() {
        let of = |text: &str| destination(text.parse().unwrap());
        assert_eq!(of("192.0.2.1:80"), of("192.0.2.200:443"));
        assert_eq!(of("192.0.2.1:80"), of("[::ffff:192.0.2.9]:80"));
        assert_ne!(of("192.0.2.1:80"), of("192.0.3.1:80"));
        assert_eq!(of("[2001:db8:1:2::1]:80"), of("[2001:db8:1:3::9]:80"));
        assert_ne!(of("[2001:db8:1::1]:80"), of("[2001:db8:2::1]:80"));
        // The value crosses the network: it is the same for ever.
        assert_eq!(of("192.0.2.1:80"), Destination(0xdbde_7d6b));
    }
}
