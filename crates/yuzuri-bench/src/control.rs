//! Measures Yuzuri's congestion control: bits per second of CPU time relative to the kernel's
//! CUBIC, and the cost of scanning the flows.

use crate::cpu::{self, Softirqs};
use crate::ends::{CUBIC, Ends};
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
const AT_LEAST: f64 = 0.97;
/// Longer than any run.
const LONG: Duration = Duration::from_secs(24 * 3600);

/// Runs the benchmark.
pub fn run(_: &Paths, scale: Scale, stop: &Stop) -> anyhow::Result<Section> {
    let mut section = Section::new(
        "Control: bits moved per CPU-second under Yuzuri's congestion control, as a part of the kernel's CUBIC",
        "4 bulk flows over a veth pair, MTU 1500, no offloads, no shaping. Each run under Yuzuri stands between two under \
         cubic, and its figure is its bits per CPU-second over the mean of theirs; CPU time is that of the traffic's \
         process and of the kernel's threads for soft interrupts. Flows with a bound never reach it: what is measured is \
         that it is looked up. A look is one walk through all flows of the namespace, by the CPU time of its thread.",
    );
    let net = Net::new().map_err(anyhow::Error::msg)?;
    let params = CubicParams { name: format!("bench{}", std::process::id()), ..CubicParams::default() };
    // The flows select the algorithm themselves.
    let options = SteerOptions { cubic: params.clone(), takes: false, ..SteerOptions::default() };
    let mut steering = net.inside(Side::A, || Steering::start(&options))?;
    for (name, cpu) in [("both ends anywhere", None), ("both ends on one CPU", Some(TRAFFIC_CPU))] {
        compare(&mut section, &net, &mut steering, (name, cpu), scale, stop)?;
    }
    let few = look(&mut steering, &net, FLOWS, scale)?;
    section.add(few, "a look");
    let many = look(&mut steering, &net, MANY_FLOWS, scale)?;
    section.add(many, "a look");
    Ok(section)
}

fn load(net: &Net, flows: u32, cpu: Option<usize>, control: &str) -> anyhow::Result<Load> {
    Load::start(&LoadArgs { ends: Ends { cpu, ..Ends::of(net).under(control) }, flows, mss: None })
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
    let ours = steering.control().cubic().name.clone();
    let (mut cubic, mut yuzuri) = (load(net, FLOWS, cpu, CUBIC)?, load(net, FLOWS, cpu, &ours)?);
    let mut flows = Vec::new();
    steering.observe(&mut flows)?;
    let bounded = Steered { bound: Bound { lower: 0, upper: 1_000_000 }, ..Steered::default() };
    let told: Vec<_> =
        flows.iter().filter(|flow| flow.standing.is_ours()).map(|flow| (flow.id, bounded)).collect();
    ensure!(told.len() == FLOWS as usize, "{} flows under {ours} instead of {FLOWS}", told.len());

    let measured = |load: &mut Load, bytes: u64| -> anyhow::Result<f64> {
        let before = softirqs.ns();
        let ran = load.move_bytes(bytes)?;
        Ok(ran.bytes as f64 * 8e9 / (ran.cpu_ns + softirqs.ns() - before) as f64)
    };
    // Windows grow first, and a run takes only a third of a second.
    let warm = cubic.move_bytes(200_000_000)?;
    yuzuri.move_bytes(200_000_000)?;
    let bytes = (warm.bytes as f64 * 350e6 / warm.wall_ns as f64).clamp(50e6, 4e9) as u64;
    let cases = ["no flow has a bound", "each flow has a bound"];
    let mut ratios = vec![Vec::new(); cases.len()];
    let mut alone = Vec::new();
    let mut before = measured(&mut cubic, bytes)?;
    for _ in 0..scale.of(30, 6) {
        for (case, ratios) in ratios.iter_mut().enumerate() {
            stop.check()?;
            if case == 1 {
                steering.steer_all(&told, LONG)?;
            }
            let with = measured(&mut yuzuri, bytes)?;
            told.iter().for_each(|(id, _)| steering.release(*id));
            let after = measured(&mut cubic, bytes)?;
            ratios.push(with * 2.0 / (before + after));
            alone.push(after / 1e9);
            before = after;
        }
    }
    let name = format!("{setting}: cubic");
    section.add(Figure::of(name.as_str(), "Gbit per CPU-second", &alone), &name);
    for (case, ratios) in cases.iter().zip(&ratios) {
        let name = format!("{setting}: yuzuri, {case}");
        let sure = figure::median_interval(ratios)
            .map(|(low, high)| format!("median in {low:.3} to {high:.3}"))
            .unwrap_or_default();
        section.add(
            Figure::of(name.as_str(), "", ratios).map(|f| f.must(Target::AtLeast(AT_LEAST)).note(sure)),
            &name,
        );
    }
    Ok(())
}

fn look(steering: &mut Steering, net: &Net, flows: u32, scale: Scale) -> anyhow::Result<Option<Figure>> {
    let ours = steering.control().cubic().name.clone();
    let _load = load(net, flows, None, &ours)?;
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
    Ok(Figure::of(format!("a look at {flows} flows"), "CPU us", &values))
}
