//! The demonstration: the same terminals in real time, first without sharing and then with it, and
//! a comparison of both halves.

use crate::LabError;
use crate::driver::Lateness;
use crate::net::Tap;
use crate::run::{self, Clock, FlowFigures, RunOutcome, Statuses, Task, Weighted};
use nix::sched::{CloneFlags, unshare};
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use yuzuri_kernel::control::CubicParams;
use yuzuri_kernel::steer::{SteerOptions, Steering};
use yuzuri_scenario::fairness::jain;
use yuzuri_scenario::{ApForwarding, GateSpec, Scenario};

/// Maximum duration, seconds.
const MAX_DURATION_S: f64 = 36_000.0;
/// Sampling interval of a flow, ms. The figures need no more, and a demonstration may run for
/// hours.
const SAMPLE_MS: f64 = 20.0;
/// The start of each half that is not evaluated: this fraction of the half, limited to a number of
/// seconds. During this time flows start and fill the queues, and the first messages of the group
/// wait in those queues.
const SETTLING_FRACTION: f64 = 0.5;
const MAX_SETTLING_S: f64 = 10.0;
/// Minimum evaluated time, seconds; less gives no meaningful figures.
const MIN_EVALUATED_S: f64 = 0.5;

/// The results of both halves.
#[derive(Debug)]
pub struct Comparison {
    names: Vec<String>,
    plain: DemoPhase,
    /// `None` if the run was stopped before the second half.
    sharing: Option<DemoPhase>,
    notes: Vec<String>,
}

#[derive(Debug)]
struct DemoPhase {
    seconds: [f64; 2],
    all: Figures,
    terminals: Vec<Figures>,
    jain: Option<f64>,
}

#[derive(Debug)]
struct Figures {
    mbps: f64,
    rtt_ms: Option<f64>,
    retransmissions_per_s: f64,
}

/// Checks whether this machine has what the demonstration needs: TAP devices, and a kernel that
/// accepts a BPF congestion control.
///
/// # Errors
/// What is missing.
pub fn check() -> Result<(), LabError> {
    // Several threads may check at the same time, and a name can be registered once.
    static CHECKS: AtomicU32 = AtomicU32::new(0);
    let number = CHECKS.fetch_add(1, Ordering::Relaxed) % 1000;
    let try_steering = move || {
        unshare(CloneFlags::CLONE_NEWNET).map_err(LabError::network("creating a network namespace"))?;
        Tap::create("cell0")?;
        let name = format!("yz{}c{number}", std::process::id());
        let cubic = CubicParams { name, ..CubicParams::default() };
        let options = SteerOptions { cubic, migrates: false, ..SteerOptions::default() };
        let steering = Steering::start(&options).map_err(|e| LabError::Run(e.to_string()))?;
        steering.leave().map(drop).map_err(|e| LabError::Run(e.to_string()))
    };
    // A separate thread, whose namespace disappears with it.
    std::thread::spawn(try_steering).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The scenario of a demonstration: sharing starts after `half_s` seconds. Each half takes `half_s`
/// seconds; if `endless` is set, it ends after `MAX_DURATION_S` instead.
pub fn scenario(base: &Scenario, half_s: f64, endless: bool) -> Scenario {
    let mut scenario = base.clone();
    let mut share = scenario.share.unwrap_or_default();
    share.starts_s = half_s;
    scenario.share = Some(share);
    scenario.duration_s = if endless { MAX_DURATION_S } else { 2.0 * half_s };
    scenario.warm_up_s = 0.0;
    scenario.sample_ms = SAMPLE_MS;
    scenario
}

/// Moves sharing in a result of [`scenario`] from the terminals to the access point.
pub fn at_access_point(mut scenario: Scenario) -> Scenario {
    let share = scenario.share.take().unwrap_or_default();
    scenario.gate =
        Some(GateSpec { objective: share.objective, starts_s: share.starts_s, ..GateSpec::default() });
    scenario.ap = ApForwarding::Host;
    for kind in &mut scenario.terminal {
        kind.share = None;
        // Set explicitly, independent of the host's default.
        kind.control = Some("cubic".into());
    }
    scenario
}

/// Runs the demonstration until its end or until `stop` is set. Calls `built` with the names of the
/// terminals' namespaces; `statuses` publishes what their daemons report.
///
/// # Errors
/// If the host lacks what is needed, or if the run was stopped before there were figures.
pub fn run(
    scenario: &Scenario,
    folder: &Path,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(f64),
    built: &mut dyn FnMut(&[&str]),
    statuses: Option<&Statuses>,
) -> Result<Comparison, LabError> {
    let task = Task { point: "demo".into(), labels: Vec::new(), alone: None, seed: 1, clock: Clock::Real };
    let done = run::perform(scenario, &task, folder, stop, progress, built, statuses)?;
    let by_terminals = scenario.share.as_ref().map(|share| share.starts_s);
    let starts_s = by_terminals.or(scenario.gate.as_ref().map(|gate| gate.starts_s));
    let half_s = starts_s.unwrap_or(scenario.duration_s);
    let settling_s = (SETTLING_FRACTION * half_s).min(MAX_SETTLING_S);
    let phase = |from_s: f64, to_s: f64| {
        let seconds = [from_s + settling_s, to_s];
        let long_enough = seconds[1] - seconds[0] >= MIN_EVALUATED_S;
        long_enough.then(|| DemoPhase::of(scenario, &done, seconds)).transpose()
    };
    let plain = phase(0.0, done.end_s.min(half_s))?.ok_or(LabError::Stopped)?;
    let sharing = phase(half_s, done.end_s)?;
    let mut notes = done.shared.notes.clone();
    if let Some(why) = done.report.lateness.invalid_because(Lateness::IN_REAL_TIME) {
        notes.push(format!("this machine did not keep up, so the figures are not valid: {why}"));
    }
    Ok(Comparison { names: scenario.terminals().map(|t| t.name()).collect(), plain, sharing, notes })
}

impl DemoPhase {
    fn of(scenario: &Scenario, done: &RunOutcome, seconds: [f64; 2]) -> Result<DemoPhase, LabError> {
        let flows = done.figures(seconds)?;
        let span_s = seconds[1] - seconds[0];
        let terminals: Vec<Figures> = (0..scenario.terminals().count())
            .map(|number| Figures::of(flows.iter().filter(|flow| flow.terminal == number), span_s))
            .collect();
        let jain = jain(terminals.iter().map(|figures| figures.mbps));
        Ok(DemoPhase { seconds, all: Figures::of(flows.iter(), span_s), terminals, jain })
    }
}

impl Figures {
    fn of<'a>(flows: impl Iterator<Item = &'a FlowFigures>, span_s: f64) -> Figures {
        let (mut bytes, mut retransmissions, mut rtt) = (0, 0, Weighted::default());
        for flow in flows {
            bytes += flow.bytes();
            retransmissions += flow.retransmissions;
            rtt.extend(&flow.srtt);
        }
        Figures {
            mbps: bytes as f64 * 8e-6 / span_s,
            rtt_ms: rtt.mean().map(|us| us / 1000.0),
            retransmissions_per_s: retransmissions as f64 / span_s,
        }
    }

    fn cells(&self) -> String {
        let rtt = self.rtt_ms.map_or("-".into(), |ms| format!("{ms:.0}"));
        format!("{:>9.2} {rtt:>8} {:>12.1}", self.mbps, self.retransmissions_per_s)
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const COLUMNS: &str = "   Mbit/s   RTT ms    retrans/s";
        const EMPTY: &str = "        -        -            -";
        let width = self.names.iter().map(String::len).chain(["Jain's index".len()]).max().unwrap_or(0);
        let both_phases = |of: &dyn Fn(&DemoPhase) -> String| {
            let sharing = self.sharing.as_ref().map_or(EMPTY.into(), of);
            format!("{} |{sharing}", of(&self.plain))
        };
        let title = |phase: &DemoPhase, name: &str| {
            let text = format!("{name}, {:.0} to {:.0} s", phase.seconds[0], phase.seconds[1]);
            format!("{text:>31}")
        };
        let sharing = self.sharing.as_ref().map_or(String::new(), |phase| title(phase, "sharing"));
        writeln!(f, "{:width$}{} |{sharing}", "", title(&self.plain, "plain"))?;
        writeln!(f, "{:width$}{COLUMNS} |{COLUMNS}", "")?;
        for (number, name) in self.names.iter().enumerate() {
            writeln!(f, "{name:width$}{}", both_phases(&|phase| phase.terminals[number].cells()))?;
        }
        writeln!(f, "{:width$}{}", "all", both_phases(&|phase| phase.all.cells()))?;
        let index = |phase: &DemoPhase| {
            phase.jain.map_or(format!("{:>31}", "-"), |jain| format!("{jain:>9.3}{:22}", ""))
        };
        writeln!(f, "{:width$}{}", "Jain's index", both_phases(&index).trim_end())?;
        if self.sharing.is_none() {
            writeln!(f, "The run was stopped before sharing took effect.")?;
        }
        for note in &self.notes {
            writeln!(f, "Note: {note}")?;
        }
        Ok(())
    }
}
