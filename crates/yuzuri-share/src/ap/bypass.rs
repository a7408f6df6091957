//! Detects traffic that bypasses the gate: hardware that forwards it shows it to no program, and
//! may be enabled at any time.

use super::doctor;

/// The period of a decision, seconds, ...
const SPAN_S: f64 = 10.0;
/// ... if devices received at least this much in it, bit/s, ...
const MATTERS_BPS: f64 = 1e6;
/// ... and the gate saw less than this fraction of it. (Packets merged by the kernel have fewer
/// headers, which makes a difference of a few percent.)
const SEEN: f64 = 0.5;

/// The data received by devices, and the part of it seen by the gate.
#[derive(Debug, Default)]
pub(super) struct Bypass {
    begun: Option<(f64, u64, u64)>,
    passes_by: bool,
}

impl Bypass {
    /// Processes the bytes received by all devices and seen by the gate until `now_s`. Returns
    /// whether most of it bypasses the gate.
    fn observe(&mut self, now_s: f64, received: u64, seen: u64) -> bool {
        let (at_s, received_before, seen_before) = *self.begun.get_or_insert((now_s, received, seen));
        let passed_s = now_s - at_s;
        if passed_s >= SPAN_S {
            let new = received.saturating_sub(received_before) as f64;
            let matters = new * 8.0 >= MATTERS_BPS * passed_s;
            self.passes_by = matters && (seen.saturating_sub(seen_before) as f64) < SEEN * new;
            self.begun = Some((now_s, received, seen));
        }
        self.passes_by
    }

    /// The same for devices by name. Returns the message for the user.
    pub(super) fn problem(&mut self, now_s: f64, devices: &[String], seen: u64) -> Option<String> {
        let received = devices.iter().filter_map(|device| {
            let file = format!("/sys/class/net/{device}/statistics/rx_bytes");
            std::fs::read_to_string(file).ok()?.trim().parse::<u64>().ok()
        });
        let passes_by = self.observe(now_s, received.sum(), seen);
        // Without flow tables, the traffic is between stations and never leaves their radio.
        (passes_by && doctor::forwards_by_flow_table()).then(|| {
            format!(
                "most of what {} receives bypasses the gate, so its connections are not bounded: switch \
                 hardware flow offload off \
                 (OpenWrt: `uci set firewall.@defaults[0].flow_offloading_hw=0`; nftables: no `flags offload` in a flowtable)",
                devices.join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes per second that arrive, and that the gate sees.
    fn after(spans: &[(u64, u64)]) -> bool {
        let (mut bypass, mut received, mut seen, mut second) = (Bypass::default(), 0, 0, 0.0);
        let mut says = false;
        for (comes, sees) in spans {
            for _ in 0..20 {
                says = bypass.observe(second, received, seen);
                received += comes;
                seen += sees;
                second += 1.0;
            }
        }
        says
    }

    #[test]
    fn bypassing_traffic_is_detected_and_its_end_too() {
        assert!(!after(&[(1_000_000, 960_000)]), "headers of merged packets");
        assert!(after(&[(1_000_000, 960_000), (1_000_000, 20_000)]));
        assert!(!after(&[(1_000_000, 20_000), (1_000_000, 960_000)]), "it was switched off again");
        assert!(!after(&[(50_000, 0)]), "too little for a decision");
        assert!(!after(&[(0, 0)]));
    }
}
