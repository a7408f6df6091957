//! Measures the sharing daemon on a host with many flows: CPU use, memory, and its status.

use crate::cpu;
use crate::ends::{Ends, NOT_CHOSEN};
use crate::figure::{Figure, Section, Target};
use crate::messages::{MessageArgs, Messages};
use crate::tidy::{Guarded, Stop};
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
const MEASURED: Duration = Duration::from_secs(60);
/// Every flow exchanges a message within this time, so that none is idle.
const ROUND: Duration = Duration::from_secs(2);
const TRAFFIC_CPU: usize = 0;

/// Runs the benchmark.
pub fn run(paths: &Paths, scale: Scale, stop: &Stop) -> anyhow::Result<Section> {
    let mut section = Section::new(
        "The sharing daemon with 18,000 flows",
        "`yuzuri share` in a namespace with 18,000 connections of one process to another namespace, all under its control. \
         Idle: nothing is sent, and every flow rests. Busy: each flow has a request of 64 bytes and a response of 256 every \
         2 s, so that none rests. CPU time is that of the daemon's process over 60 s, with its part of the kernel; resident \
         memory is from /proc/PID/status. The time of `share status` is that of the command from its start to its end; its \
         bytes are those of `--json`.",
    );
    let net = Net::new().map_err(anyhow::Error::msg)?;
    let mut messages = Messages::start(&MessageArgs {
        ends: Ends::of(&net).on_cpu(TRAFFIC_CPU).under(NOT_CHOSEN),
        connections: FLOWS as usize,
        bulk: 0,
    })?;
    let daemon = Daemon::start(paths, &net)?;
    daemon
        .until(stop, "every flow at rest", |counts| counts["all"] == FLOWS && counts["resting"] == FLOWS)?;
    let rounds = scale.of(3, 1);
    let (mut idle, mut memory) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        eprintln!("daemon: {FLOWS} idle flows, round {} of {rounds}", round + 1);
        idle.push(daemon.share_of_a_core(|| stop.sleep(MEASURED))?);
        memory.push(daemon.resident_mb()?);
    }
    ask(&mut section, &daemon, scale, stop)?;
    let idle = Figure::of("idle flows: CPU", "% of one", &idle);
    section.add(idle.map(|f| f.must(Target::Below(2.0))), "CPU");
    let memory = Figure::of("idle flows: resident", "MB", &memory);
    section.add(memory.map(|f| f.must(Target::Below(20.0))), "memory");

    let (mut busy, mut memory) = (Vec::new(), Vec::new());
    for round in 0..scale.of(3, 1) {
        eprintln!("daemon: {FLOWS} busy flows, round {}", round + 1);
        // After one message each, no flow is idle.
        exchange(&mut messages, stop, ROUND * 2)?;
        busy.push(daemon.share_of_a_core(|| exchange(&mut messages, stop, MEASURED / 3))?);
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
    let part = FLOWS / 100;
    let begun = Instant::now();
    let mut done = 0;
    while begun.elapsed() < time {
        messages.exchange(part.into(), 0)?;
        done += 1;
        stop.sleep((ROUND * done / 100).saturating_sub(begun.elapsed()))?;
    }
    Ok(())
}

/// Measures the status query, with the largest flows and with all flows.
fn ask(section: &mut Section, daemon: &Daemon, scale: Scale, stop: &Stop) -> anyhow::Result<()> {
    for (name, words) in [("share status", &["--json"][..]), ("share status --all", &["--json", "--all"])] {
        let (mut times, mut sizes) = (Vec::new(), Vec::new());
        for _ in 0..scale.of(20, 5) {
            stop.check()?;
            let begun = Instant::now();
            let answer = daemon.ask(words)?;
            times.push(begun.elapsed().as_secs_f64() * 1e3);
            sizes.push(answer.len() as f64 / 1e3);
        }
        section.add(Figure::of(format!("{name}: time"), "ms", &times), name);
        section.add(Figure::of(format!("{name}: size"), "kB", &sizes), name);
    }
    Ok(())
}

/// A running daemon in the namespace of side A.
struct Daemon {
    child: Guarded,
    yuzuri: PathBuf,
    /// Its key, runtime directory and state directory.
    folder: tempfile::TempDir,
}

impl Daemon {
    fn start(paths: &Paths, net: &Net) -> anyhow::Result<Daemon> {
        let folder = tempfile::tempdir_in(&paths.memory).context("making a folder for the daemon")?;
        let key = folder.path().join("key");
        run_to_its_end(Command::new(&paths.yuzuri).args(["share", "key"]).arg(&key))?;
        // Without this file the daemon would read the machine's own configuration.
        let config = folder.path().join("share.toml");
        std::fs::write(&config, "").context("writing the daemon's configuration")?;
        let mut command = net.command(Side::A, &paths.yuzuri.to_string_lossy());
        command.args(["share", "--group", "bench", "--control", &format!("bench{}", std::process::id())]);
        command.arg("--config").arg(&config).arg("--key-file").arg(&key);
        command.arg("--runtime").arg(folder.path().join("run"));
        command.arg("--state").arg(folder.path().join("state"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = Guarded::spawn(&mut command)?;
        let mut said = Vec::new();
        let mut lines = BufReader::new(child.0.stderr.take().context("the daemon's messages")?).lines();
        for line in lines.by_ref().map_while(Result::ok) {
            if line.contains("sharing; ") {
                // Drain further output, so that the daemon does not block on a full pipe.
                std::thread::spawn(move || lines.for_each(drop));
                return Ok(Daemon { child, yuzuri: paths.yuzuri.clone(), folder });
            }
            said.push(line);
        }
        bail!("`yuzuri share` ended instead of sharing: {}", said.join("; "))
    }

    fn runtime(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    /// The output of `yuzuri share status`.
    fn ask(&self, words: &[&str]) -> anyhow::Result<Vec<u8>> {
        let mut command = Command::new(&self.yuzuri);
        command.args(["share", "status", "--runtime"]).arg(self.runtime()).args(words);
        run_to_its_end(&mut command)
    }

    /// Waits until the flow counts satisfy `holds`.
    fn until(&self, stop: &Stop, what: &str, holds: impl Fn(&Value) -> bool) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            let status: Value = serde_json::from_slice(&self.ask(&["--json"])?).context("the status")?;
            let counts = &status["interfaces"][0]["flow_counts"];
            if holds(counts) {
                return Ok(());
            }
            ensure!(begun.elapsed() < Duration::from_secs(60), "{what}: not within 60 s: {counts}");
            stop.sleep(Duration::from_millis(500))?;
        }
    }

    /// The daemon's CPU use while `meanwhile` runs, percent of one core.
    fn share_of_a_core(&self, meanwhile: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<f64> {
        let (begun, before) = (Instant::now(), cpu::process_ns(self.child.pid())?);
        meanwhile()?;
        let used = cpu::process_ns(self.child.pid())? - before;
        Ok(used as f64 / begun.elapsed().as_nanos() as f64 * 100.0)
    }

    fn memory_mb(&self, field: &str) -> anyhow::Result<f64> {
        Ok(cpu::status_kb(self.child.pid(), field)? * 1024.0 / 1e6)
    }

    fn resident_mb(&self) -> anyhow::Result<f64> {
        self.memory_mb("VmRSS")
    }

    /// Stops the daemon with SIGINT, which restores the flows' previous algorithm.
    fn finish(mut self) -> anyhow::Result<()> {
        self.child.end(Duration::from_secs(20))
    }
}

/// The standard output of a command; an error with its message if it fails.
fn run_to_its_end(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    let program = Path::new(command.get_program()).display().to_string();
    let output = command.output().with_context(|| format!("starting {program}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(output.stdout)
}
