//! Compares totals and fairness with ns-3.48: with Linux's recovery where recovery does not matter,
//! with ns-3's where it does. `--example ns3` prints all settings.

#[path = "common/ns3.rs"]
#[allow(dead_code)]
mod ns3;

use ns3::{Like, Ns3Row, settings};

fn jain(shares: &[f64]) -> f64 {
    yuzuri_scenario::fairness::jain(shares.iter().copied()).unwrap_or(1.0)
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

/// Difference from ns-3: relative for the total, absolute for Jain's index.
fn off(group: &[Ns3Row], seeds: u64, like: Like) -> (f64, f64) {
    let runs: Vec<_> = (1..=seeds).map(|seed| ns3::ours(&group[0], seed, like).goodputs_total()).collect();
    let total = mean(runs.iter().map(|run| run.iter().sum()));
    let fair = mean(runs.iter().map(|run| jain(run)));
    let off = total / mean(group.iter().map(|row| row.total_mbps)) - 1.0;
    let unlike = fair - mean(group.iter().map(|row| row.jain));
    println!("{} {like:?}: total {off:+.3}, Jain {unlike:+.3}", group[0].tag);
    (off, unlike)
}

/// Settings whose total or fairness depends on loss detection and timeouts.
const DEPENDS_ON_RECOVERY: [&str; 4] = ["n16_64", "n6_64", "ac16_64_1G", "het_64_1G"];

/// Settings whose total depends on them and also varies between runs by more than half.
const VARIES: [&str; 2] = ["ac1_512_100", "ac4_512_100"];

fn group(tag: &str) -> Vec<Ns3Row> {
    settings().into_iter().find(|group| group[0].tag == tag).expect("a setting of that name")
}

#[test]
fn where_recovery_does_not_matter_linux_gives_what_ns3_gives() {
    let mut compared = 0;
    let others = |tag: &str| !DEPENDS_ON_RECOVERY.contains(&tag) && !VARIES.contains(&tag);
    for group in settings().iter().filter(|group| others(&group[0].tag)) {
        let (off, unlike) = off(group, 2, Like::Linux);
        assert!(off.abs() <= 0.10, "{}: total {off:+.3}", group[0].tag);
        // Two seeds of ns-3 itself differ by up to 0.17 (g16_64: 0.68 and 0.85).
        assert!(unlike.abs() <= 0.12, "{}: Jain {unlike:+.3}", group[0].tag);
        compared += 1;
    }
    assert_eq!(compared, 16);
}

/// ns-3 does not undo reductions, has no RACK, reduces again on an RTO, and requests missed
/// BlockAcks. With this behaviour the remaining settings match, too.
#[test]
fn where_it_does_ns3s_own_ways_give_what_ns3_gives() {
    for tag in DEPENDS_ON_RECOVERY {
        let (like_ns3, unlike) = off(&group(tag), 10, Like::Ns3 { min_rto_ms: 1000 });
        assert!(like_ns3.abs() <= 0.10, "{tag}: total {like_ns3:+.3}");
        // The two seeds of ns-3 differ by 0.29 with six 11n stations: 0.64 and 0.93.
        let limit = if tag == "n6_64" { 0.29 } else { 0.10 };
        assert!(unlike.abs() <= limit, "{tag}: Jain {unlike:+.3}");
    }
}

/// At 512 ms a one-minute run has three to five losses per station, and their timing determines the
/// total. ns-3's two results lie within the range of runs with ns-3's behaviour, and outside that
/// of runs with Linux's. The means differ, too: by more than 30 % with Linux's behaviour, and by
/// less than half of that with ns-3's.
#[test]
fn at_512_ms_ns3s_runs_are_among_those_with_its_ways_and_not_among_linuxs() {
    const SEEDS: u64 = 40;
    for tag in VARIES {
        let group = group(tag);
        let theirs = mean(group.iter().map(|row| row.total_mbps));
        let runs = |like| -> Vec<Vec<f64>> {
            (1..=SEEDS).map(|seed| ns3::ours(&group[0], seed, like).goodputs_total()).collect()
        };
        let totals = |runs: &[Vec<f64>]| -> Vec<f64> {
            let mut totals: Vec<f64> = runs.iter().map(|run| run.iter().sum()).collect();
            totals.sort_by(f64::total_cmp);
            totals
        };
        let like_ns3 = runs(Like::Ns3 { min_rto_ms: 1000 });
        let unlike = mean(like_ns3.iter().map(|run| jain(run))) - mean(group.iter().map(|row| row.jain));
        assert!(unlike.abs() <= 0.10, "{tag}: Jain {unlike:+.3}");
        let (like_ns3, like_linux) = (totals(&like_ns3), totals(&runs(Like::Linux)));
        println!("{tag}: {theirs:.1} Mbit/s; here {like_ns3:.1?}, like Linux {like_linux:.1?}");
        for row in &group {
            let range = like_ns3[0]..=like_ns3[like_ns3.len() - 1];
            assert!(range.contains(&row.total_mbps), "{tag}: {} is not in {range:?}", row.total_mbps);
            assert!(row.total_mbps < like_linux[0], "{tag}: {} of {}", row.total_mbps, like_linux[0]);
        }
        let off = |totals: &[f64]| mean(totals.iter().copied()) / theirs - 1.0;
        let (like_ns3, like_linux) = (off(&like_ns3), off(&like_linux));
        assert!(
            like_linux > 0.3 && like_ns3.abs() < like_linux / 2.0,
            "{tag}: {like_linux:+.3}, {like_ns3:+.3}"
        );
    }
}
