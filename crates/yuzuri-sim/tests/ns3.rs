//! Totals and fairness against ns-3.48 where both have the same loss recovery to do; all settings: `--example ns3`.

#[path = "common/ns3.rs"]
#[allow(dead_code)]
mod ns3;

use yuzuri_sim::fairness::jain;

/// Settings that are not compared, and why.
fn differs(tag: &str) -> Option<&'static str> {
    match tag {
        "ac4_512_100" | "ac1_512_100" => Some("ns-3 recovers without RACK: at 512 ms its windows stay small"),
        "n16_64" | "n6_64" | "ac16_64_1G" | "het_64_1G" => {
            Some("ns-3 times out more often when the access point drops acknowledgements")
        }
        _ => None,
    }
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

#[test]
fn totals_within_10_percent_and_jain_as_close_as_seeds_are() {
    let mut settings: Vec<Vec<ns3::Ns3Row>> = Vec::new();
    for row in ns3::rows() {
        match settings
            .iter_mut()
            .find(|group| (&group[0].tag, &group[0].algorithm) == (&row.tag, &row.algorithm))
        {
            Some(group) => group.push(row),
            None => settings.push(vec![row]),
        }
    }
    let mut compared = 0;
    for group in &settings {
        let runs: Vec<_> = (1..=2).map(|seed| ns3::ours(&group[0], seed, true).goodputs_total()).collect();
        let total = mean(runs.iter().map(|run| run.iter().sum()));
        let fair = mean(runs.iter().map(|run| jain(run)));
        let their_total = mean(group.iter().map(|row| row.total_mbps));
        let their_fair = mean(group.iter().map(|row| row.jain));
        let (off, unlike) = (total / their_total - 1.0, fair - their_fair);
        let label = format!("{} {}: total {off:+.3}, Jain {unlike:+.3}", group[0].tag, group[0].algorithm);
        if let Some(why) = differs(&group[0].tag) {
            println!("{label} (not compared: {why})");
            continue;
        }
        println!("{label}");
        assert!(off.abs() <= 0.10, "{label}");
        // Two seeds of ns-3 itself are up to 0.17 apart (g16_64: 0.68 and 0.85).
        assert!(unlike.abs() <= 0.12, "{label}");
        compared += 1;
    }
    assert!(compared >= 15, "only {compared} settings compared");
}

/// That is the difference of CUBIC at 512 ms: without RACK and tail-loss probes at most half of it is left.
#[test]
fn at_512_ms_the_lack_of_rack_is_most_of_the_difference() {
    let rows = ns3::rows();
    for tag in ["ac4_512_100", "ac1_512_100"] {
        let theirs: Vec<_> = rows.iter().filter(|row| row.tag == tag && row.algorithm == "cubic").collect();
        let total = mean(theirs.iter().map(|row| row.total_mbps));
        let off = [true, false].map(|rack| {
            let runs: Vec<f64> =
                (1..=10).map(|seed| ns3::ours(theirs[0], seed, rack).goodputs_total().iter().sum()).collect();
            mean(runs.into_iter()) / total - 1.0
        });
        println!("{tag}: total {:+.3} with RACK, {:+.3} without", off[0], off[1]);
        assert!(off[0] > 0.3 && off[1].abs() < off[0] / 2.0, "{tag}: {off:?}");
    }
}
