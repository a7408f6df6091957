//! Measures the cost of a hook run by the number of flows. With few flows the monitor's state stays
//! in the caches; with tens of thousands almost every run starts with a cache miss.

use crate::Scale;
use crate::cpu::Softirqs;
use crate::ends::Endpoints;
use crate::figure::{Figure, Section, Target};
use crate::messages::{MessageArgs, Messages};
use crate::programs::NoopProgram;
use crate::reading::MonitorReader;
use crate::tidy::Stop;
use std::time::Duration;
use yuzuri_kernel::ProgramStats;
use yuzuri_testnet::{Net, Side};
use yuzuri_trace::{Density, Filter};

/// Number of watched sockets; each connection has two.
const FLOWS: [usize; 4] = [200, 1_000, 10_000, 50_000];
/// Target for any number of flows, nanoseconds.
const RUN_NS: f64 = 250.0;
/// Idle time in which the cost of runs for other connections is measured.
const UNRELATED_TIME: Duration = Duration::from_millis(150);
const TRAFFIC_CPU: usize = 0;
const READER_CPU: usize = 1;

/// Runs the benchmark.
pub fn run(scale: Scale, stop: &Stop) -> anyhow::Result<Section> {
    let mut section = Section::new(
        "Cost of a hook run by the number of flows",
        "Requests of 64 bytes and responses of 256 over a veth pair, consecutive requests on connections that are far apart in \
         memory, both ends watched (a connection is two flows), all traffic on one CPU. First by the kernel's BPF run-time \
         statistics, minus the same figure of a no-op program, and minus the runs for unrelated connections on this \
         machine; then by CPU time: that of the same transactions \
         with the monitor minus the mean of the runs without it just before and after, per hook run. The first charges \
         the monitor with cache misses that TCP would otherwise have a moment later for the same variables of the \
         connection; the second does not.",
    );
    let only = scale.flows.map(|flows| flows as usize);
    for flows in FLOWS.into_iter().filter(|_| only.is_none()).chain(only) {
        measure(&mut section, flows, scale, stop)?;
    }
    Ok(section)
}

fn sum(programs: &[ProgramStats]) -> (u64, u64) {
    programs.iter().fold((0, 0), |(runs, ns), p| (runs + p.runs, ns + p.run_time_ns))
}

fn measure(section: &mut Section, flows: usize, scale: Scale, stop: &Stop) -> anyhow::Result<()> {
    let net = Net::new().map_err(anyhow::Error::msg)?;
    let connections = flows / 2;
    let mut messages = Messages::start(&MessageArgs {
        ends: Endpoints::of(&net).on_cpu(TRAFFIC_CPU),
        connections,
        bulk: 0,
    })?;
    let filter: Filter = format!("netns:{} netns:{}", net.name(Side::A), net.name(Side::B)).parse()?;
    let round = connections as u64;
    let transactions = round.max(scale.of(40_000, 20_000) as u64);
    messages.exchange(round, 0)?;

    let timing = yuzuri_kernel::time_programs()?;
    let rounds = scale.of(7, 2);
    let densities = [Density::default(), Density::EveryAck];
    let (mut costs, mut shares, mut empty) = ([vec![], vec![]], [vec![], vec![]], vec![]);
    for number in 0..rounds {
        eprintln!("flows: {flows}, by BPF run-time statistics, round {} of {rounds}", number + 1);
        let reading = MonitorReader::start(&filter, Density::default(), Some(READER_CPU))?;
        for ((density, costs), shares) in densities.into_iter().zip(&mut costs).zip(&mut shares) {
            stop.check()?;
            reading.set(density)?;
            // The monitor filters each flow again at its next segment, and announces it.
            messages.exchange(round, 0)?;
            let (before, account) = (sum(&reading.programs()?), reading.account()?);
            messages.exchange(transactions, 0)?;
            let (after, later) = (sum(&reading.programs()?), reading.account()?);
            stop.sleep(UNRELATED_TIME)?;
            let idle = sum(&reading.programs()?);
            let own = (later.seen() + later.thinned() - account.seen() - account.thinned()) as f64;
            // Other connections on this machine also run the hooks, which find them not selected.
            let unrelated_runs = (after.0 - before.0) as f64 - own;
            let unrelated_run_ns = (idle.1 - after.1) as f64 / ((idle.0 - after.0) as f64).max(1.0);
            costs.push(((after.1 - before.1) as f64 - unrelated_runs * unrelated_run_ns) / own);
            shares.push((later.seen() - account.seen()) as f64 / own * 100.0);
        }
        drop(reading);
        let noop = NoopProgram::attach()?;
        let before = noop.runs_and_ns()?;
        messages.exchange(transactions, 0)?;
        let after = noop.runs_and_ns()?;
        empty.push((after.1 - before.1) as f64 / (after.0 - before.0) as f64);
    }
    drop(timing);
    let by_cpu = by_cpu_time(&mut messages, flows, &filter, transactions, scale, stop)?;

    for (at, name) in ["default density", "every ACK"].into_iter().enumerate() {
        let calibrated: Vec<f64> = costs[at].iter().zip(&empty).map(|(cost, empty)| cost - empty).collect();
        let name = format!("{flows} flows, {name}");
        let figure = Figure::of(name.as_str(), "ns/run", &calibrated);
        let record = Figure::of("", "", &shares[at]).map_or(0.0, |f| f.median);
        let note = format!("{record:.0} % of the runs gave a record");
        section.add(figure.map(|f| f.with_target(Target::AtMost(RUN_NS)).note(note)), &name);
        let name = format!("{name}, by CPU time");
        section.add(Figure::of(name.as_str(), "ns/run", &by_cpu[at]), &name);
    }
    // Already subtracted from the figures above; it is this machine's cost of starting any BPF
    // program.
    let name = format!("{flows} flows, an empty program (floor)");
    section.add(Figure::of(name.as_str(), "ns/run", &empty), &name);
    let name = format!("{flows} flows, TCP without the monitor");
    section.add(Figure::of(name.as_str(), "ns/run", &by_cpu[2]), &name);
    Ok(())
}

/// CPU time per run in both densities, and of the traffic itself, nanoseconds.
fn by_cpu_time(
    messages: &mut Messages,
    flows: usize,
    filter: &Filter,
    transactions: u64,
    scale: Scale,
    stop: &Stop,
) -> anyhow::Result<[Vec<f64>; 3]> {
    let softirqs = Softirqs::find();
    let cpu_ns = |messages: &mut Messages| -> anyhow::Result<f64> {
        let before = softirqs.ns();
        let done = messages.exchange(transactions, 0)?;
        Ok((done.cpu_ns + softirqs.ns() - before) as f64)
    };
    let rounds = scale.of(9, 2);
    let mut costs = [vec![], vec![], vec![]];
    let mut unobserved_before = cpu_ns(messages)?;
    for number in 0..rounds {
        eprintln!("flows: {flows}, by CPU time, round {} of {rounds}", number + 1);
        for (at, density) in [Density::default(), Density::EveryAck].into_iter().enumerate() {
            stop.check()?;
            let reading = MonitorReader::start(filter, density, Some(READER_CPU))?;
            messages.exchange(flows as u64, 0)?;
            let before = reading.account()?;
            let observed = cpu_ns(messages)?;
            let after = reading.finish()?;
            let runs = (after.seen() + after.thinned() - before.seen() - before.thinned()) as f64;
            let unobserved_after = cpu_ns(messages)?;
            costs[at].push((observed - (unobserved_before + unobserved_after) / 2.0) / runs);
            costs[2].push(unobserved_after / runs);
            unobserved_before = unobserved_after;
        }
    }
    Ok(costs)
}
