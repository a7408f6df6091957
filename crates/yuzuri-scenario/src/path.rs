//! The path between access point and server, in the parameters that papers use.

use serde::{Deserialize, Serialize};
use yuzuri_netmodel::queue::QueueConfig;
use yuzuri_netmodel::wire::{LineConfig, LossConfig, WireConfig};

/// A symmetric path with loss towards the server. `up` and `down` replace the fields that they
/// cover.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PathSpec {
    /// Round-trip time of the path, half of it in each direction, ms; 0 to 100,000.
    pub rtt_ms: f64,
    /// Maximum additional delay in each direction, uniformly distributed per packet, ms.
    pub jitter_ms: f64,
    /// Rate in each direction, Mbit/s; absent: infinite.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_mbps: Option<f64>,
    /// Size of the drop-tail queue in each direction, packets.
    pub queue_packets: u32,
    /// MTU between the terminals and the server, bytes; 576 to 1500.
    pub mtu_bytes: u32,
    /// Loss probability towards the server, 0 to 1.
    pub loss: f64,
    /// Loss probability towards the terminals, 0 to 1.
    pub loss_down: f64,
    /// Complete settings of the direction towards the server, instead of the fields above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up: Option<LineConfig>,
    /// Complete settings of the direction towards the terminals, instead of the fields above.
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
    /// The largest MTU of the devices.
    pub const MAX_MTU_BYTES: u32 = 1500;

    /// The configuration of the wire model.
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

    /// The minimum round-trip time of the path, ms.
    pub fn base_rtt_ms(&self) -> f64 {
        let wire = self.wire_config();
        (wire.up.delay_us + wire.down.delay_us) as f64 / 1000.0
    }
}
