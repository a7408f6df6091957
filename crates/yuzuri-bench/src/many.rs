//! Measures the cost of a hook run by the number of flows. With few flows the monitor's state stays
//! in the caches; with tens of thousands almost every run starts with a cache miss.

use crate::Scale;
use crate::cpu::Softirqs;
use crate::ends::Ends;
use crate::figure::{Figure, Section, Target};
use crate::messages::{MessageArgs, Messages};
use crate::programs::Empty;
use crate::reading::Reading;
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
const OTHERS: Duration = Duration::from_millis(150);
const TRAFFIC_CPU: usize = 0;
const READER_CPU: usize = 1;

/// Runs the benchmark.
pub fn run(scale: Scale, stop: &Stop) -> anyhow::Result<Section> {
    let mut section = Section::new(
        "Cost of a hook run by the number of flows",
        "Requests of 64 bytes and responses of 256 over a veth pair, the connections in turns that are far apart, \
         both ends watched (a connection is two flows), all traffic on one CPU. By the kernel's clock around each run of \
         our programs, less what it says of a program that does nothing, and less the runs for others' connections on this \
         machine; then by CPU time: that of the same transactions \
         with the monitor less the mean of the runs without it just before and after, per hook run. The first counts \
         as the monitor's all misses of the caches that TCP would have a moment later for the same variables of the \
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
    let mut messages =
        Messages::start(&MessageArgs { ends: Ends::of(&net).on_cpu(TRAFFIC_CPU), connections, bulk: 0 })?;
    let filter: Filter = format!("netns:{} netns:{}", net.name(Side::A), net.name(Side::B)).parse()?;
    let round = connections as u64;
    let transactions = round.max(scale.of(40_000, 20_000) as u64);
    messages.exchange(round, 0)?;

    let timing = yuzuri_kernel::time_programs()?;
    let rounds = scale.of(7, 2);
    let densities = [Density::default(), Density::EveryAck];
    let (mut costs, mut shares, mut empty) = ([vec![], vec![]], [vec![], vec![]], vec![]);
    for number in 0..rounds {
        eprintln!("flows: {flows}, by the kernel's clock, round {} of {rounds}", number + 1);
        let reading = Reading::start(&filter, Density::default(), Some(READER_CPU))?;
        for ((density, costs), shares) in densities.into_iter().zip(&mut costs).zip(&mut shares) {
            stop.check()?;
            reading.set(density)?;
            // The monitor filters each flow again at its next segment, and announces it.
            messages.exchange(round, 0)?;
            let (before, account) = (sum(&reading.programs()?), reading.account()?);
            messages.exchange(transactions, 0)?;
            let (after, later) = (sum(&reading.programs()?), reading.account()?);
            stop.sleep(OTHERS)?;
            let rest = sum(&reading.programs()?);
            let own = (later.seen() + later.thinned() - account.seen() - account.thinned()) as f64;
            // Other connections on this machine also run the hooks, which find them not selected.
            let others = (after.0 - before.0) as f64 - own;
            let of_other = (rest.1 - after.1) as f64 / ((rest.0 - after.0) as f64).max(1.0);
            costs.push(((after.1 - before.1) as f64 - others * of_other) / own);
            shares.push((later.seen() - account.seen()) as f64 / own * 100.0);
        }
        drop(reading);
        let nothing = Empty::attach()?;
        let before = nothing.runs_and_ns()?;
        messages.exchange(transactions, 0)?;
        let after = nothing.runs_and_ns()?;
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
        section.add(figure.map(|f| f.must(Target::AtMost(RUN_NS)).note(note)), &name);
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
    let cpu_of = |messages: &mut Messages| -> anyhow::Result<f64> {
        let before = softirqs.ns();
        let done = messages.exchange(transactions, 0)?;
        Ok((done.cpu_ns + softirqs.ns() - before) as f64)
    };
    let rounds = scale.of(9, 2);
    let mut costs = [vec![], vec![], vec![]];
    let mut none_before = cpu_of(messages)?;
    for number in 0..rounds {
        eprintln!("flows: {flows}, by CPU time, round {} of {rounds}", number + 1);
        for (at, density) in [Density::default(), Density::EveryAck].into_iter().enumerate() {
            stop.check()?;
            let reading = Reading::start(filter, density, Some(READER_CPU))?;
            messages.exchange(flows as u64, 0)?;
            let before = reading.account()?;
            let with = cpu_of(messages)?;
            let after = reading.finish()?;
            let runs = (after.seen() + after.thinned() - before.seen() - before.thinned()) as f64;
            let none_after = cpu_of(messages)?;
            costs[at].push((with - (none_before + none_after) / 2.0) / runs);
            costs[2].push(none_after / runs);
            none_before = none_after;
        }
    }
    Ok(costs)
}
