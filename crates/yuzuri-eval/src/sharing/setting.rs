//! The settings: the shared resource, the terminals, and the path.

use yuzuri_netmodel::queue::{FqCodelConfig, QueueConfig};
use yuzuri_netmodel::radio::Phy;
use yuzuri_netmodel::wire::{LineConfig, LossConfig, WireConfig};
use yuzuri_sim::{Scenario, SenderConfig, Terminal};

/// One setting: a row of a table.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The table it belongs to.
    pub group: &'static str,
    /// The radio of each terminal.
    pub phys: Vec<Phy>,
    /// Round-trip time of the path, ms.
    pub rtt_ms: u64,
    /// Rate of the wire, Mbit/s.
    pub wire_mbps: u64,
    /// Queue of the wire, packets.
    pub wire_packets: u32,
    /// Queue of the access point, packets; 0: FQ-CoDel with airtime fairness.
    pub ap_packets: u32,
    /// Fraction of the packets that the path loses on the way to the server.
    pub loss: f64,
    /// Buffer limit, bytes.
    pub window_bytes: u64,
    /// Terminals that do not take part, counted from the last.
    pub outsider_count: usize,
    /// Start time of the last terminal, ms.
    pub newcomer_ms: u64,
    /// When sharing begins, ms, with queues already full; only the time after that counts.
    pub sharing_ms: u64,
}

pub const G: Phy = Phy::g(54);
pub const N: Phy = Phy::n(20, 1, 7);
pub const AC: Phy = Phy::ac(80, 1, 9);

/// The longest window a path of 1 Gbit/s and 512 ms needs is 64 MB.
const AMPLE_BYTES: u64 = 64 << 20;

impl Setting {
    fn new(group: &'static str, phys: Vec<Phy>, rtt_ms: u64) -> Setting {
        Setting {
            group,
            phys,
            rtt_ms,
            wire_mbps: 1000,
            wire_packets: 1000,
            ap_packets: 400,
            loss: 0.0,
            window_bytes: AMPLE_BYTES,
            outsider_count: 0,
            newcomer_ms: 0,
            sharing_ms: 0,
        }
    }

    fn wire(self, wire_mbps: u64, wire_packets: u32) -> Setting {
        Setting { wire_mbps, wire_packets, ..self }
    }

    fn ap(self, ap_packets: u32) -> Setting {
        Setting { ap_packets, ..self }
    }

    /// A short description.
    pub fn name(&self) -> String {
        let mut name = format!("{} n={} {} ms", self.radios(), self.phys.len(), self.rtt_ms);
        name += &format!(", {} Mbit/s/{}", self.wire_mbps, self.wire_packets);
        name += &match self.ap_packets {
            0 => ", AP FQ-CoDel".to_owned(),
            packets => format!(", AP {packets}"),
        };
        if self.loss > 0.0 {
            name += &format!(", loss {}", self.loss);
        }
        if self.window_bytes != AMPLE_BYTES {
            name += &format!(", buffers of {} kB", self.window_bytes >> 10);
        }
        if self.outsider_count > 0 {
            name += &format!(", {} outside", self.outsider_count);
        }
        if self.newcomer_ms > 0 {
            name += &format!(", newcomer at {} s", self.newcomer_ms / 1000);
        }
        if self.sharing_ms > 0 {
            name += &format!(", sharing begins at {} s", self.sharing_ms / 1000);
        }
        name
    }

    fn radios(&self) -> &'static str {
        let first = self.phys.first();
        match first {
            _ if self.is_unequal() => "ac+n",
            Some(Phy::G { .. }) => "g",
            Some(Phy::N { .. }) => "n",
            _ => "ac",
        }
    }

    /// Whether its radios differ.
    pub fn is_unequal(&self) -> bool {
        self.phys.iter().any(|phy| Some(phy) != self.phys.first())
    }

    /// Whether all are 802.11g.
    pub fn is_80211g(&self) -> bool {
        self.phys.iter().all(|phy| matches!(phy, Phy::G { .. }))
    }

    /// Whether draining the access point's queue of acknowledgements may cost airtime by itself.
    pub fn is_behind_80211g_fifo(&self) -> bool {
        self.is_80211g() && self.ap_packets > 0
    }

    /// 30 s, or 60 s for a long round trip; from the beginning of sharing.
    pub fn duration_ms(&self) -> u64 {
        self.sharing_ms + if self.rtt_ms >= 128 { 60_000 } else { 30_000 }
    }

    /// The scenario for the simulation, with these senders.
    pub fn scenario(&self, sender: &SenderConfig, seed: u64) -> Scenario {
        let sender = SenderConfig { window_bytes: self.window_bytes, ..sender.clone() };
        let mut terminals = vec![Terminal::uploading().with_sender(sender); self.phys.len()];
        if let Some(last) = terminals.last_mut().filter(|_| self.newcomer_ms > 0) {
            last.start_ms = self.newcomer_ms;
        }
        let line = LineConfig {
            rate_bps: Some(self.wire_mbps * 1_000_000),
            delay_us: self.rtt_ms * 1000 / 2,
            queue: QueueConfig::drop_tail(self.wire_packets),
            ..LineConfig::default()
        };
        let mut wire = WireConfig::symmetric(line);
        if self.loss > 0.0 {
            wire.up.loss = LossConfig::Random { probability: self.loss };
        }
        let mut scenario = Scenario::wireless(&self.phys, wire, terminals, self.duration_ms()).seeded(seed);
        // Earlier queues take some seconds to drain.
        scenario.warm_up_ms = if self.sharing_ms > 0 { self.sharing_ms + 10_000 } else { 5_000 };
        if let Some(cell) = &mut scenario.cell {
            if self.ap_packets == 0 {
                cell.ap.queue = QueueConfig::FqCodel(FqCodelConfig::default());
                cell.ap.airtime_fairness = true;
            } else {
                cell.ap.queue = QueueConfig::drop_tail(self.ap_packets);
            }
        }
        scenario
    }
}

/// Every setting, table by table.
pub fn all() -> Vec<Setting> {
    let mut all = Vec::new();
    for n in [1, 2, 4, 6, 8, 16, 32] {
        for rtt_ms in [2, 64, 128, 256, 512] {
            all.push(Setting::new("ac, 100 Mbit/s, 50 packets", vec![AC; n], rtt_ms).wire(100, 50));
            all.push(Setting::new("ac, 1 Gbit/s", vec![AC; n], rtt_ms));
            all.push(Setting::new("g, AP of 100", vec![G; n], rtt_ms).ap(100));
            all.push(Setting::new("n", vec![N; n], rtt_ms));
        }
    }
    for n in [1, 4, 6, 16] {
        for rtt_ms in [2, 64, 512] {
            all.push(Setting::new("ac, 100 Mbit/s, 1000 packets", vec![AC; n], rtt_ms).wire(100, 1000));
        }
    }
    for n in [4, 16] {
        for rtt_ms in [64, 512] {
            all.push(Setting::new("access points", vec![AC; n], rtt_ms).ap(1000));
            all.push(Setting::new("access points", vec![AC; n], rtt_ms).ap(0));
            all.push(Setting::new("access points", vec![G; n], rtt_ms).ap(400));
            all.push(Setting::new("access points", vec![G; n], rtt_ms).ap(1000));
            all.push(Setting::new("access points", vec![G; n], rtt_ms).ap(0));
            all.push(Setting::new("access points", vec![N; n], rtt_ms).ap(0));
        }
    }
    let unequal = || vec![AC, AC, N, N];
    for rtt_ms in [2, 64, 512] {
        all.push(Setting::new("unequal radios, 1 Gbit/s", unequal(), rtt_ms));
        all.push(Setting::new("unequal radios, 1 Gbit/s", unequal(), rtt_ms).ap(0));
        all.push(Setting::new("unequal radios, 100 Mbit/s", unequal(), rtt_ms).wire(100, 50));
        all.push(Setting::new("unequal radios, 100 Mbit/s", unequal(), rtt_ms).wire(100, 250));
        all.push(Setting::new("unequal radios, 100 Mbit/s", unequal(), rtt_ms).wire(100, 1000));
    }
    for loss in [1e-4, 1e-3] {
        for (phy, rtt_ms) in [(AC, 64), (AC, 512), (G, 512)] {
            let setting = Setting::new("loss", vec![phy; 4], rtt_ms).wire(100, 1000);
            all.push(Setting { loss, ..setting });
        }
    }
    for loss in [0.0, 1e-3] {
        for packets in [50, 1000] {
            let setting = Setting::new("six of 802.11n, 512 ms", vec![N; 6], 512).wire(100, packets);
            all.push(Setting { loss, ..setting });
        }
    }
    for (phys, rtt_ms) in [(vec![AC; 6], 64), (vec![AC; 6], 512), (vec![G; 6], 64)] {
        let setting = Setting::new("a newcomer at 5 s", phys, rtt_ms);
        all.push(Setting { newcomer_ms: 5000, ..setting });
    }
    for (phy, rtt_ms) in [(AC, 2), (AC, 64), (N, 64), (G, 64)] {
        for outsider_count in [1, 4] {
            all.push(Setting { outsider_count, ..Setting::new("not all take part", vec![phy; 8], rtt_ms) });
        }
    }
    for (phy, ap_packets, rtt_ms) in
        [(AC, 400, 64), (N, 400, 2), (N, 400, 64), (N, 400, 512), (N, 1000, 64), (G, 400, 64)]
    {
        let setting = Setting::new("sharing begins among full queues", vec![phy; 8], rtt_ms).ap(ap_packets);
        all.push(Setting { sharing_ms: 20_000, ..setting });
    }
    for (phy, n, wire_mbps) in [(AC, 4, 100), (AC, 6, 1000), (G, 6, 1000)] {
        let setting = Setting::new("send buffers of 1 MB", vec![phy; n], 512).wire(wire_mbps, 1000);
        all.push(Setting { window_bytes: 1 << 20, ..setting });
    }
    all
}
