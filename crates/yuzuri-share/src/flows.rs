//! Converts the flows of a kernel walk to the policy's types.

use crate::enforcer::{IDLE_AFTER_WALKS, WalkCoverage};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use yuzuri_kernel::steer::FlowState;
use yuzuri_policy::{Destination, FlowSeen, Moment};

/// Extends the kernel's 32-bit counters to 64 bits, and keeps the values that only the display
/// needs.
///
/// A flow without activity is idle: walks no longer report it, and the policy need not examine
/// it. Its last reported state is kept until it becomes active or a full walk does not find it.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    known: HashMap<u64, PreviousCounters>,
    idle: BTreeMap<u64, IdleFlow>,
    /// The number of idle flows by local address.
    at: HashMap<IpAddr, IdleAt>,
    /// The times of the last walks, at most [`IDLE_AFTER_WALKS`].
    walks: VecDeque<Moment>,
    /// Flows that became idle at the current walk.
    newly_idle: u32,
    /// Walks since the last full walk.
    since_all: u32,
    /// Whether the number of idle flows disagrees with the kernel's.
    mismatch: bool,
    number: u64,
}

/// An idle flow.
#[derive(Debug, Clone)]
pub(crate) struct IdleFlow {
    /// Its last reported state.
    pub(crate) state: FlowState,
    known: PreviousCounters,
    /// The number of the walk that last reported it.
    walk: u64,
}

/// The number of idle flows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct IdleAt {
    pub(crate) all: u32,
    /// Of these, flows under our congestion control.
    pub(crate) ours: u32,
}

impl IdleAt {
    fn change(&mut self, state: &FlowState, by: i32) {
        self.all = self.all.saturating_add_signed(by);
        if state.control_state.is_ours() {
            self.ours = self.ours.saturating_add_signed(by);
        }
    }
}

/// Maximum number of walks between full walks ...
const ALL_AFTER: u32 = 120;
/// ... and the minimum, if idle flows have disappeared: a full walk costs as much as if no flow
/// were idle.
const MIN_WALKS_BETWEEN_ALL: u32 = 10;

#[derive(Debug, Clone, Copy, Default)]
struct PreviousCounters {
    delivered: u64,
    lost: u64,
    retransmitted: u64,
    bytes_acked: u64,
    at: Moment,
    rate_bps: f64,
    seen: bool,
}

/// Extends a 64-bit counter by its new lower 32 bits.
fn widen(before: u64, now: u32) -> u64 {
    before + u64::from(now.wrapping_sub(before as u32))
}

impl Flows {
    /// Whether the next walk should report all flows.
    pub(crate) fn want_all(&self) -> bool {
        self.since_all >= if self.mismatch { MIN_WALKS_BETWEEN_ALL } else { ALL_AFTER }
    }

    /// Starts processing a walk.
    pub(crate) fn begin(&mut self) {
        self.known.values_mut().for_each(|known| known.seen = false);
        self.newly_idle = 0;
        self.number += 1;
    }

    /// Marks a flow of the walk as idle.
    pub(crate) fn set_idle(&mut self, now: Moment, state: FlowState) {
        self.wake(&state);
        self.see(now, &state);
        let Some(mut known) = self.known.remove(&state.id.0) else { return };
        known.rate_bps = 0.0;
        self.newly_idle += 1;
        self.at.entry(state.local.ip()).or_default().change(&state, 1);
        self.idle.insert(state.id.0, IdleFlow { state, known, walk: self.number });
    }

    /// Marks a flow of the walk as active. If it was idle, returns its state during the rest.
    pub(crate) fn wake(&mut self, state: &FlowState) -> Option<FlowSeen> {
        let IdleFlow { state: before, known, .. } = self.idle.remove(&state.id.0)?;
        self.leave(&before);
        // Data delivered now was not delivered during the rest: measure the rate from the last
        // walk.
        let at = self.walks.back().copied().unwrap_or(known.at);
        self.known.insert(before.id.0, PreviousCounters { at, ..known });
        Some(seen(&before, &known))
    }

    fn leave(&mut self, state: &FlowState) {
        if let Some(at) = self.at.get_mut(&state.local.ip()) {
            at.change(state, -1);
            if at.all == 0 {
                self.at.remove(&state.local.ip());
            }
        }
    }

    /// The number of flows that became idle at the last walk.
    pub(crate) fn newly_idle(&self) -> usize {
        self.newly_idle as usize
    }

    /// The idle flows.
    pub(crate) fn idle_flows(&self) -> impl Iterator<Item = &IdleFlow> {
        self.idle.values()
    }

    /// The number of idle flows with a local address for which `has` is true.
    pub(crate) fn idle_at(&self, has: impl Fn(IpAddr) -> bool) -> IdleAt {
        let of = self.at.iter().filter(|(address, _)| has(**address));
        of.fold(IdleAt::default(), |sum, (_, at)| IdleAt { all: sum.all + at.all, ours: sum.ours + at.ours })
    }

    /// The times of the last walks. An idle flow had the same state at each.
    pub(crate) fn walks(&self) -> impl Iterator<Item = Moment> {
        self.walks.iter().copied()
    }

    /// Processes one flow of the walk.
    pub(crate) fn see(&mut self, now: Moment, flow: &FlowState) -> FlowSeen {
        let first = PreviousCounters {
            delivered: flow.delivered.into(),
            lost: flow.lost.into(),
            retransmitted: flow.total_retrans.into(),
            bytes_acked: flow.bytes_acked,
            at: now,
            ..PreviousCounters::default()
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
        seen(flow, known)
    }

    /// Ends a walk and removes the flows that no longer exist.
    pub(crate) fn end(&mut self, now: Moment, coverage: WalkCoverage) {
        self.known.retain(|_, known| known.seen);
        self.known.shrink_to(self.known.len() * 2);
        self.since_all = self.since_all.saturating_add(1);
        match coverage {
            WalkCoverage::Nothing => {}
            WalkCoverage::All => {
                let (number, at) = (self.number, &mut self.at);
                self.idle.retain(|_, idle| {
                    let met = idle.walk == number;
                    if !met && let Some(at) = at.get_mut(&idle.state.local.ip()) {
                        at.change(&idle.state, -1);
                    }
                    met
                });
                self.at.retain(|_, at| at.all > 0);
                (self.since_all, self.mismatch) = (0, false);
            }
            WalkCoverage::But(idle) => self.mismatch = (idle + self.newly_idle) as usize != self.idle.len(),
        }
        if self.walks.len() >= IDLE_AFTER_WALKS.into() {
            self.walks.pop_front();
        }
        self.walks.push_back(now);
    }

    /// Payload acknowledged between the last two walks, bit/s.
    pub(crate) fn rate_bps(&self, flow: u64) -> f64 {
        self.known.get(&flow).map_or(0.0, |known| known.rate_bps)
    }
}

impl IdleFlow {
    /// Segments retransmitted since the start of the connection.
    pub(crate) fn retransmitted(&self) -> u64 {
        self.known.retransmitted
    }
}

fn seen(flow: &FlowState, known: &PreviousCounters) -> FlowSeen {
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
        app_limited: flow.is_application_limited(),
        // The kernel uses half of the send buffer for its own overhead.
        window_bytes: u64::from(flow.sndbuf_bytes / 2).min(flow.snd_wnd_bytes.into()),
    }
}

/// The destination of a flow: FNV-1a (32 bits) over the family (4 or 6) and the first 3 bytes of an
/// IPv4 address or the first 6 bytes of an IPv6 address. It is the same on every terminal.
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
    fn counters_continue_where_the_kernels_wrap() {
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
        // The value is sent over the network, so that it must never change.
        assert_eq!(of("192.0.2.1:80"), Destination(0xdbde_7d6b));
    }
}
