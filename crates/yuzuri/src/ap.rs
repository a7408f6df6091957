//! `yuzuri ap`: the daemon of an access point, and its status.

use crate::daemon::{self, Signals, Task, Tasks, Watchdog, notify};
use anyhow::Context;
use clap::{Args, Subcommand};
use sd_notify::NotifyState;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use yuzuri_exit::UsageError;
use yuzuri_policy::{Objective, PolicyConfig, PolicyName, SlowRadio};
use yuzuri_share::{
    ApConfig, ApGroup, ApLoop, ControlSocket, DaemonFiles, Devices, RadioConfig, Rules, StationId,
    StationRule,
};
use yuzuri_stats::counted;

pub const ENDS: &str = "\
The gate lowers the receive window in ACKs to the stations, and passes whatever it does not fully understand unchanged. It drops \
packets in two cases only: ACKs that later ones make redundant (--thin-acks), and traffic without a TCP window beyond a station's \
share (not with --no-police). If the daemon dies, all bounds expire within 2 s. Packets that hardware forwards (flow offload) \
bypass the gate.";

pub type ApArgs = Tasks<RunArgs, ApTask>;

#[derive(Debug, Subcommand)]
pub enum ApTask {
    /// Show the running daemon's stations, their shares and their uploads
    Status(StatusArgs),
    /// Check a configuration file
    Check {
        /// Configuration file
        file: PathBuf,
    },
}

/// Options of the daemon.
#[derive(Debug, Default, Args)]
pub struct RunArgs {
    /// Configuration file; options override it. SIGHUP reads it again
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Device towards the stations, such as the bridge; may be repeated
    ///
    /// Name the bridge, or the device of each radio, but not both: a connection must pass the gate
    /// once.
    #[arg(long, short, value_name = "NAME")]
    interface: Vec<String>,

    /// Measure and decide, but bound nothing
    #[arg(long)]
    dry_run: bool,

    /// Objective [default: balanced]
    #[arg(long, value_name = "NAME", value_parser = crate::units::objective())]
    objective: Option<Objective>,

    /// Hardware address of a station that is never bounded; may be repeated
    #[arg(long, value_name = "MAC")]
    exempt: Vec<StationId>,

    /// PHY rate of every station, for radios that the kernel does not report, such as `65:n`,
    /// `390:ac` or `54:g`
    #[arg(long, value_name = "RATE:STANDARD")]
    radio: Option<RadioConfig>,

    /// Radios on which to drop ACKs that later ones make redundant: g (a, b and g), n
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    thin_acks: Vec<SlowRadio>,

    /// Do not limit a station's traffic that no window bounds (QUIC and other UDP, tunnels) to its
    /// share
    #[arg(long)]
    no_police: bool,

    /// Key file of the stations that run `yuzuri share`: the access point then leads their group,
    /// and they bound themselves
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,

    /// Attach by clsact, which kernels before 6.6 need, instead of tcx
    #[arg(long)]
    clsact: bool,

    /// Folder for the lock and the status [default: /run/yuzuri]
    #[arg(long, value_name = "FOLDER")]
    runtime: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Print Prometheus' text format
    #[arg(long, conflicts_with = "json")]
    metrics: bool,

    /// Refresh every second until Ctrl-C
    #[arg(long)]
    watch: bool,

    /// Folder of the daemon's status [default: /run/yuzuri]
    #[arg(long, value_name = "FOLDER")]
    runtime: Option<PathBuf>,
}

/// Runs the chosen command.
pub fn run(args: ApArgs) -> anyhow::Result<ExitCode> {
    match args.chosen() {
        Task::Run(args) => serve(&args),
        Task::Other(ApTask::Status(args)) => status(&args),
        Task::Other(ApTask::Check { file }) => {
            let (_, rules) = yuzuri_share::read_ap_file(&file)?;
            println!(
                "{}: valid; rules of their own: {}",
                file.display(),
                counted(rules.stations.len(), "station")
            );
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn note(what: &str) {
    yuzuri_exit::note!("yuzuri ap: {what}");
}

/// The configuration from the file and the flags.
struct EffectiveConfig {
    devices: Devices,
    dry_run: bool,
    objective: Objective,
    rules: Rules,
    radio: Option<RadioConfig>,
    clsact: bool,
    metrics_file: Option<PathBuf>,
    hostapd: Vec<PathBuf>,
    group: Option<ApGroup>,
}

impl EffectiveConfig {
    fn of(args: &RunArgs) -> anyhow::Result<EffectiveConfig> {
        let (file, mut rules) = match &args.config {
            Some(path) => yuzuri_share::read_ap_file(path)?,
            None => Default::default(),
        };
        let left_alone = |station: &StationId| (*station, StationRule { exempt: true, ..rules.of(*station) });
        let exempt: Vec<_> = args.exempt.iter().map(left_alone).collect();
        rules.stations.extend(exempt);
        if !args.thin_acks.is_empty() {
            rules.thin_acks.clone_from(&args.thin_acks);
        }
        rules.no_police |= args.no_police;
        // The file was checked when it was read.
        let radio = file.radio().ok().flatten();
        let devices = if args.interface.is_empty() { file.interface } else { args.interface.clone() };
        Ok(EffectiveConfig {
            devices: Devices::new(devices).map_err(|error| UsageError::new(error.to_string()))?,
            dry_run: args.dry_run || file.dry_run,
            objective: args.objective.or(file.objective).unwrap_or_default(),
            rules,
            radio: args.radio.or(radio),
            clsact: args.clsact || file.clsact,
            metrics_file: file.metrics_file,
            hostapd: file.steering.hostapd,
            group: file.members.group(args.key_file.as_deref()),
        })
    }
}

fn serve(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let signals = Signals::take().context("preparing for signals")?;
    let chosen = EffectiveConfig::of(args)?;
    let files = DaemonFiles::of_access_point(args.runtime.clone());
    let instance_lock = files.take()?;
    let dry_run = chosen.dry_run;
    let mut ap = ApLoop::start(ApConfig {
        policy: PolicyConfig { name: PolicyName::Yuzuri, objective: chosen.objective, capacity_bps: None },
        dry_run,
        rules: chosen.rules,
        radio: chosen.radio,
        gate: yuzuri_share::gate_options(!chosen.clsact),
        status_file: Some(files.status_file()),
        metrics_file: chosen.metrics_file,
        hostapd: chosen.hostapd,
        group: chosen.group,
        ..ApConfig::new(chosen.devices)
    })?;
    ap.drop_privileges()?;
    yuzuri_share::give_back_memory();
    let socket = ControlSocket::of_text(&files.socket(), ap.text())?;
    let what = if dry_run { "only reporting what it would do" } else { "sharing" };
    let folder = files.status_file();
    note(&format!("{what}; `yuzuri ap status` reads {}", folder.display()));
    let mut watchdog = Watchdog::ready();
    let mut reported = Vec::new();
    while !signals.stopped() {
        if signals.take_reload() {
            match EffectiveConfig::of(args) {
                Ok(EffectiveConfig { rules, objective, radio, dry_run, .. }) => {
                    ap.reload(rules, objective, radio);
                    ap.set_dry_run(dry_run);
                    note(
                        "the settings were reloaded; devices, clsact, the metrics file, hostapd's sockets \
                         and the members' key need a restart",
                    );
                }
                Err(error) => note(&format!("the settings stay as they were: {error:#}")),
            }
        }
        ap.step(&signals.stop);
        if let Some(device) = ap.lost_device() {
            anyhow::bail!(
                "device {device} was removed or recreated, and the gate with it: connections are not bounded; restart the daemon (a service manager does this)"
            );
        }
        // Report each problem once, and again only after it has changed.
        if ap.status().problems != reported {
            reported.clone_from(&ap.status().problems);
            reported.iter().for_each(|problem| note(problem));
        }
        watchdog.notify();
    }
    notify(&[NotifyState::Stopping]);
    // A second signal ends the process immediately.
    ap.leave(&AtomicBool::new(false));
    drop(socket);
    drop(instance_lock);
    Ok(ExitCode::SUCCESS)
}

fn status(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let file = DaemonFiles::of_access_point(args.runtime.clone()).status_file();
    daemon::show(args.watch, !args.json, || {
        let status = yuzuri_share::read_ap_status(&file)?;
        Ok(match (args.json, args.metrics) {
            (true, _) => format!("{}\n", serde_json::to_string(&status)?),
            (_, true) => yuzuri_share::ap_metrics(&status),
            _ => status.table(),
        })
    })?;
    Ok(ExitCode::SUCCESS)
}
