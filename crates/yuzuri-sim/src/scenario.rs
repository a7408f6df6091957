//! The simulated setting: terminals, radio, path, workloads, times. `yuzuri-scenario` reads
//! scenario files; [`simulated`](crate::simulated) converts them.

use crate::receiver::ReceiverConfig;
use crate::sender::SenderConfig;
use yuzuri_netmodel::queue::QueueConfig;
use yuzuri_netmodel::radio::{CellConfig, Phy, StationConfig};
use yuzuri_netmodel::wire::{LineConfig, WireConfig};
use yuzuri_scenario::Direction;

/// A terminal's traffic between start and stop.
#[derive(Clone, Debug, PartialEq)]
pub enum Traffic {
    /// Sends as fast as TCP allows.
    Bulk {
        /// Direction of the transfer.
        direction: Direction,
        /// Bytes to send; absent: unlimited.
        bytes: Option<u64>,
    },
    /// Alternates: sends as fast as TCP allows for `on_ms`, then writes nothing for `off_ms`. Data
    /// in the send buffer when the pause begins is still sent.
    OnOff {
        /// Direction of the transfer.
        direction: Direction,
        /// Length of a busy period, ms.
        on_ms: u64,
        /// Length of a pause, ms.
        off_ms: u64,
    },
    /// The terminal sends a request, the server responds, the terminal pauses, and so on.
    RequestResponse {
        /// Size of a request, bytes.
        request_bytes: u64,
        /// Size of a response, bytes.
        response_bytes: u64,
        /// Pause between a response and the next request, ms.
        think_ms: u64,
    },
    /// No traffic.
    Silent,
}

/// One terminal.
#[derive(Clone, Debug, PartialEq)]
pub struct Terminal {
    /// Its traffic.
    pub traffic: Traffic,
    /// Start time, ms. A random delay of up to [`start_spread_ms`](Scenario::start_spread_ms) is
    /// added.
    pub start_ms: u64,
    /// Time of the last write, ms; absent: the end of the run.
    pub stop_ms: Option<u64>,
    /// Configuration of its senders, and of the server's senders towards it.
    pub sender: SenderConfig,
    /// Configuration of the receivers at both ends.
    pub receiver: ReceiverConfig,
    /// Extra round-trip time to its server, µs.
    pub extra_rtt_us: u64,
}

impl Terminal {
    /// Creates a terminal with default settings.
    pub fn new(traffic: Traffic) -> Terminal {
        Terminal {
            traffic,
            start_ms: 0,
            stop_ms: None,
            sender: SenderConfig::default(),
            receiver: ReceiverConfig::default(),
            extra_rtt_us: 0,
        }
    }

    /// Creates a terminal that uploads without limit.
    pub fn uploading() -> Terminal {
        Terminal::new(Traffic::Bulk { direction: Direction::Up, bytes: None })
    }

    /// Creates a terminal that downloads without limit.
    pub fn downloading() -> Terminal {
        Terminal::new(Traffic::Bulk { direction: Direction::Down, bytes: None })
    }

    /// Sets the sender configuration.
    pub fn with_sender(mut self, sender: SenderConfig) -> Terminal {
        self.sender = sender;
        self
    }
}

/// Behaviour of the terminal's interface queue when it is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LocalDrop {
    /// The sender is notified, keeps the segment and reduces its window (Linux: `NET_XMIT_DROP`,
    /// `tcp_enter_cwr`).
    #[default]
    Notified,
    /// The segment is dropped silently (ns-3).
    Silent,
}

/// A change during the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Time of the change, ms.
    pub at_ms: u64,
    /// The change.
    pub what: ChangeKind,
}

/// A change of radio or wire.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ChangeKind {
    /// A terminal's radio changes.
    Radio {
        /// Index of the terminal.
        terminal: u16,
        /// Its new radio.
        phy: Phy,
    },
    /// The wire's rate changes, in both directions.
    Wire {
        /// New rate, bits per second.
        rate_bps: u64,
    },
}

/// A simulation run.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The radio cell, one station per terminal; absent: the terminals are attached to the wire.
    pub cell: Option<CellConfig>,
    /// The path behind the access point.
    pub wire: WireConfig,
    /// The terminals.
    pub terminals: Vec<Terminal>,
    /// Simulated time, ms.
    pub duration_ms: u64,
    /// End of the warm-up, ms.
    pub warm_up_ms: u64,
    /// Random start delay of each terminal, uniform from 0 to this, ms.
    pub start_spread_ms: u64,
    /// Seed of all random choices; the same seed gives the same result.
    pub seed: u64,
    /// Interval between calls of the policy, ms.
    pub steer_every_ms: u64,
    /// Interval of the window trace, ms; absent: no trace.
    pub trace_every_ms: Option<u64>,
    /// Behaviour of a full local queue.
    pub local_drop: LocalDrop,
    /// Changes during the run.
    pub changes: Vec<Change>,
}

/// Interval between calls of the policy unless the scenario sets it, ms.
const STEER_INTERVAL_MS: u64 = 500;

impl Scenario {
    /// A scenario of terminals attached to the wire, without radio, for `duration_ms`.
    pub fn wired(wire: WireConfig, terminals: Vec<Terminal>, duration_ms: u64) -> Scenario {
        Scenario {
            cell: None,
            wire,
            terminals,
            duration_ms,
            warm_up_ms: (duration_ms / 4).min(5000),
            start_spread_ms: 0,
            seed: 1,
            steer_every_ms: STEER_INTERVAL_MS,
            trace_every_ms: None,
            local_drop: LocalDrop::default(),
            changes: Vec::new(),
        }
    }

    /// A scenario of terminals in a cell, each with its own radio, for `duration_ms`. They start
    /// within half a second.
    pub fn wireless(phys: &[Phy], wire: WireConfig, terminals: Vec<Terminal>, duration_ms: u64) -> Scenario {
        let stations = phys.iter().map(|phy| StationConfig::new(*phy)).collect();
        Scenario {
            cell: Some(CellConfig::new(stations)),
            start_spread_ms: 500,
            ..Scenario::wired(wire, terminals, duration_ms)
        }
    }

    /// Sets the seed.
    pub fn seeded(mut self, seed: u64) -> Scenario {
        self.seed = seed;
        self
    }
}

/// A path of `rate_bps` with a drop-tail queue of `queue_packets` and a round-trip delay of
/// `rtt_us`, half of it in each direction.
pub fn path(rate_bps: u64, queue_packets: u32, rtt_us: u64) -> WireConfig {
    WireConfig::symmetric(LineConfig {
        rate_bps: Some(rate_bps),
        delay_us: rtt_us / 2,
        queue: QueueConfig::drop_tail(queue_packets),
        ..LineConfig::default()
    })
}
