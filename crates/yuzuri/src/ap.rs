//! `yuzuri ap`: the daemon of an access point, and its status.

use crate::share::{notify, objective};
use clap::{Args, Subcommand};
use sd_notify::NotifyState;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use yuzuri_policy::{Aggregation, Objective, PolicyConfig, PolicyName, SlowRadio};
use yuzuri_share::{ApConfig, ApLoop, Places, RadioConfig, StationId};

pub const ENDS: &str = "\
The gate lowers the receive window in ACKs to the stations. It drops no packet, and touches nothing that it does not wholly \
understand. If the daemon dies, all is as before within 2 s. Stations whose packets are forwarded by hardware (flow offload) \
pass by it.";

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ApArgs {
    #[command(subcommand)]
    task: Option<Task>,

    #[command(flatten)]
    run: RunArgs,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Run the daemon until it receives a signal (the default command)
    Run(Box<RunArgs>),
    /// Show the running daemon's stations, their shares and their uploads
    Status(StatusArgs),
}

/// Options of the daemon.
#[derive(Debug, Default, Args)]
struct RunArgs {
    /// Device towards the stations, such as the bridge; may be repeated
    ///
    /// Name the bridge, or the device of each radio, but not both: a connection must pass the gate once.
    #[arg(long, short, value_name = "NAME")]
    interface: Vec<String>,

    /// Only tell what would be done: measure, decide, bound nothing
    #[arg(long)]
    dry_run: bool,

    /// Objective: throughput, balanced or latency [default: balanced]
    #[arg(long, value_name = "NAME", value_parser = objective)]
    objective: Option<Objective>,

    /// Hardware address of a station that is left alone; may be repeated
    #[arg(long, value_name = "MAC", value_parser = station)]
    exempt: Vec<StationId>,

    /// PHY rate of every station, for radios that the kernel does not report, such as `65:n`, `390:ac` or `54:g`
    #[arg(long, value_name = "MBIT:STANDARD", value_parser = radio)]
    radio: Option<RadioConfig>,

    /// Radios on which ACKs are left out that later ones make needless: g (a, b and g), n
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    thin_acks: Vec<SlowRadio>,

    /// Leave alone what no window bounds (QUIC and other UDP, tunnels), instead of keeping it to its share
    #[arg(long)]
    no_police: bool,

    /// Attach by clsact, as kernels before 6.6 need, instead of tcx
    #[arg(long)]
    clsact: bool,

    /// Folder for the lock and the status [default: /run/yuzuri]
    #[arg(long, value_name = "FOLDER")]
    runtime: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct StatusArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Refresh every second until Ctrl-C
    #[arg(long)]
    watch: bool,

    /// Folder of the daemon's status [default: /run/yuzuri]
    #[arg(long, value_name = "FOLDER")]
    runtime: Option<PathBuf>,
}

/// A hardware address, six pairs of hexadecimal digits.
fn station(text: &str) -> Result<StationId, String> {
    let wrong = || format!("'{text}' is no hardware address: write it as 02:00:5e:10:00:01");
    let pairs: Vec<&str> = text.split([':', '-']).collect();
    let bytes: Option<Vec<u8>> = pairs
        .iter()
        .map(|pair| (pair.len() == 2).then(|| u8::from_str_radix(pair, 16).ok()).flatten())
        .collect();
    bytes.and_then(|bytes| bytes.try_into().ok()).map(StationId).ok_or_else(wrong)
}

/// `RATE:STANDARD`.
fn radio(text: &str) -> Result<RadioConfig, String> {
    let wrong = || {
        format!(
            "'{text}' is no radio: write RATE:STANDARD, a rate of 0.1 to 100000 Mbit/s and g, n, ac or ax"
        )
    };
    let (rate, standard) = text.split_once(':').ok_or_else(wrong)?;
    let rate_mbps = rate.parse().ok().filter(|rate| (0.1..=100_000.0).contains(rate)).ok_or_else(wrong)?;
    let aggregation = match standard {
        "a" | "b" | "g" => Aggregation::None,
        "n" => Aggregation::Ht,
        "ac" | "ax" | "be" => Aggregation::Vht,
        _ => return Err(wrong()),
    };
    Ok(RadioConfig { rate_mbps, aggregation })
}

/// Runs the chosen command.
pub fn run(args: ApArgs) -> anyhow::Result<ExitCode> {
    match args.task {
        None => daemon(args.run),
        Some(Task::Run(args)) => daemon(*args),
        Some(Task::Status(args)) => status(&args),
    }
}

fn say(what: &str) {
    eprintln!("yuzuri ap: {what}");
}

fn daemon(args: RunArgs) -> anyhow::Result<ExitCode> {
    let stop = yuzuri_exit::stop_flag()?;
    let places = Places::of_access_point(args.runtime);
    let sole = places.take()?;
    let objective = args.objective.unwrap_or_default();
    let mut ap = ApLoop::start(ApConfig {
        devices: args.interface,
        policy: PolicyConfig { name: PolicyName::Yuzuri, objective, capacity_bps: None },
        dry_run: args.dry_run,
        exempt: args.exempt,
        radio: args.radio,
        thin_acks: args.thin_acks,
        no_police: args.no_police,
        gate: yuzuri_share::gate_options(!args.clsact),
        status_file: Some(places.status_file()),
        ..ApConfig::default()
    })?;
    ap.drop_privileges()?;
    yuzuri_share::give_back_memory();
    let what = if args.dry_run { "only telling what it would do" } else { "sharing" };
    let folder = places.status_file();
    say(&format!("{what}; `yuzuri ap status` reads {}", folder.display()));
    notify(&[NotifyState::Ready]);
    let watchdog = sd_notify::watchdog_enabled().map(|within| within / 2);
    let mut fed = Instant::now();
    let mut told = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        ap.step(&stop);
        // Each problem once, until it is another.
        if ap.status().problems != told {
            told.clone_from(&ap.status().problems);
            told.iter().for_each(|problem| say(problem));
        }
        if watchdog.is_some_and(|each| fed.elapsed() >= each) {
            fed = Instant::now();
            notify(&[NotifyState::Watchdog]);
        }
    }
    notify(&[NotifyState::Stopping]);
    // A second signal ends the process at once.
    ap.leave(&AtomicBool::new(false));
    drop(sole);
    Ok(ExitCode::SUCCESS)
}

fn status(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let file = Places::of_access_point(args.runtime.clone()).status_file();
    let stop = yuzuri_exit::stop_flag()?;
    loop {
        let status = yuzuri_share::read_ap_status(&file)?;
        let text = if args.json { format!("{}\n", serde_json::to_string(&status)?) } else { status.table() };
        let mut out = std::io::stdout().lock();
        if args.watch && out.is_terminal() && !args.json {
            out.write_all(b"\x1b[H\x1b[2J")?;
        }
        out.write_all(text.as_bytes())?;
        out.flush()?;
        if !args.watch || stop.load(Ordering::Relaxed) {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn stations_and_radios_are_read() {
        assert_eq!(station("02:00:5E:10:00:01").unwrap(), StationId([2, 0, 0x5e, 0x10, 0, 1]));
        for wrong in ["", "02:00:5e:10:00", "02:00:5e:10:00:01:02", "2:0:5e:10:0:1", "02:00:5e:10:00:0g"] {
            assert!(station(wrong).is_err(), "{wrong}");
        }
        assert_eq!(radio("65:n").unwrap(), RadioConfig { rate_mbps: 65.0, aggregation: Aggregation::Ht });
        for wrong in ["65", "0:n", "n:65", "65:", "65:xy", "NaN:n"] {
            assert!(radio(wrong).is_err(), "{wrong}");
        }
    }
}
