//! What is simulated: terminals, radio, path, workloads, times. Scenario files are read by `yuzuri-scenario` and become
//! this by [`simulated`](crate::simulated).

use crate::receiver::ReceiverConfig;
use crate::sender::SenderConfig;
use yuzuri_netmodel::queue::QueueConfig;
use yuzuri_netmodel::radio::{CellConfig, Phy, StationConfig};
use yuzuri_netmodel::wire::{LineConfig, WireConfig};
use yuzuri_scenario::Direction;

/// What a terminal does between start and stop.
#[derive(Clone, Debug, PartialEq)]
pub enum Traffic {
    /// Sends as fast as it can.
    Bulk {
        /// Which way.
        direction: Direction,
        /// So many bytes; absent: without end.
        bytes: Option<u64>,
    },
    /// Sends as fast as it can for `on_ms`, writes nothing for `off_ms`, and so on. What is in the send buffer when the
    /// pause begins still leaves.
    OnOff {
        /// Which way.
        direction: Direction,
        /// ms
        on_ms: u64,
        /// ms
        off_ms: u64,
    },
    /// The terminal asks, the server answers, the terminal thinks, and so on.
    RequestResponse {
        /// Bytes from the terminal.
        request_bytes: u64,
        /// Bytes from the server.
        response_bytes: u64,
        /// Pause between an answer and the next question, ms.
        think_ms: u64,
    },
    /// Nothing.
    Silent,
}

/// One terminal.
#[derive(Clone, Debug, PartialEq)]
pub struct Terminal {
    /// What it does.
    pub traffic: Traffic,
    /// When it begins, ms. Up to [`start_spread_ms`](Scenario::start_spread_ms) is added.
    pub start_ms: u64,
    /// When it writes no more, ms; absent: at the end.
    pub stop_ms: Option<u64>,
    /// Its senders, and those of the server towards it.
    pub sender: SenderConfig,
    /// How data is acknowledged, at both ends.
    pub receiver: ReceiverConfig,
    /// Its server is so much further away, µs of round-trip time.
    pub extra_rtt_us: u64,
}

impl Terminal {
    /// A terminal with the defaults.
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

    /// Uploads without end.
    pub fn uploading() -> Terminal {
        Terminal::new(Traffic::Bulk { direction: Direction::Up, bytes: None })
    }

    /// Downloads without end.
    pub fn downloading() -> Terminal {
        Terminal::new(Traffic::Bulk { direction: Direction::Down, bytes: None })
    }

    /// With these senders.
    pub fn with_sender(mut self, sender: SenderConfig) -> Terminal {
        self.sender = sender;
        self
    }
}

/// What a full queue of the terminal's own interface does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LocalDrop {
    /// The sender is told, keeps the segment and reduces its window (Linux: `NET_XMIT_DROP`, `tcp_enter_cwr`).
    #[default]
    Told,
    /// The segment is lost without a word (ns-3).
    Lost,
}

/// Something changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// When, ms.
    pub at_ms: u64,
    /// What.
    pub what: Changed,
}

/// What changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Changed {
    /// The radio of a terminal.
    Radio {
        /// Which terminal.
        terminal: u16,
        /// Its radio from now on.
        phy: Phy,
    },
    /// The rate of the wire, both ways.
    Wire {
        /// Bits per second from now on.
        rate_bps: u64,
    },
}

/// A run.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The radio cell, one station per terminal; absent: terminals are attached to the wire.
    pub cell: Option<CellConfig>,
    /// The path behind the access point.
    pub wire: WireConfig,
    /// The terminals.
    pub terminals: Vec<Terminal>,
    /// Simulated time, ms.
    pub duration_ms: u64,
    /// Figures "after warm-up" begin here, ms.
    pub warm_up_ms: u64,
    /// Terminals start within so much time, evenly drawn, ms.
    pub start_spread_ms: u64,
    /// One seed, one result.
    pub seed: u64,
    /// The policy is asked this often, ms.
    pub steer_every_ms: u64,
    /// The window is noted this often, ms; absent: never.
    pub trace_every_ms: Option<u64>,
    /// What a full local queue does.
    pub local_drop: LocalDrop,
    /// What changes while it runs.
    pub changes: Vec<Change>,
}

fn half_a_second() -> u64 {
    500
}

impl Scenario {
    /// Terminals at the wire, without radio, for `duration_ms`.
    pub fn wired(wire: WireConfig, terminals: Vec<Terminal>, duration_ms: u64) -> Scenario {
        Scenario {
            cell: None,
            wire,
            terminals,
            duration_ms,
            warm_up_ms: (duration_ms / 4).min(5000),
            start_spread_ms: 0,
            seed: 1,
            steer_every_ms: half_a_second(),
            trace_every_ms: None,
            local_drop: LocalDrop::default(),
            changes: Vec::new(),
        }
    }

    /// Terminals in a cell, each with its own radio, for `duration_ms`; they start within half a second.
    pub fn wireless(phys: &[Phy], wire: WireConfig, terminals: Vec<Terminal>, duration_ms: u64) -> Scenario {
        let stations = phys.iter().map(|phy| StationConfig::new(*phy)).collect();
        Scenario {
            cell: Some(CellConfig::new(stations)),
            start_spread_ms: 500,
            ..Scenario::wired(wire, terminals, duration_ms)
        }
    }

    /// With this seed.
    pub fn seeded(mut self, seed: u64) -> Scenario {
        self.seed = seed;
        self
    }
}

/// A path of `rate_bps` with a drop-tail queue of `queue_packets` and `rtt_us` of delay, half of it each way.
pub fn path(rate_bps: u64, queue_packets: u32, rtt_us: u64) -> WireConfig {
    WireConfig::symmetric(LineConfig {
        rate_bps: Some(rate_bps),
        delay_us: rtt_us / 2,
        queue: QueueConfig::drop_tail(queue_packets),
        ..LineConfig::default()
    })
}
