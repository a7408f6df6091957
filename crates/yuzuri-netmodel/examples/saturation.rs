//! Benchmark of the cell model: simulated seconds per CPU second when all stations upload at
//! saturation.
//!
//! `cargo run -p yuzuri-netmodel --release --example saturation [seconds]`

#[path = "../tests/window/mod.rs"]
mod window;

use window::Uploads;
use yuzuri_netmodel::Time;
use yuzuri_netmodel::queue::{FqCodelConfig, QueueConfig};
use yuzuri_netmodel::radio::{CellConfig, Phy, StationConfig};
use yuzuri_netmodel::wire::{LineConfig, WireConfig};

/// CPU time of this process, seconds.
fn cpu_seconds() -> Result<f64, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string("/proc/self/schedstat")?;
    Ok(text.split_whitespace().next().unwrap_or("0").parse::<f64>()? / 1e9)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds: f64 = std::env::args().nth(1).map_or(Ok(30.0), |text| text.parse())?;
    let wire = WireConfig::symmetric(LineConfig {
        rate_bps: Some(1_000_000_000),
        delay_us: 32_000,
        ..LineConfig::default()
    });
    let drop_tail = QueueConfig::drop_tail(400);
    let fq_codel = QueueConfig::FqCodel(FqCodelConfig { target_us: 20_000, ..FqCodelConfig::default() });
    let settings = [
        ("16 x ac 390 Mbit/s", Phy::ac(80, 1, 9), 16, 122.0, &drop_tail),
        ("16 x ac, FQ-CoDel", Phy::ac(80, 1, 9), 16, 122.0, &fq_codel),
        ("64 x ac 390 Mbit/s", Phy::ac(80, 1, 9), 64, 30.0, &drop_tail),
        ("16 x ax 1201 Mbit/s", Phy::ax(80, 2, 11), 16, 400.0, &drop_tail),
        ("16 x n 65 Mbit/s", Phy::n(20, 1, 7), 16, 24.0, &drop_tail),
        ("64 x g 54 Mbit/s", Phy::g(54), 64, 6.0, &drop_tail),
        ("1000 x g 54 Mbit/s", Phy::g(54), 1000, 2.0, &drop_tail),
    ];
    println!("setting              Mbit/s  (second half)  RTT ms    Jain  simulated s per CPU s");
    for (name, phy, stations, window, queue) in settings {
        let mut cell = CellConfig::new(vec![StationConfig::new(phy); stations]);
        cell.ap.queue = queue.clone();
        let bounds = vec![window; stations];
        let before = cpu_seconds()?;
        let uploads = Uploads::new(&cell, &wire, &bounds, Time::from_secs_f64(0.5), Time::ZERO, 1)?;
        let (result, ..) = uploads.run(seconds);
        let used = cpu_seconds()? - before;
        println!(
            "{name:18} {:6.1} {:14.1} {:7.1} {:7.3} {:22.0}",
            result.total_mbps(),
            result.second_half_mbps(),
            result.mean_rtt_ms,
            result.jain(),
            seconds / used
        );
    }
    Ok(())
}
