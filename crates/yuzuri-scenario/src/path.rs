//! The path between access point and server, in the words of papers.

use serde::{Deserialize, Serialize};
use yuzuri_netmodel::queue::QueueConfig;
use yuzuri_netmodel::wire::{LineConfig, LossConfig, WireConfig};

/// A symmetric path with loss towards the server; `up` and `down` say more where that is not enough.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PathSpec {
    /// What the path adds to the round-trip time, half of it each way, milliseconds; 0 to 100,000.
    pub rtt_ms: f64,
    /// Up to so much more each way, drawn evenly for each packet, milliseconds.
    pub jitter_ms: f64,
    /// Rate each way, Mbit/s; infinite where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_mbps: Option<f64>,
    /// Places of the drop-tail queue each way, packets.
    pub queue_packets: u32,
    /// Largest packet between the terminals and the server, IP header included, bytes; 576 to 1500.
    pub mtu_bytes: u32,
    /// Probability that a packet towards the server is lost, 0 to 1.
    pub loss: f64,
    /// Probability that a packet from the server is lost, 0 to 1.
    pub loss_down: f64,
    /// All of the way to the server, instead of the fields above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up: Option<LineConfig>,
    /// All of the way back, instead of the fields above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub down: Option<LineConfig>,
}

impl Default for PathSpec {
    fn default() -> PathSpec {
        PathSpec {
            rtt_ms: 0.0,
            jitter_ms: 0.0,
            rate_mbps: None,
            queue_packets: 1000,
            mtu_bytes: PathSpec::MAX_MTU_BYTES,
            loss: 0.0,
            loss_down: 0.0,
            up: None,
            down: None,
        }
    }
}

impl PathSpec {
    /// The largest packet that the devices take.
    pub const MAX_MTU_BYTES: u32 = 1500;

    /// For the model.
    pub fn wire_config(&self) -> WireConfig {
        let line = |probability: f64| LineConfig {
            rate_bps: self.rate_mbps.map(|rate| (rate * 1e6).round() as u64),
            delay_us: (self.rtt_ms * 500.0).round() as u64,
            jitter_us: (self.jitter_ms * 1000.0).round() as u64,
            loss: if probability == 0.0 { LossConfig::None } else { LossConfig::Random { probability } },
            queue: QueueConfig::drop_tail(self.queue_packets),
            ..LineConfig::default()
        };
        WireConfig {
            up: self.up.clone().unwrap_or_else(|| line(self.loss)),
            down: self.down.clone().unwrap_or_else(|| line(self.loss_down)),
        }
    }

    /// The least time from the server and back, milliseconds.
    pub fn base_rtt_ms(&self) -> f64 {
        let wire = self.wire_config();
        (wire.up.delay_us + wire.down.delay_us) as f64 / 1000.0
    }
}
