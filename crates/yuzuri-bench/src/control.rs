//! Measures Yuzuri's congestion control: bits per second of CPU time relative to the kernel's
//! CUBIC, and the cost of scanning the flows.

use crate::cpu::{self, Softirqs};
use crate::ends::{CUBIC, Endpoints};
use crate::figure::{self, Figure, Section, Target};
use crate::load::{Load, LoadArgs};
use crate::tidy::Stop;
use crate::{Paths, Scale};
use anyhow::ensure;
use std::time::Duration;
use yuzuri_kernel::control::{Bound, CubicParams, Steered};
use yuzuri_kernel::steer::{SteerOptions, Steering};
use yuzuri_testnet::{Net, Side};

const FLOWS: u32 = 4;
/// One process holds both ends of each flow; the default limit is 1,024 descriptors.
const MANY_FLOWS: u32 = 400;
/// The CPU of both ends in settings pinned to one CPU.
const TRAFFIC_CPU: usize = 0;
/// Target ratio: at most 3 % more CPU time per bit.
const MIN_RATIO: f64 = 0.97;
/// Longer than any run.
const BOUND_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// Runs the benchmark.
pub fn run(_: &Paths, scale: Scale, stop: &Stop) -> anyhow::Result<Section> {
    let mut section = Section::new(
        "Control: bits per CPU-second under Yuzuri's congestion control relative to the kernel's CUBIC",
        "4 bulk flows over a veth pair, MTU 1500, no offloads, no shaping. Each run under Yuzuri is bracketed by two under \
         cubic; the figure is its bits per CPU-second divided by the mean of theirs. CPU time is that of the traffic's \
         process and of the ksoftirqd threads. Flows with a bound never reach it: the measurement covers the lookup. A scan \
         walks all flows of the namespace; its cost is the CPU time of its thread.",
    );
    let net = Net::new().map_err(anyhow::Error::msg)?;
    let params = CubicParams { name: format!("bench{}", std::process::id()), ..CubicParams::default() };
    // The flows select the algorithm themselves.
    let options = SteerOptions { cubic: params.clone(), migrates: false, ..SteerOptions::default() };
    let mut steering = net.inside(Side::A, || Steering::start(&options))?;
    for (name, cpu) in [("both ends on any CPU", None), ("both ends on one CPU", Some(TRAFFIC_CPU))] {
        compare(&mut section, &net, &mut steering, (name, cpu), scale, stop)?;
    }
    let few = scan_cost(&mut steering, &net, FLOWS, scale)?;
    section.add(few, "scan");
    let many = scan_cost(&mut steering, &net, MANY_FLOWS, scale)?;
    section.add(many, "scan");
    Ok(section)
}

fn load(net: &Net, flows: u32, cpu: Option<usize>, control: &str) -> anyhow::Result<Load> {
    Load::start(&LoadArgs {
        ends: Endpoints { cpu, ..Endpoints::of(net).with_control(control) },
        flows,
        mss: None,
    })
}

fn compare(
    section: &mut Section,
    net: &Net,
    steering: &mut Steering,
    (setting, cpu): (&str, Option<usize>),
    scale: Scale,
    stop: &Stop,
) -> anyhow::Result<()> {
    let softirqs = Softirqs::find();
    let algorithm = steering.control().cubic().name.clone();
    let (mut cubic, mut yuzuri) = (load(net, FLOWS, cpu, CUBIC)?, load(net, FLOWS, cpu, &algorithm)?);
    let mut flows = Vec::new();
    steering.observe(&mut flows)?;
    let high_bound = Steered { bound: Bound { lower: 0, upper: 1_000_000 }, ..Steered::default() };
    let bounded_flows: Vec<_> =
        flows.iter().filter(|flow| flow.control_state.is_ours()).map(|flow| (flow.id, high_bound)).collect();
    ensure!(
        bounded_flows.len() == FLOWS as usize,
        "{} flows under {algorithm} instead of {FLOWS}",
        bounded_flows.len()
    );

    let efficiency = |load: &mut Load, bytes: u64| -> anyhow::Result<f64> {
        let before = softirqs.ns();
        let ran = load.transfer(bytes)?;
        Ok(ran.bytes as f64 * 8e9 / (ran.cpu_ns + softirqs.ns() - before) as f64)
    };
    // Windows grow first, and a run takes only a third of a second.
    let warm = cubic.transfer(200_000_000)?;
    yuzuri.transfer(200_000_000)?;
    let bytes = (warm.bytes as f64 * 350e6 / warm.wall_ns as f64).clamp(50e6, 4e9) as u64;
    let cases = ["no flow has a bound", "each flow has a bound"];
    let mut ratios = vec![Vec::new(); cases.len()];
    let mut cubic_rates = Vec::new();
    let mut before = efficiency(&mut cubic, bytes)?;
    for _ in 0..scale.of(30, 6) {
        for (case, ratios) in ratios.iter_mut().enumerate() {
            stop.check()?;
            if case == 1 {
                steering.steer_all(&bounded_flows, BOUND_LIFETIME)?;
            }
            let with = efficiency(&mut yuzuri, bytes)?;
            bounded_flows.iter().for_each(|(id, _)| steering.release(*id));
            let after = efficiency(&mut cubic, bytes)?;
            ratios.push(with * 2.0 / (before + after));
            cubic_rates.push(after / 1e9);
            before = after;
        }
    }
    let name = format!("{setting}: cubic");
    section.add(Figure::of(name.as_str(), "Gbit per CPU-second", &cubic_rates), &name);
    for (case, ratios) in cases.iter().zip(&ratios) {
        let name = format!("{setting}: yuzuri, {case}");
        let interval = figure::median_interval(ratios)
            .map(|(low, high)| format!("95 % interval of the median {low:.3} to {high:.3}"))
            .unwrap_or_default();
        section.add(
            Figure::of(name.as_str(), "", ratios)
                .map(|f| f.with_target(Target::AtLeast(MIN_RATIO)).note(interval)),
            &name,
        );
    }
    Ok(())
}

fn scan_cost(steering: &mut Steering, net: &Net, flows: u32, scale: Scale) -> anyhow::Result<Option<Figure>> {
    let algorithm = steering.control().cubic().name.clone();
    let _load = load(net, flows, None, &algorithm)?;
    let (mut seen, mut values) = (Vec::new(), Vec::new());
    for _ in 0..scale.of(200, 20) {
        // In the flows' namespace, like a daemon.
        let cost = net.inside(Side::A, || -> anyhow::Result<u64> {
            let before = cpu::thread_ns()?;
            steering.observe(&mut seen)?;
            Ok(cpu::thread_ns()? - before)
        })?;
        ensure!(seen.len() == flows as usize, "{} flows seen instead of {flows}", seen.len());
        values.push(cost as f64 / 1e3);
    }
    Ok(Figure::of(format!("scan of {flows} flows"), "CPU us", &values))
}
