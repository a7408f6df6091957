//! Converts a scenario file's experiment to a simulation, and refuses what cannot be simulated.

use crate::cc::{Algorithm, CubicConstants, SlowStartExit};
use crate::scenario::{LocalDrop, Scenario, Terminal, Traffic};
use crate::sender::SenderConfig;
use crate::share::{Sharing, hint_of};
use yuzuri_netmodel::Time;
use yuzuri_scenario::{
    ApForwarding, BoundBy, CubicSpec, PathSpec, Problem, Scenario as Experiment, ShareSpec, TerminalSpec,
    WorkloadSpec,
};

/// Advice for a key that the simulator does not support.
const ADVICE: &str = "leave it out, or run this with the kernel's TCP (--clock real or virtual)";

/// The problems of an experiment that the simulator cannot run, one per key; empty if it can run
/// all of it.
pub fn refused(experiment: &Experiment) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut refuse = |field: String, why: &str, what: &str| {
        problems.push(Problem::new(field, format!("{why}: {what}")));
    };
    if experiment.capture_bytes.is_some() {
        refuse("capture_bytes".into(), "the simulator cannot capture packets", ADVICE);
    }
    if experiment.ap != ApForwarding::default() {
        refuse("ap".into(), "the simulator's access point has no kernel", ADVICE);
    }
    if experiment.gate.is_some() {
        refuse("gate".into(), "the simulator's senders have no receive window that could be lowered", ADVICE);
    }
    if experiment.second_cell.is_some() {
        refuse("second_cell".into(), "the simulator has one cell", ADVICE);
    }
    for name in experiment.sysctl.keys() {
        refuse(format!("sysctl.\"{name}\""), "the simulator has no kernel parameters", ADVICE);
    }
    if experiment.path.mtu_bytes != PathSpec::MAX_MTU_BYTES {
        refuse("path.mtu_bytes".into(), "the simulator's MTU is 1500 bytes", ADVICE);
    }
    let mut first: Option<ShareSpec> = None;
    for (number, kind) in experiment.terminal.iter().enumerate().filter(|(_, kind)| kind.count > 0) {
        let field = |key: &str| format!("terminal[{number}].{key}");
        if kind.window.is_some() {
            refuse(field("window"), "the simulator has no routes that lock a window", ADVICE);
        }
        if kind.initial_window.is_some() {
            refuse(
                field("initial_window"),
                "the simulator's initial window is the kernel's 10 segments",
                ADVICE,
            );
        }
        let share = experiment.share_of(kind);
        if let Some((why, what)) = control(experiment, kind, share.is_some()) {
            refuse(field("control"), &why, what);
        }
        if let Some(cubic) = &kind.cubic {
            let bounds = [
                ("no_decrease", cubic.no_decrease),
                ("floor", cubic.floor.is_some()),
                ("cap", cubic.cap.is_some()),
            ];
            for (key, _) in bounds.iter().filter(|(_, is_set)| *is_set) {
                refuse(
                    field(&format!("cubic.{key}")),
                    "the simulator's CUBIC does not support this mode",
                    ADVICE,
                );
            }
        }
        let general = if kind.workload.is_some() { field("workload") } else { "workload".into() };
        if let Some((key, why)) = workload(experiment.workload_of(kind)) {
            let what = match key {
                "kind" => "choose bulk or idle, or run this with the kernel's TCP (--clock real or virtual)",
                _ => ADVICE,
            };
            refuse(format!("{general}.{key}"), why, what);
        }
        let Some(share) = share else { continue };
        let key = if kind.share.is_some() { field("share") } else { "share".into() };
        if share.by == BoundBy::Program {
            let why = "in the simulator the congestion control bounds the windows, not the program";
            refuse(format!("{key}.by"), why, ADVICE);
        }
        match &first {
            None => first = Some(share),
            Some(first) if *first != share => {
                let why =
                    "in the simulator all sharing terminals use the same policy and start at the same time";
                refuse(
                    key,
                    why,
                    "use the same settings for all, or run this with the kernel's TCP (--clock real or virtual)",
                );
            }
            Some(_) => {}
        }
    }
    // Terminal kinds share the scenario's workload and sharing, so a problem there is found once
    // per kind.
    let mut known: Vec<Problem> = Vec::new();
    problems.retain(|problem| {
        let is_unknown = !known.contains(problem);
        known.push(problem.clone());
        is_unknown
    });
    problems
}

/// Why the simulator does not support a kind's congestion control, and the advice to print.
fn control(experiment: &Experiment, kind: &TerminalSpec, shares: bool) -> Option<(String, &'static str)> {
    let sends = !matches!(experiment.workload_of(kind), WorkloadSpec::Idle {});
    if !sends || shares || kind.cubic.is_some() {
        return None;
    }
    let known = || Algorithm::ALL.map(Algorithm::name).join(", ");
    match kind.control.as_deref() {
        None => Some((
            format!("the simulator has no default congestion control; it has {}", known()),
            "name one of them",
        )),
        Some(name) if Algorithm::named(name).is_none() => Some((
            format!("the simulator does not implement '{name}'; it has {}", known()),
            "name one of them, or run this with the kernel's TCP (--clock real or virtual)",
        )),
        Some(_) => None,
    }
}

/// The workload key that the simulator does not support, and why.
fn workload(spec: &WorkloadSpec) -> Option<(&'static str, &'static str)> {
    match spec {
        WorkloadSpec::Bulk { connections: 1, .. } | WorkloadSpec::Idle {} => None,
        WorkloadSpec::Bulk { .. } => Some(("connections", "the simulator has one connection per terminal")),
        WorkloadSpec::Buffers { .. } => Some(("kind", "the simulator does not record buffers")),
        WorkloadSpec::OnOff { .. } => Some(("kind", "the simulator opens no new connection after a pause")),
        WorkloadSpec::RequestResponse { .. } => {
            Some(("kind", "the simulator does not record exchange times"))
        }
        WorkloadSpec::Quic {} | WorkloadSpec::Call { .. } => {
            Some(("kind", "the simulator's senders are TCP's"))
        }
        WorkloadSpec::Iperf3 { .. } => Some(("kind", "the simulator does not run programs")),
    }
}

/// Converts the experiment to a simulation with this seed. TCP small queues are off, because TAP
/// devices release packets at once. A station with a full queue drops packets without notifying the
/// sender. HZ is the guest's 250. Each terminal starts when it joins.
///
/// # Errors
/// Returns the problems of [`refused`], or what the radio configuration lacks.
pub fn simulated(experiment: &Experiment, seed: u64) -> Result<Scenario, Vec<Problem>> {
    let problems = refused(experiment);
    if !problems.is_empty() {
        return Err(problems);
    }
    let ms = |seconds: f64| (seconds * 1000.0).round() as u64;
    let terminals = experiment.terminals().map(|terminal| {
        let kind = terminal.kind;
        let traffic = match experiment.workload_of(kind) {
            WorkloadSpec::Bulk { direction, .. } => Traffic::Bulk { direction: *direction, bytes: None },
            _ => Traffic::Silent,
        };
        // Sharing terminals use CUBIC; for idle terminals the choice does not matter.
        let algorithm = kind.control.as_deref().and_then(Algorithm::named).unwrap_or(Algorithm::Cubic);
        let mut sender = SenderConfig {
            algorithm,
            hz: 250,
            small_queue_shift: None,
            paced_by_fq: kind.paced,
            ..SenderConfig::default()
        };
        if let Some(spec) = &kind.cubic {
            sender.cubic = Some(constants(spec));
            sender.slow_start_exit = if spec.hystart { SlowStartExit::Hystart } else { SlowStartExit::Loss };
        }
        Terminal {
            start_ms: ms(kind.joins_s),
            stop_ms: kind.leaves_s.map(ms),
            ..Terminal::new(traffic).with_sender(sender)
        }
    });
    let wire = experiment.wire_config();
    let mut scenario = Scenario::wired(wire, terminals.collect(), ms(experiment.duration_s)).seeded(seed);
    scenario.cell = Some(experiment.cell_config().map_err(|problem| vec![problem])?);
    scenario.warm_up_ms = ms(experiment.warm_up_s);
    scenario.local_drop = LocalDrop::Silent;
    Ok(scenario)
}

/// The integer constants of `tcp_cubic.c` for a file's parameters.
fn constants(spec: &CubicSpec) -> CubicConstants {
    CubicConstants::from(&spec.cubic("cubic".into()))
}

/// The experiment's sharing; `None` if no terminal shares.
pub fn sharing(experiment: &Experiment) -> Option<Sharing> {
    let spec =
        experiment.terminal.iter().filter(|kind| kind.count > 0).find_map(|k| experiment.share_of(k))?;
    let radios: Vec<_> = experiment
        .terminals()
        .map(|terminal| experiment.share_of(terminal.kind).map(|_| hint_of(terminal.kind.phy)))
        .collect();
    let begins = Time::from_nanos((spec.starts_s * 1e9).round() as u64);
    Some(Sharing::new(spec.policy_config(), &radios).starting_at(begins))
}
