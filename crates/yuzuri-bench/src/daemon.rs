//! Measures the sharing daemon on a host with many flows: CPU use, memory, and its status.

use crate::cpu;
use crate::ends::{DEFAULT_CCA, Endpoints};
use crate::figure::{Figure, Section, Target};
use crate::messages::{MessageArgs, Messages};
use crate::tidy::{KillOnDrop, Stop};
use crate::{Paths, Scale};
use anyhow::{Context, bail, ensure};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use yuzuri_testnet::{Net, Side};

const FLOWS: u32 = 18_000;
/// The daemon scans all flows, including idle ones, once in 60 s. A measurement covers one scan.
const MEASUREMENT: Duration = Duration::from_secs(60);
/// Every flow exchanges a message within this time, so that none is idle.
const ROUND: Duration = Duration::from_secs(2);
const TRAFFIC_CPU: usize = 0;

/// Runs the benchmark.
pub fn run(paths: &Paths, scale: Scale, stop: &Stop) -> anyhow::Result<Section> {
    let mut section = Section::new(
        "The sharing daemon with 18,000 flows",
        "`yuzuri share` in a namespace with 18,000 connections of one process to another namespace, all under its control. \
         Idle: no traffic, and the daemon counts every flow as idle. Busy: each flow has a request of 64 bytes and a \
         response of 256 every 2 s, so that none is idle. CPU time is the daemon's, user and kernel, over 60 s; resident \
         memory is from /proc/PID/status. The time of `share status` is from the command's start to its exit; its \
         size is that of `--json`.",
    );
    let net = Net::new().map_err(anyhow::Error::msg)?;
    let mut messages = Messages::start(&MessageArgs {
        ends: Endpoints::of(&net).on_cpu(TRAFFIC_CPU).with_control(DEFAULT_CCA),
        connections: FLOWS as usize,
        bulk: 0,
    })?;
    let daemon = Daemon::start(paths, &net)?;
    daemon.wait_until(stop, "all flows idle", |counts| counts["all"] == FLOWS && counts["idle"] == FLOWS)?;
    let rounds = scale.of(3, 1);
    let (mut idle, mut memory) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        eprintln!("daemon: {FLOWS} idle flows, round {} of {rounds}", round + 1);
        idle.push(daemon.cpu_percent(|| stop.sleep(MEASUREMENT))?);
        memory.push(daemon.resident_mb()?);
    }
    measure_status(&mut section, &daemon, scale, stop)?;
    let idle = Figure::of("idle flows: CPU", "% of one", &idle);
    section.add(idle.map(|f| f.with_target(Target::Below(2.0))), "CPU");
    let memory = Figure::of("idle flows: resident", "MB", &memory);
    section.add(memory.map(|f| f.with_target(Target::Below(20.0))), "memory");

    let (mut busy, mut memory) = (Vec::new(), Vec::new());
    for round in 0..scale.of(3, 1) {
        eprintln!("daemon: {FLOWS} busy flows, round {}", round + 1);
        // After one message each, no flow is idle.
        exchange(&mut messages, stop, ROUND * 2)?;
        busy.push(daemon.cpu_percent(|| exchange(&mut messages, stop, MEASUREMENT / 3))?);
        memory.push(daemon.resident_mb()?);
    }
    section.add(Figure::of("busy flows: CPU", "% of one", &busy), "CPU");
    section.add(Figure::of("busy flows: resident", "MB", &memory), "memory");
    section.add(Figure::of("resident, peak", "MB", &[daemon.memory_mb("VmHWM")?]), "peak");
    daemon.finish()?;
    Ok(section)
}

/// Exchanges one message per flow and [`ROUND`], evenly spaced, for `time`.
fn exchange(messages: &mut Messages, stop: &Stop, time: Duration) -> anyhow::Result<()> {
    let batch = FLOWS / 100;
    let started = Instant::now();
    let mut done = 0;
    while started.elapsed() < time {
        messages.exchange(batch.into(), 0)?;
        done += 1;
        stop.sleep((ROUND * done / 100).saturating_sub(started.elapsed()))?;
    }
    Ok(())
}

/// Measures the status query, with the largest flows and with all flows.
fn measure_status(section: &mut Section, daemon: &Daemon, scale: Scale, stop: &Stop) -> anyhow::Result<()> {
    for (name, args) in [("share status", &["--json"][..]), ("share status --all", &["--json", "--all"])] {
        let (mut times, mut sizes) = (Vec::new(), Vec::new());
        for _ in 0..scale.of(20, 5) {
            stop.check()?;
            let started = Instant::now();
            let output = daemon.status(args)?;
            times.push(started.elapsed().as_secs_f64() * 1e3);
            sizes.push(output.len() as f64 / 1e3);
        }
        section.add(Figure::of(format!("{name}: time"), "ms", &times), name);
        section.add(Figure::of(format!("{name}: size"), "kB", &sizes), name);
    }
    Ok(())
}

/// A running daemon in the namespace of side A.
struct Daemon {
    child: KillOnDrop,
    yuzuri: PathBuf,
    /// Its key, runtime directory and state directory.
    folder: tempfile::TempDir,
}

impl Daemon {
    fn start(paths: &Paths, net: &Net) -> anyhow::Result<Daemon> {
        let folder = tempfile::tempdir_in(&paths.memory).context("creating a folder for the daemon")?;
        let key = folder.path().join("key");
        output_of(Command::new(&paths.yuzuri).args(["share", "key"]).arg(&key))?;
        // Without this file the daemon would read the machine's own configuration.
        let config = folder.path().join("share.toml");
        std::fs::write(&config, "").context("writing the daemon's configuration")?;
        let mut command = net.command(Side::A, &paths.yuzuri.to_string_lossy());
        command.args(["share", "--group", "bench", "--control", &format!("bench{}", std::process::id())]);
        command.arg("--config").arg(&config).arg("--key-file").arg(&key);
        command.arg("--runtime").arg(folder.path().join("run"));
        command.arg("--state").arg(folder.path().join("state"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = KillOnDrop::spawn(&mut command)?;
        let mut messages = Vec::new();
        let mut lines = BufReader::new(child.0.stderr.take().context("the daemon's messages")?).lines();
        for line in lines.by_ref().map_while(Result::ok) {
            if line.contains("sharing; ") {
                // Drain further output, so that the daemon does not block on a full pipe.
                std::thread::spawn(move || lines.for_each(drop));
                return Ok(Daemon { child, yuzuri: paths.yuzuri.clone(), folder });
            }
            messages.push(line);
        }
        bail!("`yuzuri share` exited before sharing: {}", messages.join("; "))
    }

    fn runtime(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    /// The output of `yuzuri share status`.
    fn status(&self, args: &[&str]) -> anyhow::Result<Vec<u8>> {
        let mut command = Command::new(&self.yuzuri);
        command.args(["share", "status", "--runtime"]).arg(self.runtime()).args(args);
        output_of(&mut command)
    }

    /// Waits until the flow counts satisfy `holds`.
    fn wait_until(&self, stop: &Stop, what: &str, holds: impl Fn(&Value) -> bool) -> anyhow::Result<()> {
        let started = Instant::now();
        loop {
            let status: Value = serde_json::from_slice(&self.status(&["--json"])?).context("the status")?;
            let counts = &status["interfaces"][0]["flow_counts"];
            if holds(counts) {
                return Ok(());
            }
            ensure!(started.elapsed() < Duration::from_secs(60), "{what}: not within 60 s: {counts}");
            stop.sleep(Duration::from_millis(500))?;
        }
    }

    /// The daemon's CPU use while `work` runs, percent of one core.
    fn cpu_percent(&self, work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<f64> {
        let (started, before) = (Instant::now(), cpu::process_ns(self.child.pid())?);
        work()?;
        let used = cpu::process_ns(self.child.pid())? - before;
        Ok(used as f64 / started.elapsed().as_nanos() as f64 * 100.0)
    }

    fn memory_mb(&self, field: &str) -> anyhow::Result<f64> {
        Ok(cpu::status_kb(self.child.pid(), field)? * 1024.0 / 1e6)
    }

    fn resident_mb(&self) -> anyhow::Result<f64> {
        self.memory_mb("VmRSS")
    }

    /// Stops the daemon with SIGINT, which restores the flows' previous algorithm.
    fn finish(mut self) -> anyhow::Result<()> {
        self.child.interrupt(Duration::from_secs(20))
    }
}

/// The standard output of a command; an error with its message if it fails.
fn output_of(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    let program = Path::new(command.get_program()).display().to_string();
    let output = command.output().with_context(|| format!("starting {program}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(output.stdout)
}
