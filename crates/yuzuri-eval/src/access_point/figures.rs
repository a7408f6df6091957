//! The results of a contender in a setting.

use super::contender::Contender;
use super::setting::{Group, Setting};
use serde::Serialize;
use yuzuri_sim::{Results, ScenarioError, hint_of};
use yuzuri_stats::quantile;

/// Part of a wire's rate that is payload: 1448 bytes of 1514.
const PAYLOAD_OF_WIRE: f64 = 1448.0 / 1514.0;

/// Medians over seeds; after warm-up.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Figures {
    /// Payload of all terminals, Mbit/s.
    pub total_mbps: f64,
    /// Jain's index on rate over rate alone and over weight, among those that upload.
    pub jain: f64,
    /// Mean smoothed RTT of the uploading terminals above the path's RTT, ms.
    pub queue_ms: f64,
    /// Fraction of the segments that were retransmitted.
    pub resent: f64,
    /// The rate of the stations that take part or use QUIC, relative to an equal share of the
    /// total; NaN: there are none.
    pub special: f64,
    /// The lowest rate of an uploading station, relative to an equal share.
    pub min_part: f64,
    /// The 99th percentile of the time from a frame of the call to its answer, above the path's,
    /// ms; NaN without a call.
    pub call_ms: f64,
    /// Segments of the call that were retransmitted.
    pub call_resent: f64,
}

impl Figures {
    pub fn of(setting: &Setting, results: &Results) -> Figures {
        let wire_bps = setting.wire_mbps as f64 * 1e6 * PAYLOAD_OF_WIRE;
        let base_ms = setting.rtt_ms as f64;
        let is_call = |number: usize| setting.group == Group::Call && setting.is_special(number);
        let uploads: Vec<usize> = (0..setting.phys.len()).filter(|number| !is_call(*number)).collect();
        let mean = |of: Vec<f64>| of.iter().sum::<f64>() / of.len() as f64;
        // Rates relative to the rate alone, by weight.
        let part = |number: &usize| {
            let alone_bps = (hint_of(setting.phys[*number]).alone_bps as f64).min(wire_bps);
            results.terminals[*number].goodput_mbps * 1e6 / alone_bps / setting.weight_of(*number)
        };
        let parts: Vec<f64> = uploads.iter().map(part).collect();
        let equal = mean(parts.clone());
        let special: Vec<f64> = uploads.iter().filter(|n| setting.is_special(**n)).map(part).collect();
        let counts = |of: fn(&yuzuri_sim::TerminalResult) -> u64| -> f64 {
            results.terminals.iter().map(of).sum::<u64>() as f64
        };
        let call = (0..setting.phys.len()).find(|number| is_call(*number)).map(|n| &results.terminals[n]);
        let queue_ms = |number: &usize| results.terminals[*number].srtt_mean_ms - base_ms;
        Figures {
            total_mbps: results.total_mbps(),
            jain: parts.iter().sum::<f64>().powi(2)
                / (parts.len() as f64 * parts.iter().map(|part| part * part).sum::<f64>()),
            queue_ms: mean(uploads.iter().map(queue_ms).collect()),
            resent: counts(|t| t.counts_warm.retransmissions) / counts(|t| t.counts_warm.segments).max(1.0),
            special: if special.is_empty() { f64::NAN } else { mean(special) / equal },
            min_part: parts.iter().copied().fold(f64::INFINITY, f64::min) / equal,
            call_ms: call.and_then(|call| call.exchange_p99_ms).map_or(f64::NAN, |ms| ms - base_ms),
            call_resent: call.map_or(f64::NAN, |call| call.counts_warm.retransmissions as f64),
        }
    }

    /// The figures of one contender in a setting.
    ///
    /// # Errors
    /// None for the settings of this program.
    pub fn run(contender: Contender, setting: &Setting, seed: u64) -> Result<Figures, ScenarioError> {
        Ok(Figures::of(setting, &contender.run(setting, seed, false)?))
    }

    /// The median of each figure.
    pub fn median(all: &[Figures]) -> Figures {
        let median = |of: fn(&Figures) -> f64| {
            let values: Vec<f64> = all.iter().map(of).collect();
            quantile(&values, 0.5)
        };
        Figures {
            total_mbps: median(|f| f.total_mbps),
            jain: median(|f| f.jain),
            queue_ms: median(|f| f.queue_ms),
            resent: median(|f| f.resent),
            special: median(|f| f.special),
            min_part: median(|f| f.min_part),
            call_ms: median(|f| f.call_ms),
            call_resent: median(|f| f.call_resent),
        }
    }
}
