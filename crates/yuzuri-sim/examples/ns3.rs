//! Every setting that ns-3.48 ran, here: totals, Jain's index and round-trip times side by side.
//!
//! `cargo run --release -p yuzuri-sim --example ns3 [PREFIX OF TAG]`

#[path = "../tests/common/ns3.rs"]
mod ns3;

use yuzuri_sim::fairness::jain;

fn main() {
    let prefix = std::env::args().nth(1).unwrap_or_default();
    println!(
        "tag algorithm n rtt | total Mbps ours/ns-3 ratio | Jain ours/ns-3 difference | RTT ms | retransmitted % | timeouts | CPU s"
    );
    let mut groups: Vec<Vec<ns3::Ns3Row>> = Vec::new();
    for row in ns3::rows().into_iter().filter(|row| row.tag.starts_with(&prefix)) {
        match groups
            .iter_mut()
            .find(|group| (&group[0].tag, &group[0].algorithm) == (&row.tag, &row.algorithm))
        {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    for group in groups {
        let mean =
            |value: &dyn Fn(&ns3::Ns3Row) -> f64| group.iter().map(value).sum::<f64>() / group.len() as f64;
        let seeds = 3;
        let runs: Vec<_> = (1..=seeds).map(|seed| ns3::ours(&group[0], seed)).collect();
        let ours = |value: &dyn Fn(&yuzuri_sim::Results) -> f64| {
            runs.iter().map(value).sum::<f64>() / runs.len() as f64
        };
        let (total, theirs) = (ours(&|r| r.goodputs_total().iter().sum()), mean(&|row| row.total_mbps));
        let (fair, their_fair) = (ours(&|r| jain(&r.goodputs_total())), mean(&|row| row.jain));
        println!(
            "{:16} {:5} {:2} {:3} | {:7.2} {:7.2} {:+5.1}% | {:.3} {:.3} {:+.3} | {:6.1} {:6.1} | {:5.2} {:5.2} | {:5.1} {:5.1} | {:.2}",
            group[0].tag,
            group[0].algorithm,
            group[0].terminals,
            group[0].rtt_ms,
            total,
            theirs,
            (total / theirs - 1.0) * 100.0,
            fair,
            their_fair,
            fair - their_fair,
            ours(&|r| r.rtt_mean_ms().unwrap_or(f64::NAN)),
            mean(&|row| row.rtt_mean_ms),
            ours(&|r| r.retransmitted_share() * 100.0),
            mean(&|row| row.retransmitted_share * 100.0),
            ours(&|r| r.timeouts() as f64),
            mean(&|row| row.timeouts as f64),
            ours(&|r| r.cpu_s),
        );
    }
}
