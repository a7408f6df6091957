//! Every setting that ns-3.48 ran, here: totals, Jain's index and round-trip times side by side, with RACK and tail-loss probes as Linux has them
//! and without, as ns-3.
//!
//! `cargo run --release -p yuzuri-sim --example ns3 [PREFIX OF TAG]`

#[path = "../tests/common/ns3.rs"]
mod ns3;

use ns3::Ns3Row;
use yuzuri_sim::Results;
use yuzuri_sim::fairness::jain;

const SEEDS: u64 = 10;

/// Means over the repetitions of a setting.
struct Figures {
    total_mbps: f64,
    jain: f64,
    rtt_ms: f64,
    retransmitted_percent: f64,
    timeouts: f64,
}

fn theirs(group: &[Ns3Row]) -> Figures {
    let mean = |value: fn(&Ns3Row) -> f64| group.iter().map(value).sum::<f64>() / group.len() as f64;
    Figures {
        total_mbps: mean(|row| row.total_mbps),
        jain: mean(|row| row.jain),
        rtt_ms: mean(|row| row.rtt_mean_ms),
        retransmitted_percent: mean(|row| row.retransmitted_share * 100.0),
        timeouts: mean(|row| row.timeouts as f64),
    }
}

fn ours(row: &Ns3Row, rack: bool) -> Figures {
    let runs: Vec<Results> = (1..=SEEDS).map(|seed| ns3::ours(row, seed, rack)).collect();
    let mean = |value: fn(&Results) -> f64| runs.iter().map(value).sum::<f64>() / runs.len() as f64;
    Figures {
        total_mbps: mean(|r| r.goodputs_total().iter().sum()),
        jain: mean(|r| jain(&r.goodputs_total())),
        rtt_ms: mean(|r| r.rtt_mean_ms().unwrap_or(f64::NAN)),
        retransmitted_percent: mean(|r| r.retransmitted_share() * 100.0),
        timeouts: mean(|r| r.timeouts() as f64),
    }
}

fn main() {
    let prefix = std::env::args().nth(1).unwrap_or_default();
    let mut groups: Vec<Vec<Ns3Row>> = Vec::new();
    for row in ns3::rows().into_iter().filter(|row| row.tag.starts_with(&prefix)) {
        match groups
            .iter_mut()
            .find(|group| (&group[0].tag, &group[0].algorithm) == (&row.tag, &row.algorithm))
        {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    println!("each: ns-3, here with RACK, here without (difference with, without)");
    println!("tag algorithm | total, Mbit/s | Jain | RTT, ms | retransmitted, % | timeouts");
    let mut within = [(0, 0); 2];
    for group in &groups {
        let (n, a, b) = (theirs(group), ours(&group[0], true), ours(&group[0], false));
        let off = [&a, &b].map(|o| (o.total_mbps / n.total_mbps - 1.0, o.jain - n.jain));
        for (counts, (total, fair)) in within.iter_mut().zip(off) {
            counts.0 += u32::from(total.abs() <= 0.10);
            counts.1 += u32::from(fair.abs() <= 0.10);
        }
        println!(
            "{:16} {:5} | {:6.1} {:6.1} {:6.1} ({:+5.1}% {:+5.1}%) | {:.2} {:.2} {:.2} ({:+.2} {:+.2}) | {:5.0} {:5.0} {:5.0} | {:4.1} {:4.1} {:4.1} | {:5.1} {:5.1} {:5.1}",
            group[0].tag,
            group[0].algorithm,
            n.total_mbps,
            a.total_mbps,
            b.total_mbps,
            off[0].0 * 100.0,
            off[1].0 * 100.0,
            n.jain,
            a.jain,
            b.jain,
            off[0].1,
            off[1].1,
            n.rtt_ms,
            a.rtt_ms,
            b.rtt_ms,
            n.retransmitted_percent,
            a.retransmitted_percent,
            b.retransmitted_percent,
            n.timeouts,
            a.timeouts,
            b.timeouts,
        );
    }
    for (how, (totals, jains)) in ["with RACK", "without"].iter().zip(within) {
        println!(
            "{how}: of {} settings {totals} totals within 10 %, {jains} of Jain within 0.1",
            groups.len()
        );
    }
}
