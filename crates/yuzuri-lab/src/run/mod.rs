//! One run: builds the network, runs the workloads, monitors the flows, and writes a folder of
//! results.

mod call;
mod exchange;
pub(crate) mod flows;
mod gate;
mod iperf3;
mod quic;
mod record;
mod run_controls;
mod sharing;
mod simulated;
mod summary;
mod watch;
mod work;

pub use call::{CallDirection, CallRecord};
pub use flows::{FlowFigures, Weighted};
pub use gate::GateRecord;
pub use quic::check_built;
pub use record::{
    Clock, FILE as RECORD_FILE, HostRecord, LineRecord, RadioRecord, RunRecord, Task, TerminalRecord, Totals,
    Watched,
};
pub use sharing::{ShareRecord, Statuses};
pub use simulated::Simulated;
pub use work::{BufferRow, Job};

use crate::LabError;
use crate::driver::{CaptureConfig, Change, Driver, DriverConfig, DriverReport};
use crate::net::{HostSettings, Run, Topology};
use gate::{GateResult, GateRun};
use nix::sys::resource::{UsageWho, getrusage};
use run_controls::RunControls;
use sharing::{Shared, Sharing};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use summary::{buffers_csv, flows_csv, summarize};
use watch::Recorder;
use work::WorkerResult;
use yuzuri_kernel::clock;
use yuzuri_scenario::{ApForwarding, PathSpec, Problem, Problems, Scenario, TerminalSpec};
use yuzuri_trace::Account;

/// File name of the resolved scenario in a run's folder.
pub const SCENARIO_FILE: &str = "scenario.toml";
/// File name of the recording in a run's folder.
pub const RECORDING_FILE: &str = "recording.arrows";
/// File name of the queue lengths over time in a run's folder.
pub const QUEUES_FILE: &str = "queues.csv";
/// File name of the flows' figures in a run's folder.
pub const FLOWS_FILE: &str = "flows.csv";
/// File name of the daemons' ticks in a run's folder, if terminals share.
pub const SHARE_FILE: &str = "share.csv";
/// File name of the decisions of the access point's daemon, if it acts for terminals.
pub const GATE_FILE: &str = "gate.csv";
/// File name of the buffers in a run's folder, if the workload records them.
pub const BUFFERS_FILE: &str = "buffers.csv";

/// Time between the network's first answer and the scenario's time zero, so that everything that
/// starts at zero is ready.
const START_DELAY: Duration = Duration::from_millis(100);

/// Runs a scenario in real time (or in a guest's virtual time) and writes its results to `folder`,
/// which exists. Calls `progress` a few times per second with the elapsed scenario time in seconds.
///
/// # Errors
/// If the host lacks what is needed, if a result cannot be written, or if `stop` was set. The
/// network is removed in these cases as well.
pub fn run(
    scenario: &Scenario,
    task: &Task,
    folder: &Path,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(f64),
) -> Result<RunRecord, LabError> {
    let begun = Instant::now();
    let cpu_before = process_cpu_s();
    let done = perform(scenario, task, folder, stop, progress, &mut |_| {}, None)?;
    if stop.load(Ordering::Relaxed) {
        return Err(LabError::Stopped);
    }
    let RunOutcome { origin, origin_mono_ns, report, worker_results, account, shared, .. } = &done;

    let span_s = [scenario.warm_up_s, scenario.duration_s];
    let figures = done.figures(span_s)?;
    let names: Vec<String> = scenario.terminals().map(|t| t.name()).collect();
    write_file(&folder.join(FLOWS_FILE), &flows_csv(scenario, &figures))?;
    write_queues(report, done.origin_s, scenario, &folder.join(QUEUES_FILE))?;
    if let Some(text) = buffers_csv(scenario, worker_results, *origin_mono_ns) {
        write_file(&folder.join(BUFFERS_FILE), &text)?;
    }
    if let Some(text) = shared.csv(&names, *origin) {
        write_file(&folder.join(SHARE_FILE), &text)?;
    }
    if let Some(gated) = &done.gated {
        write_file(&folder.join(GATE_FILE), &gated.csv(*origin))?;
    }
    // The snapshots at the start and the end of the evaluated part; the driver took one more when
    // it ended.
    let [from, to, ..] = report.snapshots.as_slice() else {
        return Err(LabError::Run("the driver did not account for the run".into()));
    };
    let mut record = summarize(scenario, task, report, &figures, worker_results, account, [from, to]);
    let [from_ns, to_ns] = span_s.map(|seconds| *origin_mono_ns + (seconds * 1e9) as u64);
    for (number, terminal) in record.terminals.iter_mut().enumerate() {
        terminal.share = shared.record(number, *origin, span_s);
        terminal.call = worker_results[number].call.as_ref().and_then(|call| call.record(from_ns, to_ns));
    }
    record.notes.extend(shared.notes.iter().cloned());
    if let Some(gated) = &done.gated {
        record.gate = Some(gated.record(*origin, span_s));
        record.notes.extend(gated.notes());
    }
    record.started_unix_ns = done.started_unix_ns;
    record.origin_mono_ns = *origin_mono_ns;
    record.wall_s = begun.elapsed().as_secs_f64();
    record.process_cpu_s = process_cpu_s() - cpu_before;
    // Written last: a folder with this file contains a finished run.
    record.write(folder)?;
    Ok(record)
}

/// The results of a run after its network was removed, whether it was completed or stopped.
pub(crate) struct RunOutcome {
    /// Time zero of the scenario.
    pub(crate) origin: Instant,
    /// When it ended, in seconds of scenario time.
    pub(crate) end_s: f64,
    /// The driver's results.
    pub(crate) report: DriverReport,
    origin_mono_ns: u64,
    started_unix_ns: i64,
    /// Time zero of the scenario since the driver's start, seconds.
    origin_s: f64,
    recording: PathBuf,
    /// By terminal: its addresses, and whether it sends and whether it receives.
    terminals: Vec<([IpAddr; 2], (bool, bool))>,
    worker_results: Vec<WorkerResult>,
    account: Account,
    /// The daemons' results.
    pub(crate) shared: Shared,
    /// The results of the access point's daemon.
    gated: Option<GateResult>,
}

/// Builds the network, runs the workloads until the end or until `stop` is set, and removes the
/// network. Calls `built` with the names of the terminals' namespaces once they exist; `statuses`
/// publishes what the terminals' daemons report.
pub(crate) fn perform(
    scenario: &Scenario,
    task: &Task,
    folder: &Path,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(f64),
    built: &mut dyn FnMut(&[&str]),
    statuses: Option<&Statuses>,
) -> Result<RunOutcome, LabError> {
    refuse(scenario.problems(), folder)?;
    check_built(scenario)?;
    write_file(&folder.join(SCENARIO_FILE), &scenario_text(scenario)?)?;

    // Dropped in reverse order: workers and driver end before the network is removed, and the
    // network before the congestion controls, whose names contain the number that the lock
    // releases.
    let claim = Run::claim((task.clock == Clock::Virtual).then_some(0))?;
    let settings: Vec<HostSettings> = scenario
        .terminals()
        .map(|t| HostSettings {
            initial_window: t.kind.initial_window,
            window: t.kind.window,
            mtu_bytes: Some(scenario.path.mtu_bytes).filter(|mtu| *mtu != PathSpec::MAX_MTU_BYTES),
            default_control: default_control(scenario, t.kind).map(str::to_owned),
        })
        .collect();
    let run_controls = RunControls::register(scenario, claim.number())?;
    let sysctl: Vec<(String, String)> = scenario.sysctl.clone().into_iter().collect();
    let mut topology = Topology::build(&claim, &settings, &sysctl)?;
    if let Some(shaper) = &scenario.shaper {
        topology.shape(shaper)?;
    }
    let taps = topology.taps.take().ok_or_else(|| LabError::Run("the network has no devices".into()))?;
    let absent: Vec<u16> =
        (0..).zip(scenario.terminals()).filter(|(_, t)| t.kind.joins_s > 0.0).map(|(n, _)| n).collect();
    let wrong = |p: Problem| LabError::Run(format!("{}: {}", p.field, p.what));
    let cell = scenario.cell_config().map_err(wrong)?;
    let second_cell = scenario.second_cell_config().map_err(wrong)?;
    let config = DriverConfig {
        cell,
        second_cell,
        in_second_cell: (0..)
            .zip(scenario.terminals())
            .filter(|(_, t)| scenario.is_in_second_cell(t.kind, -1.0))
            .map(|(n, _)| n)
            .collect(),
        wire: scenario.wire_config(),
        forwarding: topology.forwarding(scenario.ap == ApForwarding::Host),
        seed: task.seed,
        absent: absent.clone(),
        queue_interval: Duration::from_secs_f64(scenario.queue_ms / 1000.0),
        captures: scenario.capture_bytes.map(|snap_bytes| CaptureConfig {
            folder: folder.to_owned(),
            snap_bytes,
            terminals: scenario.terminals().map(|terminal| terminal.name()).collect(),
        }),
    };
    let driver = Driver::start(config, taps)?;
    let mut plan = Plan {
        scenario,
        run_controls: &run_controls,
        topology: &topology,
        driver: &driver,
        sharing: None,
        stop,
    };
    plan.reach(&absent)?;
    let names: Vec<&str> = topology.terminals.iter().map(|host| host.namespace.name()).collect();
    built(&names);
    // Started after the driver, so that it ends first: its departure messages pass through the
    // driver.
    let sharing = Sharing::start(scenario, task.seed, claim.number(), &topology, statuses, stop)?;
    plan.sharing = Some(&sharing);
    let gate = scenario.gate.as_ref().map(|spec| GateRun::start(scenario, spec, &topology)).transpose()?;
    let jobs = plan.jobs(Instant::now());
    work::check_available(&topology, &jobs)?;
    let directions = jobs.iter().map(Job::directions).fold((false, false), |a, b| (a.0 || b.0, a.1 || b.1));
    let filter = topology.filter(directions.0, directions.1);
    let filter = filter.parse().map_err(|e| LabError::Run(format!("the monitor's filter: {e}")))?;
    let recording = folder.join(RECORDING_FILE);
    let recorder = Recorder::start(filter, Duration::from_secs_f64(scenario.sample_ms / 1000.0), &recording)?;

    let origin = Instant::now() + START_DELAY;
    let origin_mono_ns = clock::mono_ns() + START_DELAY.as_nanos() as u64;
    let started_unix_ns = origin_mono_ns as i64 + clock::wall_offset_ns();
    sharing.begin(origin);
    gate.iter().for_each(|gate| gate.begin(origin));
    let (worker_results, failed) = plan.work(origin, progress)?;
    let end_s = origin.elapsed().as_secs_f64().min(scenario.duration_s);
    let failed = failed.or_else(|| sharing.failed());
    let shared = sharing.finish();
    let gated = gate.map(GateRun::finish).transpose()?;
    let account = recorder.finish()?;
    let dropped = topology.dropped_frames()?;
    let origin_s = (origin - driver.started()).as_secs_f64();
    let mut report = driver.finish()?;
    report.lateness.refused += dropped;
    if let Some(error) = failed {
        return Err(error);
    }
    let addresses = topology.terminals.iter().map(|host| [IpAddr::V4(host.v4), IpAddr::V6(host.v6)]);
    let terminals = addresses.zip(jobs.iter().map(Job::directions)).collect();
    Ok(RunOutcome {
        origin,
        end_s,
        report,
        origin_mono_ns,
        started_unix_ns,
        origin_s,
        recording,
        terminals,
        worker_results,
        account,
        shared,
        gated,
    })
}

impl RunOutcome {
    /// The flows' figures between two times of the scenario, seconds.
    pub(crate) fn figures(&self, [from_s, to_s]: [f64; 2]) -> Result<Vec<FlowFigures>, LabError> {
        let at = |seconds: f64| self.origin_mono_ns + (seconds * 1e9) as u64;
        // Both ends of a flow may be recorded; the end that sends the data is evaluated.
        let terminal_of = |address: IpAddr, wanted: &dyn Fn((bool, bool)) -> bool| {
            let matches = |(addresses, directions): &([IpAddr; 2], (bool, bool))| {
                addresses.contains(&address) && wanted(*directions)
            };
            self.terminals.iter().position(matches)
        };
        let (from_ns, to_ns) = (at(from_s), at(to_s));
        let mut figures = flows::read(&self.recording, from_ns, to_ns, |flow| {
            let sends = terminal_of(flow.local.ip(), &|(sends, _)| sends);
            sends.or_else(|| terminal_of(flow.remote.ip(), &|directions| directions == (false, true)))
        })?;
        // QUIC connections, which the kernel's monitor does not see.
        for (terminal, result) in self.worker_results.iter().enumerate() {
            figures.extend(result.quic.iter().map(|flow| flow.figures(terminal, from_ns, to_ns)));
        }
        Ok(figures)
    }
}

/// Aborts a run whose scenario has problems.
fn refuse(problems: Vec<Problem>, folder: &Path) -> Result<(), LabError> {
    if problems.is_empty() {
        return Ok(());
    }
    let list = problems.into_iter().map(|problem| (None, problem)).collect();
    Err(LabError::Scenario(Problems { list, file: folder.join(SCENARIO_FILE) }))
}

/// The resolved scenario as written to a run's folder.
///
/// # Errors
/// None for a scenario parsed from a file.
pub fn scenario_text(scenario: &Scenario) -> Result<String, LabError> {
    scenario.to_toml().map_err(|e| LabError::Run(format!("writing the scenario: {e}")))
}

fn write_file(path: &Path, text: &str) -> Result<(), LabError> {
    std::fs::write(path, text).map_err(LabError::file(path))
}

fn write_queues(
    report: &DriverReport,
    origin_s: f64,
    scenario: &Scenario,
    path: &Path,
) -> Result<(), LabError> {
    let mut text = Vec::new();
    let mut queues = report.queues.clone();
    let names: Vec<String> = scenario.terminals().map(|t| t.name()).collect();
    for (column, name) in queues.columns.iter_mut().zip(names) {
        *column = name;
    }
    queues
        .write_csv(origin_s, &mut text)
        .and_then(|()| std::fs::write(path, text))
        .map_err(LabError::file(path))
}

struct Plan<'a> {
    scenario: &'a Scenario,
    run_controls: &'a RunControls,
    topology: &'a Topology,
    driver: &'a Driver,
    sharing: Option<&'a Sharing>,
    stop: &'a AtomicBool,
}

/// The default congestion control for flows of a kind. A daemon migrates only flows that use the
/// default, and has to return them to CUBIC whatever the host's default is.
fn default_control<'a>(scenario: &'a Scenario, kind: &TerminalSpec) -> Option<&'a str> {
    let is_set = scenario.sysctl.contains_key("net.ipv4.tcp_congestion_control");
    (!is_set && scenario.share_of(kind).is_some()).then_some("cubic")
}

impl Plan<'_> {
    /// Waits until every associated terminal reaches the server, and makes window bounds take
    /// effect.
    fn reach(&self, absent: &[u16]) -> Result<(), LabError> {
        let present = (0..self.topology.terminals.len()).filter(|t| !absent.contains(&(*t as u16)));
        std::thread::scope(|scope| {
            let bounded: Vec<bool> = self.scenario.terminals().map(|t| t.kind.window.is_some()).collect();
            let one = |terminal: usize, bounded: bool| {
                self.topology.reach(terminal, self.stop)?;
                if bounded { self.topology.prime_metrics(terminal, self.stop) } else { Ok(()) }
            };
            let tries: Vec<_> = present
                .map(|terminal| {
                    let bounded = bounded[terminal];
                    scope.spawn(move || one(terminal, bounded))
                })
                .collect();
            tries.into_iter().try_for_each(|t| t.join().unwrap_or_else(|p| std::panic::resume_unwind(p)))
        })
    }

    fn jobs(&self, origin: Instant) -> Vec<Job> {
        let jobs = self.scenario.terminals().enumerate().map(|(terminal, t)| Job {
            terminal,
            spec: self.scenario.workload_of(t.kind).clone(),
            control: self
                .run_controls
                .name(t.kind_number)
                .map(str::to_owned)
                .or_else(|| t.kind.control.clone()),
            paced: t.kind.paced,
            // Terminals present from the start were primed before.
            prime_metrics: t.kind.window.is_some() && t.kind.joins_s > 0.0,
            shown: self.sharing.and_then(|sharing| sharing.shown(terminal)),
            start: origin + Duration::from_secs_f64(t.kind.joins_s),
        });
        jobs.collect()
    }

    /// Runs all workloads from `origin` until the end. Returns the workers' results, and what ended
    /// the run early.
    fn work(
        &self,
        origin: Instant,
        progress: &mut dyn FnMut(f64),
    ) -> Result<(Vec<WorkerResult>, Option<LabError>), LabError> {
        let (scenario, topology) = (self.scenario, self.topology);
        let at = |seconds: f64| origin + Duration::from_secs_f64(seconds);
        let jobs = self.jobs(origin);
        let mut ends = Vec::new();
        for (number, terminal) in (0..).zip(scenario.terminals()) {
            let kind = terminal.kind;
            if kind.joins_s > 0.0 {
                self.driver.change(at(kind.joins_s), Change::Join(number));
            }
            if scenario.leaves_s(kind) < scenario.duration_s {
                self.driver.change(at(scenario.leaves_s(kind)), Change::Leave(number));
            }
            if let Some(moves_s) = kind.moves_s {
                self.driver.change(at(moves_s), Change::Leave(number));
                self.driver.change(at(moves_s + kind.away_ms / 1000.0), Change::JoinOther(number));
            }
            ends.push(at(scenario.leaves_s(kind)));
        }
        self.driver.change(at(scenario.warm_up_s), Change::Snapshot);
        self.driver.change(at(scenario.duration_s), Change::Snapshot);

        let flags: Vec<AtomicBool> = jobs.iter().map(|_| AtomicBool::new(false)).collect();
        let servers_stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let mut servers = vec![scope.spawn(|| work::receive(&self.topology.server, &servers_stop))];
            if jobs
                .iter()
                .any(|job| matches!(job.spec, yuzuri_scenario::WorkloadSpec::RequestResponse { .. }))
            {
                servers.push(scope.spawn(|| work::answer(&self.topology.server, &servers_stop)));
            }
            for job in jobs.iter().filter(|job| job.directions() == (false, true)) {
                let host = &self.topology.terminals[job.terminal];
                servers.push(scope.spawn(|| work::receive(host, &servers_stop)));
            }
            let mut workers: Vec<_> = jobs
                .iter()
                .zip(&flags)
                .map(|(job, flag)| Some(scope.spawn(move || work::work(topology, job, flag))))
                .collect();
            let mut worker_results: Vec<WorkerResult> = vec![WorkerResult::default(); jobs.len()];
            let mut failed = None;
            let end = at(scenario.duration_s);
            while failed.is_none() && !self.stop.load(Ordering::Relaxed) && Instant::now() < end {
                for (flag, ends) in flags.iter().zip(&ends) {
                    if Instant::now() >= *ends {
                        flag.store(true, Ordering::Relaxed);
                    }
                }
                if !self.driver.is_running() {
                    failed = Some(LabError::Run("the driver exited before the end of the run".into()));
                }
                failed = failed.or_else(|| self.sharing?.failed());
                if let Some(at) = servers.iter().position(|s| s.is_finished()) {
                    let result = servers.swap_remove(at).join();
                    failed = result.unwrap_or_else(|p| std::panic::resume_unwind(p)).err();
                }
                for (worker, worker_result) in workers.iter_mut().zip(&mut worker_results) {
                    if let Some(done) = worker.take_if(|w| w.is_finished()) {
                        match done.join().unwrap_or_else(|p| std::panic::resume_unwind(p)) {
                            Ok(result) => *worker_result = result,
                            Err(error) => failed = Some(error),
                        }
                    }
                }
                progress(Instant::now().saturating_duration_since(origin).as_secs_f64());
                let next = ends.iter().filter(|e| **e > Instant::now()).min().unwrap_or(&end);
                std::thread::sleep(
                    next.saturating_duration_since(Instant::now()).min(Duration::from_millis(50)),
                );
            }
            flags.iter().for_each(|flag| flag.store(true, Ordering::Relaxed));
            for (worker, worker_result) in workers.into_iter().zip(&mut worker_results) {
                match worker.map(|w| w.join().unwrap_or_else(|p| std::panic::resume_unwind(p))) {
                    Some(Ok(result)) => *worker_result = result,
                    Some(Err(error)) => failed = failed.or(Some(error)),
                    None => {}
                }
            }
            servers_stop.store(true, Ordering::Relaxed);
            Ok((worker_results, failed))
        })
    }
}

fn process_cpu_s() -> f64 {
    let seconds = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 / 1e6;
    getrusage(UsageWho::RUSAGE_SELF).map_or(0.0, |u| seconds(u.user_time()) + seconds(u.system_time()))
}
