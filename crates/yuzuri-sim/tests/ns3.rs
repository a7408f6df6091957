//! Totals and fairness against ns-3.48, with Linux's recovery where it does not matter and with ns-3's where it does; all settings: `--example ns3`.

#[path = "common/ns3.rs"]
#[allow(dead_code)]
mod ns3;

use ns3::{Like, Ns3Row, settings};
use yuzuri_sim::fairness::jain;

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

/// How far what is here lies from ns-3: the total as a share of it, Jain's index.
fn off(group: &[Ns3Row], seeds: u64, like: Like) -> (f64, f64) {
    let runs: Vec<_> = (1..=seeds).map(|seed| ns3::ours(&group[0], seed, like).goodputs_total()).collect();
    let total = mean(runs.iter().map(|run| run.iter().sum()));
    let fair = mean(runs.iter().map(|run| jain(run)));
    let off = total / mean(group.iter().map(|row| row.total_mbps)) - 1.0;
    let unlike = fair - mean(group.iter().map(|row| row.jain));
    println!("{} {like:?}: total {off:+.3}, Jain {unlike:+.3}", group[0].tag);
    (off, unlike)
}

/// Whose total or fairness hangs on how losses are found and timeouts come about.
const DEPENDS_ON_RECOVERY: [&str; 6] =
    ["ac4_512_100", "ac1_512_100", "n16_64", "n6_64", "ac16_64_1G", "het_64_1G"];

#[test]
fn where_recovery_does_not_matter_linux_gives_what_ns3_gives() {
    let mut compared = 0;
    for group in settings().iter().filter(|group| !DEPENDS_ON_RECOVERY.contains(&group[0].tag.as_str())) {
        let (off, unlike) = off(group, 2, Like::Linux);
        assert!(off.abs() <= 0.10, "{}: total {off:+.3}", group[0].tag);
        // Two seeds of ns-3 itself are up to 0.17 apart (g16_64: 0.68 and 0.85).
        assert!(unlike.abs() <= 0.12, "{}: Jain {unlike:+.3}", group[0].tag);
        compared += 1;
    }
    assert_eq!(compared, 16);
}

/// ns-3 takes no reduction back, has no RACK, and asks for BlockAcks that it missed: with these ways instead of Linux's the rest comes out, too.
#[test]
fn where_it_does_ns3s_own_ways_give_what_ns3_gives() {
    for tag in DEPENDS_ON_RECOVERY {
        let settings = settings();
        let group = settings.iter().find(|group| group[0].tag == tag).expect("a setting of that name");
        let long = group[0].rtt_ms > 500;
        let seeds = if long { 10 } else { 3 };
        let (like_ns3, unlike) = off(group, seeds, Like::Ns3 { least_rto_ms: 1000 });
        if long {
            // Most of the difference is explained; with four stations a fifth of the total is not.
            let (like_linux, _) = off(group, seeds, Like::Linux);
            assert!(
                like_linux > 0.3 && like_ns3.abs() < like_linux / 2.0,
                "{tag}: {like_linux:+.3}, {like_ns3:+.3}"
            );
        }
        if tag != "ac4_512_100" {
            assert!(like_ns3.abs() <= 0.10, "{tag}: total {like_ns3:+.3}");
        }
        // The two seeds of ns-3 are 0.29 apart with six stations of 11n: 0.64 and 0.93.
        let limit = if tag == "n6_64" { 0.29 } else { 0.10 };
        assert!(unlike.abs() <= limit, "{tag}: Jain {unlike:+.3}");
    }
}
