//! Settings that ns-3.48 ran, and their simulation.

pub mod command;
#[cfg(test)]
mod tests;

use yuzuri_netmodel::queue::{FqCodelConfig, QueueConfig};
use yuzuri_netmodel::radio::Phy;
use yuzuri_sim::cc::Algorithm;
use yuzuri_sim::{LocalDrop, NoBounds, Results, Scenario, SenderConfig, Terminal, TimeoutRule, path, run};

/// One run of ns-3.
#[derive(Clone, Debug)]
pub struct Ns3Row {
    pub tag: String,
    pub standard: String,
    pub terminals: usize,
    pub rtt_ms: u64,
    pub wire_mbps: u64,
    pub wire_packets: u32,
    pub ap_queue: String,
    pub ap_packets: u32,
    #[allow(dead_code)]
    pub seed: u64,
    pub algorithm: String,
    pub duration_s: u64,
    pub total_mbps: f64,
    pub jain: f64,
    pub rtt_mean_ms: f64,
    pub retransmitted_share: f64,
    pub timeouts: u64,
}

pub fn rows() -> Vec<Ns3Row> {
    let path = format!("{}/data/ns3_3.48.csv", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("reading {path}: {error}"));
    text.lines().skip(1).map(parse).collect()
}

/// The settings, each with the rows of all its seeds.
pub fn settings() -> Vec<Vec<Ns3Row>> {
    let mut settings: Vec<Vec<Ns3Row>> = Vec::new();
    for row in rows() {
        match settings
            .iter_mut()
            .find(|group| (&group[0].tag, &group[0].algorithm) == (&row.tag, &row.algorithm))
        {
            Some(group) => group.push(row),
            None => settings.push(vec![row]),
        }
    }
    settings
}

fn parse(line: &str) -> Ns3Row {
    let cells: Vec<&str> = line.split(',').collect();
    let whole = |n: usize| cells[n].parse::<u64>().expect("a whole number");
    let real = |n: usize| cells[n].parse::<f64>().expect("a number");
    Ns3Row {
        tag: cells[0].to_owned(),
        standard: cells[1].to_owned(),
        terminals: whole(2) as usize,
        rtt_ms: whole(3),
        wire_mbps: whole(4),
        wire_packets: whole(5) as u32,
        ap_queue: cells[6].to_owned(),
        ap_packets: whole(7) as u32,
        seed: whole(8),
        algorithm: cells[9].to_owned(),
        duration_s: whole(10),
        total_mbps: real(11),
        jain: real(12),
        rtt_mean_ms: real(13),
        retransmitted_share: real(14),
        timeouts: whole(15),
    }
}

/// Which implementation senders and stations follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// The default: RACK, tail-loss probes, undo of reductions.
    Linux,
    /// ns-3's differences: loss detection by SACK only, no undo, an RTO by RFC 6298 of at least
    /// `min_rto_ms` that reduces the window again within a recovery, and stations that request a
    /// missed BlockAck (UseExplicitBarAfterMissedBlockAck). The minimum RTO of the recorded runs is
    /// unknown.
    Ns3 { min_rto_ms: u64 },
}

/// The scenario of `row`: buffers of 32 MB, no TCP small queues; full local queues drop silently.
pub fn scenario(row: &Ns3Row, seed: u64, behaviour: Behaviour) -> Scenario {
    let ac = Phy::ac(80, 1, 9);
    let n = Phy::n(20, 1, 7);
    let phys: Vec<Phy> = (0..row.terminals)
        .map(|number| match row.standard.as_str() {
            "g" => Phy::g(54),
            "n" => n,
            _ if row.tag.starts_with("het") && number >= row.terminals / 2 => n,
            _ => ac,
        })
        .collect();
    let algorithm = if row.algorithm == "bbr" { Algorithm::Bbr } else { Algorithm::Cubic };
    let sender = SenderConfig {
        algorithm,
        window_bytes: 32 << 20,
        small_queue_shift: None,
        hz: 1000,
        ..SenderConfig::default()
    };
    let sender = match behaviour {
        Behaviour::Linux => sender,
        Behaviour::Ns3 { min_rto_ms } => SenderConfig {
            rack: false,
            undo: false,
            timeout: TimeoutRule::Rfc6298 { min_ms: min_rto_ms },
            timeout_reduces_again: true,
            ..sender
        },
    };
    let terminals = vec![Terminal::uploading().with_sender(sender); row.terminals];
    let wire = path(row.wire_mbps * 1_000_000, row.wire_packets, row.rtt_ms * 1000);
    let mut scenario = Scenario::wireless(&phys, wire, terminals, row.duration_s * 1000).seeded(seed);
    if let Some(cell) = &mut scenario.cell {
        cell.request_missed_block_ack = behaviour != Behaviour::Linux;
        cell.ap.queue = match row.ap_queue.as_str() {
            "fq" => QueueConfig::FqCodel(FqCodelConfig::default()),
            _ => QueueConfig::drop_tail(row.ap_packets),
        };
    }
    scenario.local_drop = LocalDrop::Silent;
    scenario
}

pub fn simulated(row: &Ns3Row, seed: u64, behaviour: Behaviour) -> Results {
    run(&scenario(row, seed, behaviour), &mut NoBounds).expect("a consistent scenario")
}
