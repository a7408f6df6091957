//! Converts the gate's view of a connection to the policy's terms: as the station's own kernel
//! would report it.

use crate::flows::destination;
use std::collections::HashMap;
use yuzuri_gate::{ConnectionState, FlowKey, FlowSeen as Gated, RttPart};
use yuzuri_policy::FlowSeen;

/// Payload of a full segment if the server did not announce its MSS, bytes (Ethernet, IPv4, time
/// stamps).
const USUAL_MSS: u32 = 1448;
/// Timestamps in each segment, bytes.
const STAMPS: u32 = 12;
/// If fewer than this many segments of the window are unused, beyond those that ACKs in transit
/// admit, the window limits the station.
const ROOM_SEGMENTS: u64 = 3;
/// If nothing was in flight for this fraction of a tick, beyond the time that an ACK takes to the
/// station and data takes back, the application limits the station.
const QUIET: f64 = 0.25;

/// If a bounded station uses less than this fraction of its window, and its flight neither grows
/// nor loses segments for this many round trips and at least this long, the application limits it:
/// a congestion window would have grown up to the bound.
const MAX_UNUSED_PART: f64 = 0.6;
const MIN_UNUSED_ROUND_TRIPS: u64 = 8;
const MIN_UNUSED_NS: u64 = 2_000_000_000;
/// Growth means a flight larger by this factor; beyond it, the application is no longer the limit.
const GROWS: f64 = 1.1;
const GROWS_AGAIN: f64 = 1.25;

/// Since when a station leaves its window unused.
#[derive(Debug, Clone, Copy)]
struct Unused {
    since_ns: u64,
    flight: u64,
    repeated: u64,
}

/// A connection over time.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionHistory {
    pub(crate) id: u64,
    /// Its state at the last tick.
    last: Gated,
    observed_ns: u64,
    wire_us: u64,
    air_us: u64,
    /// How long the server's ACKs waited at the gate for later ones, mean over the bytes that they
    /// acknowledge, µs.
    wait_us: u64,
    unused: Option<Unused>,
    /// Whether new data of the last tick were beyond the window; `None`: there were none.
    is_beyond: Option<bool>,
    /// Its flight, bytes, when its application was found to be the limit.
    by_application: Option<u64>,
}

/// All connections of an access point, by key.
#[derive(Debug, Default)]
pub(crate) struct View {
    flows: HashMap<FlowKey, ConnectionHistory>,
    last_id: u64,
}

impl View {
    /// Processes a connection at `now_ns` of `CLOCK_MONOTONIC`; `None` if it cannot be bounded.
    pub(crate) fn observe(&mut self, now_ns: u64, seen: &Gated) -> Option<FlowSeen> {
        if seen.state != ConnectionState::Established {
            return None;
        }
        let last_id = &mut self.last_id;
        let mut next = || {
            *last_id += 1;
            ConnectionHistory::beginning(*last_id, seen)
        };
        let known = self.flows.entry(seen.key).or_insert_with(&mut next);
        // A new connection between the same endpoints.
        if seen.first_ns != known.last.first_ns {
            *known = next();
        }
        known.wire_us = seen.wire.since(&known.last.wire).mean_us().unwrap_or(known.wire_us);
        known.air_us = seen.air.since(&known.last.air).mean_us().unwrap_or(known.air_us);
        let acked_bytes = seen.acked_bytes.saturating_sub(known.last.acked_bytes);
        let waited_byte_us = seen.waited_byte_us.saturating_sub(known.last.waited_byte_us);
        known.wait_us = waited_byte_us.checked_div(acked_bytes).unwrap_or(known.wait_us);
        let flow = known.flow(now_ns, seen);
        known.last = seen.clone();
        known.observed_ns = now_ns;
        Some(flow)
    }

    /// A connection's mean round-trip times at the last tick, to the station and to the server, µs.
    pub(crate) fn halves_us(&self, key: &FlowKey) -> [u64; 2] {
        self.flows.get(key).map_or([0, 0], |known| [known.air_us, known.wire_us])
    }

    /// Whether a connection's new data of the last tick were beyond its window; `None`: there were
    /// none.
    pub(crate) fn is_beyond_window(&self, key: &FlowKey) -> Option<bool> {
        self.flows.get(key).and_then(|known| known.is_beyond)
    }

    /// How long a connection's ACKs waited at the gate at the last tick, mean over the bytes that
    /// they acknowledge, µs.
    pub(crate) fn wait_us(&self, key: &FlowKey) -> u64 {
        self.flows.get(key).map_or(0, |known| known.wait_us)
    }

    /// Forgets connections that the gate no longer tracks.
    pub(crate) fn retain_flows(&mut self, mut is_there: impl FnMut(&FlowKey) -> bool) {
        self.flows.retain(|key, _| is_there(key));
    }
}

/// Payload of a full segment of a connection, bytes.
pub(crate) fn segment_bytes(seen: &Gated) -> u32 {
    seen.mss.map_or(USUAL_MSS, |mss| u32::from(mss).saturating_sub(STAMPS).max(256))
}

impl ConnectionHistory {
    /// The state before its first byte.
    fn beginning(id: u64, seen: &Gated) -> ConnectionHistory {
        let last = Gated {
            wire: RttPart::default(),
            air: RttPart::default(),
            acked_bytes: 0,
            up_bytes: 0,
            beyond_edge_bytes: 0,
            waited_byte_us: 0,
            quiet_ns: 0,
            quiets: 0,
            ..seen.clone()
        };
        ConnectionHistory {
            id,
            last,
            observed_ns: seen.first_ns,
            wire_us: 0,
            air_us: 0,
            wait_us: 0,
            unused: None,
            is_beyond: None,
            by_application: None,
        }
    }

    /// The station's mean round-trip time: to the server and to the station, and the waits of ACKs
    /// in between, µs.
    fn rtt_us(&self) -> u64 {
        self.wire_us + self.air_us + self.wait_us
    }

    fn flow(&mut self, now_ns: u64, seen: &Gated) -> FlowSeen {
        let mss = segment_bytes(seen);
        let seconds = now_ns.saturating_sub(self.observed_ns) as f64 / 1e9;
        let acked = seen.acked_bytes.saturating_sub(self.last.acked_bytes);
        let rate = if seconds > 0.0 { acked as f64 / seconds } else { 0.0 };
        // The mean flight: data passed the gate, and data on the air.
        let rtt_us = self.rtt_us();
        let flight =
            if rtt_us > 0 { (rate * rtt_us as f64 / 1e6) as u64 } else { seen.in_flight_bytes.into() };
        // While ACKs that move the window are in transit, the station cannot use it.
        let on_its_way = (rate * self.air_us as f64 / 1e6) as u64 + ROOM_SEGMENTS * u64::from(mss);
        let has_new_data = seen.up_bytes > self.last.up_bytes;
        self.is_beyond = has_new_data.then_some(seen.beyond_edge_bytes > self.last.beyond_edge_bytes);
        let is_beyond = self.is_beyond == Some(true);
        let is_bounded = seen.advertised_bytes < seen.offered_bytes && !is_beyond;
        let is_full = is_bounded && seen.room_bytes.is_some_and(|room| u64::from(room) <= on_its_way);
        // If the window is the limit, it is the bound on the flight; otherwise only the flight is
        // known, which the window does not limit if the station sends beyond it.
        let advertised = u64::from(seen.advertised_bytes);
        let window = match (is_full, is_beyond) {
            (true, _) => advertised,
            (false, true) => flight,
            (false, false) => flight.min(advertised),
        };
        let segments = |bytes: u64| u32::try_from(bytes.div_ceil(mss.into())).unwrap_or(u32::MAX);
        let has_rtt = seen.wire.samples > 0 && seen.air.samples > 0;
        let min_rtt_us = if has_rtt { seen.wire.min_us.saturating_add(seen.air.min_us) } else { 0 };
        let srtt_us = u32::try_from(rtt_us).unwrap_or(u32::MAX).max(min_rtt_us);
        let per_segment = seen.up_bytes as f64 / (seen.up_segments.max(1) as f64 * f64::from(mss));
        let lost = (seen.repeated_segments as f64 * per_segment.max(1.0)) as u64;
        FlowSeen {
            id: self.id,
            destination: destination(seen.key.server()),
            mss_bytes: mss,
            cwnd: segments(window),
            in_flight: segments(flight.min(window)),
            srtt_us: if has_rtt { srtt_us } else { 0 },
            min_rtt_us,
            // Data that a server acknowledges and the station did not send is not delivered.
            delivered: seen.acked_bytes.min(seen.up_bytes) / u64::from(mss),
            bytes_acked: seen.acked_bytes.min(seen.up_bytes),
            lost,
            retransmitted: lost,
            app_limited: self.is_silent(now_ns, seen)
                || self.leaves_window(now_ns, seen, flight, is_bounded && !is_full),
            window_bytes: u64::from(seen.offered_bytes),
        }
    }

    /// Whether the station has nothing in flight for much of the time.
    fn is_silent(&self, now_ns: u64, seen: &Gated) -> bool {
        let observed_ns = now_ns.saturating_sub(self.observed_ns);
        // The time between an ACK of all data and the next data always includes the way to the
        // station and back.
        let air_ns = self.air_us * 1000;
        let quiets = u64::from(seen.quiets.wrapping_sub(self.last.quiets));
        let ended_ns = seen.quiet_ns.saturating_sub(self.last.quiet_ns).saturating_sub(quiets * air_ns);
        let going_on_ns = seen.quiet_since_ns.map_or(0, |since| now_ns.saturating_sub(since));
        let quiet_ns = ended_ns + going_on_ns.saturating_sub(air_ns).min(observed_ns);
        quiet_ns as f64 > QUIET * observed_ns as f64
    }

    /// Whether the station's application sends less than its window allows. `is_open`: the station
    /// is bounded, and the window is not the limit.
    fn leaves_window(&mut self, now_ns: u64, seen: &Gated, flight: u64, is_open: bool) -> bool {
        let more_than = |factor: f64, before: u64| flight as f64 > factor * before as f64;
        if let Some(before) = self.by_application {
            let is_over =
                more_than(GROWS_AGAIN, before) && flight > before + 2 * u64::from(segment_bytes(seen));
            if !is_over {
                return true;
            }
            self.by_application = None;
        }
        if !is_open || flight as f64 > MAX_UNUSED_PART * f64::from(seen.advertised_bytes) {
            self.unused = None;
            return false;
        }
        let unused_ns = MIN_UNUSED_NS.max(MIN_UNUSED_ROUND_TRIPS * 1000 * self.rtt_us());
        match self.unused {
            Some(since) if seen.repeated_segments == since.repeated && !more_than(GROWS, since.flight) => {
                if now_ns.saturating_sub(since.since_ns) >= unused_ns {
                    (self.by_application, self.unused) = (Some(flight.max(since.flight)), None);
                    return true;
                }
            }
            _ => {
                let repeated = seen.repeated_segments;
                self.unused = Some(Unused { since_ns: now_ns, flight, repeated });
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn waits_of_acks_at_the_gate_are_a_part_of_the_round_trip_time() {
        let key = FlowKey::new("10.0.0.2:40000".parse().unwrap(), "192.0.2.1:443".parse().unwrap()).unwrap();
        let mut seen = Gated {
            state: ConnectionState::Established,
            wire: RttPart { samples: 10, min_us: 28_000, sum_us: 300_000 },
            air: RttPart { samples: 10, min_us: 3_000, sum_us: 40_000 },
            acked_bytes: 100_000,
            up_bytes: 100_000,
            waited_byte_us: 100_000 * 5_000,
            ..Gated::opening(key, [2, 0, 0, 0, 0, 1], 1)
        };
        let mut view = View::default();
        let mut rtt_us = |now_ns: u64, seen: &Gated| {
            let flow = view.observe(now_ns, seen).unwrap();
            (flow.srtt_us, flow.min_rtt_us)
        };
        assert_eq!(rtt_us(500_000_000, &seen), (39_000, 31_000));
        assert_eq!(rtt_us(1_000_000_000, &seen), (39_000, 31_000), "nothing new");
        (seen.acked_bytes, seen.up_bytes) = (300_000, 300_000);
        assert_eq!(rtt_us(1_500_000_000, &seen), (34_000, 31_000), "no ACK was dropped");
    }
}
