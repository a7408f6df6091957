//! Measures the cost of an event in the kernel: by the kernel's run-time statistics of BPF
//! programs, and by the CPU time of the same traffic with and without the monitor.

use crate::Scale;
use crate::cpu::Softirqs;
use crate::ends::Endpoints;
use crate::figure::{Figure, Section, Target};
use crate::load::{Load, LoadArgs};
use crate::programs::NoopProgram;
use crate::reading::MonitorReader;
use crate::tidy::Stop;
use std::time::Duration;
use yuzuri_kernel::ProgramStats;
use yuzuri_testnet::{Net, Side};
use yuzuri_trace::{Density, Filter};

/// Targets for the two densities, nanoseconds.
const DEFAULT_NS: f64 = 150.0;
const EVERY_ACK_NS: f64 = 200.0;
/// The traffic and the reader have one CPU each.
const TRAFFIC_CPU: usize = 0;
const READER_CPU: usize = 1;
/// Sender, receiver and ACKs run on one CPU, so that no transfer between CPUs affects the
/// measurement.
const FLOWS: u32 = 4;

/// Runs both measurements.
pub fn run(scale: Scale, stop: &Stop) -> anyhow::Result<Section> {
    let net = Net::new().map_err(anyhow::Error::msg)?;
    let mut section = Section::new(
        "Total cost of an event in the kernel",
        "4 bulk flows (cubic, MTU 1500, no offloads) over a veth pair, both ends watched, data and ACKs on one CPU. \
         First by the kernel's BPF run-time statistics (run_time_ns / runs over all four programs): \
         raw, and calibrated by subtracting the same figure of a no-op program at the same tracepoint, which is the \
         overhead of the statistics. Then independently: CPU time of the same bytes with the monitor minus the mean of the \
         runs without it just before and after, per hook run; this includes the tracepoint and the cache misses \
         that the programs cause, and excludes the statistics.",
    );
    let filter: Filter = format!("netns:{} netns:{}", net.name(Side::A), net.name(Side::B)).parse()?;
    let mut load =
        Load::start(&LoadArgs { ends: Endpoints::of(&net).on_cpu(TRAFFIC_CPU), flows: FLOWS, mss: None })?;
    by_cpu_time(&mut section, &mut load, &filter, scale, stop)?;
    let by_cpu = std::mem::take(&mut section.figures);
    by_run_time_stats(&mut section, &mut load, &filter, scale, stop)?;
    section.figures.extend(by_cpu);
    Ok(section)
}

fn by_run_time_stats(
    section: &mut Section,
    load: &mut Load,
    filter: &Filter,
    scale: Scale,
    stop: &Stop,
) -> anyhow::Result<()> {
    let timing = yuzuri_kernel::time_programs()?;
    let rounds = scale.of(11, 3);
    let time = Duration::from_millis(250);
    let settle = Duration::from_millis(30);
    // More than the measurement can move; the transfer ends with its process.
    load.start_transfer(1 << 40)?;
    let (mut default, mut every_ack, mut noop_costs) = (vec![], vec![], vec![]);
    let (mut default_shares, mut every_shares) = (vec![], vec![]);
    for round in 0..rounds {
        eprintln!("kernel-cost: by BPF run-time statistics, round {} of {rounds}", round + 1);
        let reading = MonitorReader::start(filter, Density::default(), Some(READER_CPU))?;
        for (density, costs, shares) in [
            (Density::default(), &mut default, &mut default_shares),
            (Density::EveryAck, &mut every_ack, &mut every_shares),
        ] {
            reading.set(density)?;
            stop.sleep(settle)?;
            let (before, account) = (sum(&reading.programs()?), reading.account()?);
            stop.sleep(time)?;
            let (after, later) = (sum(&reading.programs()?), reading.account()?);
            let (runs, ns) = (after.0 - before.0, after.1 - before.1);
            costs.push(ns as f64 / runs as f64);
            shares.push((later.seen() - account.seen()) as f64 / runs as f64 * 100.0);
        }
        drop(reading);
        let noop = NoopProgram::attach()?;
        stop.sleep(settle)?;
        let before = noop.runs_and_ns()?;
        stop.sleep(time)?;
        let after = noop.runs_and_ns()?;
        noop_costs.push((after.1 - before.1) as f64 / (after.0 - before.0) as f64);
    }
    drop(timing);
    let calibrated =
        |costs: &[f64]| -> Vec<f64> { costs.iter().zip(&noop_costs).map(|(c, e)| c - e).collect() };
    let raw = "including BPF run-time statistics";
    let figure = |name, values: &[f64], target| {
        Figure::of(name, "ns/run", values).map(|f| f.with_target(Target::AtMost(target)))
    };
    section.add(figure("default density, raw", &default, DEFAULT_NS).map(|f| f.note(raw)), "default density");
    section.add(figure("default density, calibrated", &calibrated(&default), DEFAULT_NS), "default density");
    let records = |shares: &[f64]| Figure::of("  hook runs that emitted a record", "%", shares);
    section.add(records(&default_shares), "records");
    section.add(figure("every ACK, raw", &every_ack, EVERY_ACK_NS).map(|f| f.note(raw)), "every ACK");
    section.add(figure("every ACK, calibrated", &calibrated(&every_ack), EVERY_ACK_NS), "every ACK");
    section.add(records(&every_shares), "records");
    section.add(Figure::of("no-op program, raw", "ns/run", &noop_costs), "no-op program");
    Ok(())
}

fn sum(programs: &[ProgramStats]) -> (u64, u64) {
    programs.iter().fold((0, 0), |(runs, ns), p| (runs + p.runs, ns + p.run_time_ns))
}

fn by_cpu_time(
    section: &mut Section,
    load: &mut Load,
    filter: &Filter,
    scale: Scale,
    stop: &Stop,
) -> anyhow::Result<()> {
    let softirqs = Softirqs::find();
    // The connections' first seconds are not representative. This transfer also gives the number of
    // bytes for a run of the wanted length.
    let warm = load.transfer(100_000_000)?;
    let bytes = (warm.bytes as f64 * 300e6 / warm.wall_ns as f64).clamp(10e6, 2e9) as u64;
    let cpu_ns = |load: &mut Load| -> anyhow::Result<f64> {
        let before = softirqs.ns();
        let cost = load.transfer(bytes)?;
        Ok((cost.cpu_ns + softirqs.ns() - before) as f64)
    };
    let rounds = scale.of(21, 4);
    let (mut default, mut every_ack, mut without) = (vec![], vec![], vec![]);
    let mut unobserved_before = cpu_ns(load)?;
    for round in 0..rounds {
        eprintln!("kernel-cost: by CPU time, round {} of {rounds}", round + 1);
        for (density, costs) in [(Density::default(), &mut default), (Density::EveryAck, &mut every_ack)] {
            stop.check()?;
            let reading = MonitorReader::start(filter, density, Some(READER_CPU))?;
            let observed = cpu_ns(load)?;
            let account = reading.finish()?;
            let runs = account.seen() + account.thinned();
            let unobserved_after = cpu_ns(load)?;
            costs.push((observed - (unobserved_before + unobserved_after) / 2.0) / runs as f64);
            without.push(unobserved_after / runs as f64);
            unobserved_before = unobserved_after;
        }
    }
    let figure = |name, values: &[f64], target| {
        Figure::of(name, "ns/run", values).map(|f| f.with_target(Target::AtMost(target)))
    };
    section.add(figure("default density, by CPU time", &default, DEFAULT_NS), "default density by CPU time");
    section.add(figure("every ACK, by CPU time", &every_ack, EVERY_ACK_NS), "every ACK by CPU time");
    let what = "the traffic itself, per hook run";
    section
        .add(Figure::of(what, "ns/run", &without).map(|f| f.note("cost of TCP without the monitor")), what);
    Ok(())
}
