//! Algorithms that no kernel trace covers: DCTCP with marks, BBRv3.

use yuzuri_netmodel::queue::{CodelConfig, QueueConfig};
use yuzuri_netmodel::wire::{LineConfig, WireConfig};
use yuzuri_sim::cc::Algorithm;
use yuzuri_sim::{NoBounds, Results, Scenario, SenderConfig, Terminal, TerminalResult, run};

const RATE_BPS: u64 = 20_000_000;
const DELAY_US: u64 = 50_000;
/// Bandwidth-delay product of the path, segments: 20 Mbit/s, 50 ms, 1514 bytes.
const BDP: f64 = 82.6;
const WARM_UP_S: f64 = 5.0;

fn results_of(algorithm: Algorithm, queue: QueueConfig, seconds: u64) -> Results {
    let wire = WireConfig {
        up: LineConfig { rate_bps: Some(RATE_BPS), overhead_bytes: 0, queue, ..LineConfig::default() },
        down: LineConfig { delay_us: DELAY_US, ..LineConfig::default() },
    };
    let sender = SenderConfig { algorithm, ..SenderConfig::default() };
    let terminal = Terminal::uploading().with_sender(sender);
    let mut scenario = Scenario::wired(wire, vec![terminal], seconds * 1000);
    scenario.warm_up_ms = (WARM_UP_S * 1000.0) as u64;
    scenario.trace_every_ms = Some(10);
    run(&scenario, &mut NoBounds).expect("a consistent scenario")
}

/// Time and window after warm-up.
fn windows(terminal: &TerminalResult) -> Vec<(f64, f64)> {
    let warm = terminal.trace.iter().filter(|point| point.at_s >= WARM_UP_S);
    warm.map(|point| (point.at_s, point.cwnd.into())).collect()
}

#[test]
fn codel_marks_limit_dctcp_and_drops_limit_reno() {
    let codel = QueueConfig::Codel(CodelConfig::default());
    let marked = results_of(Algorithm::Dctcp, codel.clone(), 30);
    let dropped = results_of(Algorithm::Reno, codel, 30);
    let (dctcp, reno) = (&marked.terminals[0], &dropped.terminals[0]);
    let drops = [marked.wire.up.drops, dropped.wire.up.drops];
    println!(
        "DCTCP {:.2} Mbit/s, {:?}; Reno {:.2}, {:?}",
        dctcp.goodput_mbps, drops[0], reno.goodput_mbps, drops[1]
    );
    assert!(drops[0].marked > 500 && drops[0].aqm == 0);
    assert!(drops[1].marked == 0 && drops[1].aqm > 0);
    assert_eq!(dctcp.counts_warm.retransmissions, 0);
    assert!(dctcp.goodput_mbps > 19.0 && reno.goodput_mbps < 17.0);
    // Reductions are proportional to the fraction of marked segments.
    let min_over_max = |terminal| {
        let windows = windows(terminal);
        let min = windows.iter().map(|(_, cwnd)| *cwnd).fold(f64::MAX, f64::min);
        min / windows.iter().map(|(_, cwnd)| *cwnd).fold(0.0, f64::max)
    };
    assert!(min_over_max(dctcp) > 0.9, "{}", min_over_max(dctcp));
    assert!(min_over_max(reno) < 0.6, "{}", min_over_max(reno));
}

#[test]
fn bbr3_drains_to_half_the_bdp_every_five_seconds() {
    let results = results_of(Algorithm::Bbr3, QueueConfig::drop_tail(99), 60);
    let terminal = &results.terminals[0];
    println!(
        "{:.2} Mbit/s, srtt {:.1} ms, {:?}",
        terminal.goodput_mbps, terminal.srtt_mean_ms, terminal.counts
    );
    assert!(terminal.goodput_mbps > 18.2);
    assert!(terminal.srtt_mean_ms < 57.0);
    assert_eq!(terminal.counts.retransmissions, 0);
    let windows = windows(terminal);
    let starts: Vec<f64> = windows
        .windows(2)
        .filter(|pair| pair[0].1 > 0.6 * BDP && pair[1].1 <= 0.6 * BDP)
        .map(|pair| pair[1].0)
        .collect();
    assert!((9..=11).contains(&starts.len()), "{starts:?}");
    assert!(starts.windows(2).all(|s| (5.0..5.7).contains(&(s[1] - s[0]))), "{starts:?}");
    let drained: Vec<f64> = windows.iter().map(|w| w.1).filter(|cwnd| *cwnd <= 0.6 * BDP).collect();
    assert!(drained.iter().all(|cwnd| (cwnd / BDP - 0.5).abs() < 0.05), "{drained:?}");
    // Two bandwidth-delay products while cruising, 2.25 while probing.
    let max = windows.iter().map(|w| w.1).fold(0.0, f64::max) / BDP;
    assert!((2.2..2.45).contains(&max), "{max}");
}

#[test]
fn bbr3_leaves_headroom_in_a_short_buffer_where_bbr1_keeps_losing() {
    let short = QueueConfig::drop_tail(20);
    let results = results_of(Algorithm::Bbr3, short.clone(), 60);
    let terminal = &results.terminals[0];
    let loss_rate = |terminal: &TerminalResult| {
        terminal.counts_warm.retransmissions as f64 / terminal.counts_warm.segments as f64
    };
    let first = results_of(Algorithm::Bbr, short, 60);
    println!("lost: {:.4}, version 1 {:.4}", loss_rate(terminal), loss_rate(&first.terminals[0]));
    assert!(loss_rate(terminal) < 0.005 && terminal.goodput_mbps > 18.2);
    assert!(loss_rate(&first.terminals[0]) > 2.0 * loss_rate(terminal));
    // 15 % below the window at which probing caused loss: the path's BDP plus its queue of 20
    // packets.
    let mut windows: Vec<f64> = windows(terminal).iter().map(|w| w.1).collect();
    windows.sort_by(f64::total_cmp);
    let median = windows[windows.len() / 2] / (0.85 * (BDP + 21.0));
    assert!((0.95..1.08).contains(&median), "{median}");
}
