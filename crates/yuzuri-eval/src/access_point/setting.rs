//! The settings: the uploading stations, and the path.

use yuzuri_cca::SlowStartExit;
use yuzuri_netmodel::queue::QueueConfig;
use yuzuri_netmodel::radio::Phy;
use yuzuri_netmodel::wire::LossConfig;
use yuzuri_policy::Objective;
use yuzuri_sim::{ReceiverConfig, Scenario, Terminal, Traffic, path};

const G: Phy = Phy::g(54);
const N: Phy = Phy::n(20, 1, 7);
const AC: Phy = Phy::ac(80, 1, 9);
const AX: Phy = Phy::ax(20, 1, 11);
const SECONDS: u64 = 30;
const WARM_UP_S: u64 = 10;
/// A call: its frames of 20 ms, bytes.
const CALL: Traffic = Traffic::RequestResponse { request_bytes: 160, response_bytes: 160, think_ms: 20 };

/// The purpose of a setting, which determines its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// No station runs yuzuri.
    Alike,
    /// Radios differ, and the air limits.
    Mixed,
    /// Radios differ, and the wire limits.
    MixedWire,
    /// Half of the terminals run `yuzuri share`.
    Half,
    /// The same, and every second terminal has twice the weight.
    Weights,
    /// Half of the stations use QUIC, without HyStart, like quinn.
    Quic,
    /// One station has a call.
    Call,
    /// The queue of the wire is short, or segments are lost.
    Poor,
}

impl Group {
    /// In the order of the tables.
    pub const ALL: [Group; 8] = [
        Group::Alike,
        Group::Mixed,
        Group::MixedWire,
        Group::Half,
        Group::Weights,
        Group::Quic,
        Group::Call,
        Group::Poor,
    ];

    /// The table's heading.
    pub fn title(self) -> &'static str {
        match self {
            Group::Alike => "no station runs Yuzuri, equal radios",
            Group::Mixed => "no station runs Yuzuri, different radios",
            Group::MixedWire => "no station runs Yuzuri, different radios behind a slow wire",
            Group::Half => "half run Yuzuri",
            Group::Weights => "half run Yuzuri, by weights",
            Group::Quic => "QUIC beside TCP",
            Group::Call => "a call beside uploads",
            Group::Poor => "short queues and losses",
        }
    }
}

/// One setting.
#[derive(Clone, Debug)]
pub struct Setting {
    pub group: Group,
    pub phys: Vec<Phy>,
    pub rtt_ms: u64,
    pub wire_mbps: u64,
    pub wire_packets: u32,
    pub loss: f64,
    /// Each terminal's weight; empty: all have 1.
    pub weights: Vec<f64>,
    /// The objective of gate and daemon.
    pub objective: Objective,
}

impl Setting {
    fn new(group: Group, phys: Vec<Phy>, rtt_ms: u64) -> Setting {
        Setting {
            group,
            phys,
            rtt_ms,
            wire_mbps: 1000,
            wire_packets: 1000,
            loss: 0.0,
            weights: Vec::new(),
            objective: Objective::default(),
        }
    }

    /// A terminal's weight.
    pub fn weight_of(&self, terminal: usize) -> f64 {
        self.weights.get(terminal).copied().unwrap_or(1.0)
    }

    fn wire(self, wire_mbps: u64, wire_packets: u32) -> Setting {
        Setting { wire_mbps, wire_packets, ..self }
    }

    /// A short description.
    pub fn name(&self) -> String {
        let mut kinds: Vec<(&str, usize)> = Vec::new();
        for phy in &self.phys {
            let name = match phy {
                Phy::G { .. } => "g",
                Phy::N { .. } => "n",
                Phy::Ac { .. } => "ac",
                Phy::Ax { .. } => "ax",
            };
            match kinds.last_mut().filter(|(last, _)| *last == name) {
                Some((_, count)) => *count += 1,
                None => kinds.push((name, 1)),
            }
        }
        let radios: Vec<String> = kinds.iter().map(|(name, count)| format!("{count} {name}")).collect();
        let mut name = format!("{}, {} ms", radios.join(" + "), self.rtt_ms);
        if self.wire_mbps != 1000 || self.wire_packets != 1000 {
            name += &format!(", {} Mbit/s/{}", self.wire_mbps, self.wire_packets);
        }
        if !self.weights.is_empty() {
            name += ", weights 2 and 1";
        }
        if self.loss > 0.0 {
            name += &format!(", loss {}", self.loss);
        }
        name
    }

    /// Whether all are 802.11g.
    pub fn is_80211g(&self) -> bool {
        self.phys.iter().all(|phy| matches!(phy, Phy::G { .. }))
    }

    /// Whether a terminal is special in this setting: it runs yuzuri, uses QUIC, or has the call.
    pub fn is_special(&self, terminal: usize) -> bool {
        match self.group {
            Group::Half | Group::Weights | Group::Quic => terminal < self.phys.len() / 2,
            Group::Call => terminal == 0,
            Group::Alike | Group::Mixed | Group::MixedWire | Group::Poor => false,
        }
    }

    /// The scenario for the simulation. Receivers are Linux's, whose buffers grow, because a gate
    /// cannot withdraw an advertised window.
    pub fn scenario(&self, seed: u64) -> Scenario {
        let mut wire = path(self.wire_mbps * 1_000_000, self.wire_packets, self.rtt_ms * 1000);
        if self.loss > 0.0 {
            wire.up.loss = LossConfig::Random { probability: self.loss };
        }
        let receiver = ReceiverConfig { growing_buffer: true, ..ReceiverConfig::default() };
        let terminal = |number: usize| {
            let calls = self.group == Group::Call && self.is_special(number);
            let mut terminal = if calls { Terminal::new(CALL) } else { Terminal::uploading() };
            if self.group == Group::Quic && self.is_special(number) {
                terminal.sender.slow_start_exit = SlowStartExit::Loss;
            }
            Terminal { receiver, ..terminal }
        };
        let terminals = (0..self.phys.len()).map(terminal).collect();
        let mut scenario = Scenario::wireless(&self.phys, wire, terminals, SECONDS * 1000).seeded(seed);
        scenario.warm_up_ms = WARM_UP_S * 1000;
        if let Some(cell) = &mut scenario.cell {
            cell.ap.queue = QueueConfig::drop_tail(400);
        }
        scenario
    }
}

/// Every setting, group by group.
pub fn all() -> Vec<Setting> {
    let mut all = Vec::new();
    for phy in [G, N, AC, AX] {
        for n in [2, 4, 8, 16, 32] {
            for rtt_ms in [2, 16, 64, 256] {
                all.push(Setting::new(Group::Alike, vec![phy; n], rtt_ms));
            }
        }
    }
    for n in [4, 16] {
        for rtt_ms in [16, 64] {
            all.push(Setting::new(Group::Alike, vec![AC; n], rtt_ms).wire(50, 1000));
            all.push(Setting::new(Group::Alike, vec![AC; n], rtt_ms).wire(100, 250));
        }
    }
    for rtt_ms in [2, 16, 64, 256] {
        all.push(Setting::new(Group::Mixed, vec![AC, AC, N, N], rtt_ms));
        all.push(Setting::new(Group::Mixed, vec![AX, AX, G, G], rtt_ms));
        all.push(Setting::new(Group::Mixed, vec![AC, AC, AC, AC, N, N, N, N], rtt_ms));
    }
    for rtt_ms in [2, 20, 64] {
        for wire_mbps in [20, 50, 80] {
            all.push(Setting::new(Group::MixedWire, vec![AC, AC, N, N], rtt_ms).wire(wire_mbps, 1000));
        }
        all.push(Setting::new(Group::MixedWire, vec![AC, AC, G, G], rtt_ms).wire(20, 1000));
    }
    for rtt_ms in [16, 64, 128] {
        for phy in [G, N, AC, AX] {
            all.push(Setting::new(Group::Half, vec![phy; 8], rtt_ms));
        }
        for setting in [
            Setting::new(Group::Weights, vec![N; 8], rtt_ms),
            Setting::new(Group::Weights, vec![AC; 8], rtt_ms),
            Setting::new(Group::Weights, vec![AC; 8], rtt_ms).wire(50, 1000),
        ] {
            all.push(Setting { weights: [2.0, 1.0].repeat(4), ..setting });
        }
        for phy in [N, AC] {
            all.push(Setting::new(Group::Quic, vec![phy; 4], rtt_ms));
            all.push(Setting::new(Group::Quic, vec![phy; 4], rtt_ms).wire(20, 1000));
            all.push(Setting::new(Group::Quic, vec![phy; 8], rtt_ms).wire(50, 1000));
            all.push(Setting::new(Group::Call, vec![phy; 5], rtt_ms));
            all.push(Setting::new(Group::Call, vec![phy; 9], rtt_ms).wire(20, 1000));
        }
    }
    for n in [2, 4, 8] {
        all.push(Setting::new(Group::Poor, vec![N; n], 20).wire(20, 40));
        all.push(Setting::new(Group::Poor, vec![AC; n], 64).wire(100, 50));
        for loss in [1e-4, 1e-3] {
            all.push(Setting { loss, ..Setting::new(Group::Poor, vec![N; n], 64) });
            all.push(Setting { loss, ..Setting::new(Group::Poor, vec![AC; n], 64).wire(100, 1000) });
        }
    }
    all
}
