//! Totals and fairness against ns-3.48 where both have the same loss recovery to do; all settings: `--example ns3`.

#[path = "common/ns3.rs"]
#[allow(dead_code)]
mod ns3;

use yuzuri_sim::fairness::jain;

/// Settings that are not compared, and why.
fn differs(tag: &str) -> Option<&'static str> {
    match tag {
        "ac4_512_100" | "ac1_512_100" => Some("ns-3 recovers without RACK: at 512 ms its windows stay small"),
        "n16_64" | "n6_64" | "ac16_64_1G" => {
            Some("ns-3 times out when the access point drops acknowledgements")
        }
        "het_64_1G" => Some("ns-3 times out when the access point drops acknowledgements"),
        _ => None,
    }
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
        let runs: Vec<_> = (1..=2).map(|seed| ns3::ours(&group[0], seed).goodputs_total()).collect();
        let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
        let total = mean(runs.iter().map(|run| run.iter().sum()).collect());
        let fair = mean(runs.iter().map(|run| jain(run)).collect());
        let their_total = mean(group.iter().map(|row| row.total_mbps).collect());
        let their_fair = mean(group.iter().map(|row| row.jain).collect());
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
