//! Compares cell and wire with ns-3.48 in settings whose bounded windows leave no decision to TCP.
//!
//! Prints the results of both. Fails if the total differs by more than 5 %, the mean RTT by more
//! than 15 % or Jain's index by more than 0.05.
//! `cargo test -p yuzuri-netmodel --release --test ns3_capped -- --nocapture`

mod window;

use window::Uploads;
use yuzuri_netmodel::Time;
use yuzuri_netmodel::queue::QueueConfig;
use yuzuri_netmodel::radio::{CellConfig, Phy, StationConfig};
use yuzuri_netmodel::wire::{LineConfig, WireConfig};

const ROWS: &str = include_str!("data/ns3_capped.csv");

struct Row<'a> {
    names: &'a [&'a str],
    values: Vec<&'a str>,
}

impl Row<'_> {
    fn text(&self, name: &str) -> &str {
        let column = self.names.iter().position(|column| *column == name).expect("a column of that name");
        self.values[column]
    }
    fn number(&self, name: &str) -> f64 {
        self.text(name).parse().expect("a number")
    }
    fn list(&self, name: &str) -> Vec<f64> {
        self.text(name).split(';').map(|value| value.parse().expect("a number")).collect()
    }

    fn cell(&self) -> CellConfig {
        let stations = (0..self.number("n") as usize).map(|station| {
            let phy = match self.text("std") {
                // Two fast and two slow stations, as the windows in these rows show.
                _ if self.text("tag").starts_with("het") && station >= 2 => Phy::n(20, 1, 7),
                "g" => Phy::g(54),
                "n" => Phy::n(20, 1, 7),
                "ac" => Phy::ac(80, 1, 9),
                other => panic!("no such standard: {other}"),
            };
            StationConfig { queue: QueueConfig::drop_tail(1000), ..StationConfig::new(phy) }
        });
        let mut cell = CellConfig::new(stations.collect());
        // ns-3 does the same (UseExplicitBarAfterMissedBlockAck).
        cell.request_missed_block_ack = true;
        cell.ap.queue = QueueConfig::drop_tail(self.number("apqlen") as u32);
        cell
    }

    /// PSDUs and MPDUs that the stations sent (`phytx`) in excess of their segments and, without
    /// aggregation, their Acks, per segment.
    fn sent_again(&self) -> f64 {
        let segments = self.number("tot") * self.number("T") * 1e6 / (window::MSS * 8) as f64;
        let acks = if self.text("std") == "g" { self.number("ackin") } else { 0.0 };
        (self.number("phytx") - acks) / segments - 1.0
    }

    fn wire(&self) -> WireConfig {
        WireConfig::symmetric(LineConfig {
            rate_bps: Some((self.number("wired") * 1e6) as u64),
            delay_us: (self.number("rtt") * 500.0) as u64,
            queue: QueueConfig::drop_tail(self.number("wq") as u32),
            ..LineConfig::default()
        })
    }
}

#[test]
fn bounded_windows_match_ns3() {
    let mut lines = ROWS.lines().filter(|line| !line.starts_with('#'));
    let names: Vec<_> = lines.next().expect("a heading").split(',').collect();
    let mut failures = Vec::new();
    println!(
        "ours/ns-3               total Mbit/s               second half      mean RTT ms             Jain         AP queue  retransmitted"
    );
    for line in lines {
        let row = Row { names: &names, values: line.split(',').collect() };
        let seconds = row.number("T");
        let warm = Time::from_secs_f64((seconds / 4.0).min(5.0));
        let stagger = Time::from_secs_f64(0.5);
        let seed = row.number("seed") as u64;
        let uploads = Uploads::new(&row.cell(), &row.wire(), &row.list("cw"), stagger, warm, seed);
        let (ours, cell, _) = uploads.expect("a valid setting").run(seconds);
        let (total, rtt, jain) = (row.number("tot"), row.number("rttmean"), row.number("jain"));
        let percent = |ours: f64, theirs: f64| (ours / theirs - 1.0) * 100.0;
        let account = cell.account();
        println!(
            "{:21} {:6.2}/{:6.2} {:+5.1} %  {:6.2}/{:6.2}  {:5.1}/{:5.1} {:+5.1} %  {:.3}/{:.3}  {:5.1}/{:5.1}  {:.3}/{:.3}",
            format!("{} {}", row.text("tag"), seed),
            ours.total_mbps(),
            total,
            percent(ours.total_mbps(), total),
            ours.second_half_mbps(),
            row.number("toth"),
            ours.mean_rtt_ms,
            rtt,
            percent(ours.mean_rtt_ms, rtt),
            ours.jain(),
            jain,
            account.ap.queue.time_mean(account.at()),
            row.number("apq_mean"),
            account.stations.iter().map(|one| one.retries).sum::<u64>() as f64
                / account.stations.iter().map(|one| one.sent).sum::<u64>() as f64,
            row.sent_again(),
        );
        let beyond = |ours: f64, theirs: f64, share: f64| (ours / theirs - 1.0).abs() > share;
        if beyond(ours.total_mbps(), total, 0.05)
            || beyond(ours.mean_rtt_ms, rtt, 0.15)
            || (ours.jain() - jain).abs() > 0.05
        {
            failures.push(format!("{} seed {}", row.text("tag"), seed));
        }
    }
    assert!(failures.is_empty(), "beyond the limits: {failures:?}");
}
