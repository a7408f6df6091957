//! Measures the simulation's speed: simulated seconds per second of CPU time.

use yuzuri_netmodel::radio::Phy;
use yuzuri_sim::{NoBounds, Scenario, SenderConfig, Terminal, path};

/// Prints a row for each setting.
pub fn run() -> anyhow::Result<()> {
    println!(
        "terminals, radio, path, simulated s, CPU s, simulated s per CPU s, events/s of CPU, total Mbit/s, Jain"
    );
    let ac = Phy::ac(80, 1, 9);
    let settings = [
        (4, Phy::g(54), 100_000_000, 50, 64_000, 60_000),
        (16, Phy::n(20, 1, 7), 100_000_000, 1000, 64_000, 60_000),
        (1, ac, 1_000_000_000, 1000, 2_000, 30_000),
        (16, ac, 1_000_000_000, 1000, 64_000, 30_000),
        (16, ac, 100_000_000, 50, 64_000, 30_000),
        (64, ac, 1_000_000_000, 1000, 16_000, 30_000),
        (1000, ac, 1_000_000_000, 1000, 64_000, 20_000),
    ];
    for (terminals, phy, rate_bps, packets, rtt_us, duration_ms) in settings {
        let sender = SenderConfig { window_bytes: 32 << 20, ..SenderConfig::default() };
        let scenario = Scenario::wireless(
            &vec![phy; terminals],
            path(rate_bps, packets, rtt_us),
            vec![Terminal::uploading().with_sender(sender); terminals],
            duration_ms,
        );
        let results = yuzuri_sim::run(&scenario, &mut NoBounds)?;
        println!(
            "{terminals:5}, {phy:?}, {} Mbit/s {packets} packets {} ms, {:.0}, {:.2}, {:.1}, {:.2e}, {:.1}, {:.3}",
            rate_bps / 1_000_000,
            rtt_us / 1000,
            results.simulated_s,
            results.cpu_s,
            results.simulated_s / results.cpu_s,
            results.events as f64 / results.cpu_s,
            results.total_mbps(),
            results.jain()
        );
    }
    Ok(())
}
