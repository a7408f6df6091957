//! Simulates every setting that ns-3.48 ran and prints totals, Jain's index and round-trip times
//! side by side: once with Linux's RACK and tail-loss probes, and with ns-3's loss recovery at
//! three minimum RTOs.

use super::{Behaviour, Ns3Row, settings, simulated};
use yuzuri_scenario::fairness::jain;
use yuzuri_sim::Results;

const SEEDS: u64 = 10;

/// Means over the runs of a setting.
struct Figures {
    total_mbps: f64,
    jain: f64,
    rtt_ms: f64,
    retransmitted_percent: f64,
    timeouts: f64,
}

fn ns3_figures(group: &[Ns3Row]) -> Figures {
    let mean = |value: fn(&Ns3Row) -> f64| group.iter().map(value).sum::<f64>() / group.len() as f64;
    Figures {
        total_mbps: mean(|row| row.total_mbps),
        jain: mean(|row| row.jain),
        rtt_ms: mean(|row| row.rtt_mean_ms),
        retransmitted_percent: mean(|row| row.retransmitted_share * 100.0),
        timeouts: mean(|row| row.timeouts as f64),
    }
}

fn simulated_figures(row: &Ns3Row, behaviour: Behaviour) -> Figures {
    let runs: Vec<Results> = (1..=SEEDS).map(|seed| simulated(row, seed, behaviour)).collect();
    let mean = |value: fn(&Results) -> f64| runs.iter().map(value).sum::<f64>() / runs.len() as f64;
    Figures {
        total_mbps: mean(|r| r.goodputs_total().iter().sum()),
        jain: mean(|r| jain(r.goodputs_total()).unwrap_or(1.0)),
        rtt_ms: mean(|r| r.rtt_mean_ms().unwrap_or(f64::NAN)),
        retransmitted_percent: mean(|r| r.retransmitted_share() * 100.0),
        timeouts: mean(|r| r.timeouts() as f64),
    }
}

const BEHAVIOURS: [(&str, Behaviour); 4] = [
    ("Linux recovery", Behaviour::Linux),
    ("ns-3 recovery, minimum RTO 1 s", Behaviour::Ns3 { min_rto_ms: 1000 }),
    ("0.5 s", Behaviour::Ns3 { min_rto_ms: 500 }),
    ("0.2 s", Behaviour::Ns3 { min_rto_ms: 200 }),
];

#[derive(clap::Args)]
pub struct Args {
    /// Only settings whose tag begins with this
    #[arg(default_value = "")]
    prefix: String,
}

/// Prints a row for each setting.
pub fn run(args: &Args) {
    let mut groups = settings();
    groups.retain(|group| group[0].tag.starts_with(&args.prefix));
    let names: Vec<&str> = BEHAVIOURS.iter().map(|(name, _)| *name).collect();
    println!("each: ns-3; simulation with {}", names.join("; "));
    println!("tag algorithm | total, Mbit/s | Jain | RTT, ms | retransmitted, % | timeouts");
    let mut within = [(0, 0); BEHAVIOURS.len()];
    for group in &groups {
        let n = ns3_figures(group);
        let simulations = BEHAVIOURS.map(|(_, behaviour)| simulated_figures(&group[0], behaviour));
        for (counts, o) in within.iter_mut().zip(&simulations) {
            counts.0 += u32::from((o.total_mbps / n.total_mbps - 1.0).abs() <= 0.10);
            counts.1 += u32::from((o.jain - n.jain).abs() <= 0.10);
        }
        let column = |value: fn(&Figures) -> f64, digits: usize| {
            std::iter::once(&n)
                .chain(&simulations)
                .map(|f| format!("{:.digits$}", value(f)))
                .collect::<Vec<_>>()
                .join(" ")
        };
        println!(
            "{:16} {:5} | {} | {} | {} | {} | {}",
            group[0].tag,
            group[0].algorithm,
            column(|f| f.total_mbps, 1),
            column(|f| f.jain, 2),
            column(|f| f.rtt_ms, 0),
            column(|f| f.retransmitted_percent, 1),
            column(|f| f.timeouts, 1),
        );
    }
    for (name, (totals, jains)) in names.iter().zip(within) {
        println!("{name}: {totals} of {} totals within 10 %, {jains} Jain indices within 0.1", groups.len());
    }
}
