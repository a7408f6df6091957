//! Measures the command itself: memory while recording, binary size, time to the first event.

use crate::cpu;
use crate::ends::Endpoints;
use crate::figure::{Figure, Section, Target};
use crate::load::{Load, LoadArgs};
use crate::observers::Agent;
use crate::tidy::{KillOnDrop, Stop};
use crate::{Paths, Scale};
use anyhow::{Context, bail};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use yuzuri_testnet::{Net, Side};

const FLOWS: u32 = 200;
/// Minimum segments per second of each flow (timestamps take 12 bytes of each segment). Each
/// segment gives one record at the receiver.
const SAMPLES_PER_FLOW_S: u64 = 1000;
const MSS: u32 = 100;
/// Each flow sends ten segments every 10 ms.
const WRITE_INTERVAL: Duration = Duration::from_millis(10);
const TRAFFIC_CPU: usize = 0;

/// Runs the benchmark.
pub fn run(paths: &Paths, scale: Scale, stop: &Stop) -> anyhow::Result<Section> {
    let mut section = Section::new(
        "The command",
        "200 connections over a veth pair, each writing 1,000 bytes every 10 ms in segments of 88 bytes (1,200 a \
         second); the receiving end's 200 flows are recorded at every ACK (`watch --density ack --record` into \
         memory). Resident memory is read from /proc/PID/status every 100 ms, the peak is VmHWM; file pages are the \
         program and the rings that it shares with the kernel.",
    );
    let size = std::fs::metadata(&paths.yuzuri).with_context(|| paths.yuzuri.display().to_string())?.len();
    section.add(
        Figure::of("binary", "MB", &[size as f64 / 1e6]).map(|f| f.with_target(Target::Below(10.0))),
        "binary",
    );
    start(&mut section, paths, scale, stop)?;
    memory(&mut section, paths, scale, stop)?;
    Ok(section)
}

fn traffic(net: &Net) -> anyhow::Result<Load> {
    Load::start(&LoadArgs { ends: Endpoints::of(net).on_cpu(TRAFFIC_CPU), flows: FLOWS, mss: Some(MSS) })
}

/// Measures the time from starting the command to its first event on standard output.
fn start(section: &mut Section, paths: &Paths, scale: Scale, stop: &Stop) -> anyhow::Result<()> {
    let net = Net::new().map_err(anyhow::Error::msg)?;
    let mut load = traffic(&net)?;
    let rounds = scale.of(10, 3);
    let per_flow = u64::from(MSS) * SAMPLES_PER_FLOW_S * WRITE_INTERVAL.as_millis() as u64 / 1000;
    // Each start has a time limit. The traffic outlasts them all and ends with its process.
    load.start_paced(per_flow, WRITE_INTERVAL, Duration::from_secs(10) * rounds as u32)?;
    let filter = format!("netns:{}", net.name(Side::B));
    let mut times = Vec::new();
    for round in 0..rounds {
        eprintln!("agent: start {} of {rounds}", round + 1);
        stop.check()?;
        times.push(first_event(paths, &filter)?.as_secs_f64() * 1000.0);
    }
    let figure = Figure::of("start to first event (watch --json)", "ms", &times);
    section.add(figure.map(|f| f.with_target(Target::Below(500.0))), "start");
    Ok(())
}

fn first_event(paths: &Paths, filter: &str) -> anyhow::Result<Duration> {
    let mut command = Command::new(&paths.yuzuri);
    command
        .args(["watch", filter, "--json"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let began = Instant::now();
    let mut child = KillOnDrop::spawn(&mut command)?;
    let output = child.0.stdout.take().context("the command's output")?;
    for line in BufReader::new(output).lines() {
        let line: serde_json::Value = serde_json::from_str(&line?).context("a line of watch --json")?;
        let kind = line["kind"].as_str().unwrap_or_default();
        if yuzuri_trace::Kind::from_name(kind).is_some() {
            return Ok(began.elapsed());
        }
        anyhow::ensure!(began.elapsed() < Duration::from_secs(10), "no event for 10 s");
    }
    bail!("`watch --json` exited without an event")
}

fn memory(section: &mut Section, paths: &Paths, scale: Scale, stop: &Stop) -> anyhow::Result<()> {
    let net = Net::new().map_err(anyhow::Error::msg)?;
    let mut load = traffic(&net)?;
    let filter = format!("netns:{}", net.name(Side::B));
    let time = Duration::from_secs(scale.of(8, 3) as u64);
    let per_flow = u64::from(MSS) * SAMPLES_PER_FLOW_S * WRITE_INTERVAL.as_millis() as u64 / 1000;
    const FIELDS: [&str; 4] = ["VmRSS", "RssAnon", "RssFile", "RssShmem"];
    let mut fields = FIELDS.map(|_| Vec::new());
    let (mut peaks, mut rates, mut lost, mut cpus, mut sizes) = (vec![], vec![], vec![], vec![], vec![]);
    for round in 0..scale.of(3, 1) {
        eprintln!("agent: recording {FLOWS} flows, round {}", round + 1);
        let folder = tempfile::tempdir_in(&paths.memory)?;
        let file = folder.path().join("bench.arrows");
        let name = file.to_string_lossy().into_owned();
        let args = [filter.as_str(), "--density", "ack", "--quiet", "--record", &name];
        let agent = Agent::start(&paths.yuzuri, &args)?;
        let (began, cpu) = (Instant::now(), cpu::process_ns(agent.pid())?);
        load.start_paced(per_flow, WRITE_INTERVAL, time)?;
        let wall = loop {
            stop.sleep(Duration::from_millis(100))?;
            for (values, name) in fields.iter_mut().zip(FIELDS) {
                values.push(cpu::status_kb(agent.pid(), name)? * 1024.0 / 1e6);
            }
            if load.try_wait()?.is_some() {
                break began.elapsed();
            }
            anyhow::ensure!(
                began.elapsed() < time * 4,
                "the traffic takes more than four times its duration"
            );
        };
        peaks.push(cpu::status_kb(agent.pid(), "VmHWM")? * 1024.0 / 1e6);
        cpus.push((cpu::process_ns(agent.pid())? - cpu) as f64 / 1e7 / wall.as_secs_f64());
        let account = agent.finish()?;
        rates.push(account.kept as f64 / wall.as_secs_f64());
        lost.push(account.lost as f64);
        sizes.push(std::fs::metadata(&file)?.len() as f64 / account.kept as f64);
    }
    let peak = Figure::of("resident while recording, peak", "MB", &peaks);
    section.add(peak.map(|f| f.with_target(Target::Below(30.0))), "memory");
    let kinds = ["resident", "  private memory", "  file pages and rings", "  shared memory"];
    for (name, values) in kinds.iter().zip(&fields) {
        section.add(Figure::of(*name, "MB", values), name);
    }
    section.add(Figure::of("samples recorded", "1/s", &rates), "samples");
    section.add(Figure::of("samples lost", "", &lost), "lost");
    section.add(Figure::of("recording", "bytes/sample", &sizes), "recording");
    section.add(Figure::of("CPU while recording", "% of one", &cpus), "CPU");
    Ok(())
}
