//! The progress of a run, twice a second: the leader's summary, and each terminal's window, bounds
//! and round-trip time.

use yuzuri_netmodel::Time;
use yuzuri_sim::cc::Bounds;
use yuzuri_sim::{Observation, Sharing, Steer};

/// Wraps a policy, and prints what it observes and decides.
pub struct Traced {
    sharing: Sharing,
    delivered: Vec<u64>,
}

impl Traced {
    /// Traces this policy.
    pub fn new(sharing: Sharing) -> Traced {
        Traced { sharing, delivered: Vec::new() }
    }
}

impl Steer for Traced {
    fn steer(&mut self, now: Time, terminals: &[Option<Observation>], bounds: &mut [Bounds]) {
        self.sharing.steer(now, terminals, bounds);
        self.delivered.resize(terminals.len(), 0);
        print!("{:6.1} s", now.as_secs_f64());
        if let Some(s) = self.sharing.summary() {
            let base_ms = s.destinations.first().map_or(0.0, |(_, us)| f64::from(*us) / 1e3);
            print!(
                " {:?} {:.1} Mbit/s, {} senders, share {:.2} Mbit/s, air {:.3}, base {base_ms:.0} ms, queue {} ms |",
                s.phase,
                s.capacity_bps as f64 / 1e6,
                s.senders,
                s.share_bps as f64 / 1e6,
                f64::from(s.air_share_ppm) / 1e6,
                s.queue_us / 1000
            );
        }
        for ((seen, bound), before) in terminals.iter().zip(bounds).zip(&mut self.delivered) {
            let Some(seen) = seen else {
                print!(" -");
                continue;
            };
            let rate_mbps = (seen.delivered - *before) as f64 * f64::from(seen.mss_bytes) * 8.0 / 0.5e6;
            *before = seen.delivered;
            print!(
                " {rate_mbps:.1} cwnd {} [{}, {}] {:.0} ms re {};",
                seen.cwnd,
                bound.lower.unwrap_or(0),
                bound.upper.map_or("-".to_owned(), |u| u.to_string()),
                seen.srtt_us as f64 / 1e3,
                seen.retransmitted
            );
        }
        println!();
    }
}
