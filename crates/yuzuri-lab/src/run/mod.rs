//! One run: the network is built, the terminals do their work, all is watched, and a folder of results is left.

mod exchange;
mod flows;
mod iperf3;
mod laws;
mod record;
mod watch;
mod work;

pub use exchange::LEAST_REQUEST;
pub use flows::{FlowFigures, Weighted};
pub use record::{
    Clock, FILE as RECORD_FILE, HostRecord, LineRecord, RadioRecord, RunRecord, Task, TerminalRecord, Totals,
    Watched, jain,
};
pub use work::{BufferRow, Job};

use crate::LabError;
use crate::driver::{Change, Driver, DriverConfig, DriverReport, Snapshot};
use crate::net::{HostSettings, Run, Topology};
use crate::scenario::{PathSpec, Problems, Scenario};
use laws::Laws;
use nix::sys::resource::{UsageWho, getrusage};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use watch::Watcher;
use work::Told;
use yuzuri_kernel::clock;
use yuzuri_trace::Account;

/// Name of the resolved scenario in a run's folder.
pub const SCENARIO_FILE: &str = "scenario.toml";
/// Name of the recording in a run's folder.
pub const RECORDING_FILE: &str = "recording.arrows";
/// Name of the queues over time in a run's folder.
pub const QUEUES_FILE: &str = "queues.csv";
/// Name of the flows' figures in a run's folder.
pub const FLOWS_FILE: &str = "flows.csv";
/// Name of the buffers in a run's folder, where the workload keeps them.
pub const BUFFERS_FILE: &str = "buffers.csv";

/// After the network answers, before time zero: so that everything that starts at zero is ready.
const LEAD: Duration = Duration::from_millis(100);

/// Runs a scenario in real time (or in a guest's virtual time) and writes its results into `folder`, which exists.
/// `progress` is called a few times a second with the seconds of the scenario that have passed.
///
/// # Errors
/// Where the host cannot do it, a result cannot be written, or `stop` was set. Nothing of the network is left then,
/// either.
pub fn run(
    scenario: &Scenario,
    task: &Task,
    folder: &Path,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(f64),
) -> Result<RunRecord, LabError> {
    let problems = scenario.problems();
    if !problems.is_empty() {
        let list = problems.into_iter().map(|problem| (None, problem)).collect();
        return Err(LabError::Scenario(Problems { list, file: folder.join(SCENARIO_FILE) }));
    }
    let begun = Instant::now();
    let cpu_before = process_cpu_s();
    write_file(&folder.join(SCENARIO_FILE), &scenario_text(scenario)?)?;

    // Dropped in the reverse order: workers and driver end before the network goes, the network before the claim.
    let claim = Run::claim((task.clock == Clock::Virtual).then_some(0))?;
    let settings: Vec<HostSettings> = scenario
        .terminals()
        .map(|t| HostSettings {
            initial_window: t.kind.initial_window,
            window: t.kind.window,
            mtu_bytes: Some(scenario.path.mtu_bytes).filter(|mtu| *mtu != PathSpec::MOST_MTU_BYTES),
        })
        .collect();
    let laws = Laws::register(scenario, claim.number())?;
    let sysctl: Vec<(String, String)> = scenario.sysctl.clone().into_iter().collect();
    let mut topology = Topology::build(&claim, &settings, &sysctl)?;
    let taps = topology.taps.take().ok_or_else(|| LabError::Run("the network has no devices".into()))?;
    let absent: Vec<u16> =
        (0..).zip(scenario.terminals()).filter(|(_, t)| t.kind.joins_s > 0.0).map(|(n, _)| n).collect();
    let cell = scenario.cell_config().map_err(|p| LabError::Run(format!("{}: {}", p.field, p.what)))?;
    let config = DriverConfig {
        cell,
        wire: scenario.wire_config(),
        seed: task.seed,
        absent: absent.clone(),
        queue_interval: Duration::from_secs_f64(scenario.queue_ms / 1000.0),
    };
    let driver = Driver::start(config, taps)?;
    let plan = Plan { scenario, laws: &laws, topology: &topology, driver: &driver, stop };
    plan.reach(&absent)?;
    let jobs = plan.jobs(Instant::now());
    work::check_available(&topology, &jobs)?;
    let directions = jobs.iter().map(Job::directions).fold((false, false), |a, b| (a.0 || b.0, a.1 || b.1));
    let filter = topology.filter(directions.0, directions.1);
    let filter = filter.parse().map_err(|e| LabError::Run(format!("the watch's filter: {e}")))?;
    let recording = folder.join(RECORDING_FILE);
    let watcher = Watcher::start(filter, Duration::from_secs_f64(scenario.sample_ms / 1000.0), &recording)?;

    let origin = Instant::now() + LEAD;
    let origin_mono_ns = clock::mono_ns() + LEAD.as_nanos() as u64;
    let started_unix_ns = origin_mono_ns as i64 + clock::wall_offset_ns();
    let (told, failed) = plan.work(origin, progress)?;
    let account = watcher.finish()?;
    let refused = topology.refused_frames()?;
    let origin_s = (origin - driver.started()).as_secs_f64();
    let mut report = driver.finish()?;
    report.lateness.refused += refused;
    if let Some(error) = failed {
        return Err(error);
    }
    if stop.load(Ordering::Relaxed) {
        return Err(LabError::Stopped);
    }

    let span_ns = [scenario.warm_up_s, scenario.duration_s].map(|s| origin_mono_ns + (s * 1e9) as u64);
    let figures = plan_flows(&recording, span_ns, &topology, &jobs)?;
    write_file(&folder.join(FLOWS_FILE), &flows_csv(scenario, &figures))?;
    write_queues(&report, origin_s, scenario, &folder.join(QUEUES_FILE))?;
    if let Some(text) = buffers_csv(scenario, &told, origin_mono_ns) {
        write_file(&folder.join(BUFFERS_FILE), &text)?;
    }
    // Of the beginning and the end of what counts; one more was taken as the driver ended.
    let [from, to, ..] = report.snapshots.as_slice() else {
        return Err(LabError::Run("the driver did not account for the run".into()));
    };
    let mut record = summarize(scenario, task, &report, &figures, &told, &account, [from, to]);
    record.started_unix_ns = started_unix_ns;
    record.origin_mono_ns = origin_mono_ns;
    drop(topology);
    // Their names carry the number that the claim gives back.
    drop(laws);
    drop(claim);
    record.wall_s = begun.elapsed().as_secs_f64();
    record.process_cpu_s = process_cpu_s() - cpu_before;
    // Last: a folder with this file in it is a finished run.
    record.write(folder)?;
    Ok(record)
}

/// The resolved scenario as it is written into a run's folder.
///
/// # Errors
/// None for a scenario that was read from a file.
pub fn scenario_text(scenario: &Scenario) -> Result<String, LabError> {
    toml::to_string(scenario).map_err(|e| LabError::Run(format!("writing the scenario: {e}")))
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
    laws: &'a Laws,
    topology: &'a Topology,
    driver: &'a Driver,
    stop: &'a AtomicBool,
}

impl Plan<'_> {
    /// Waits until every terminal that is there reaches the server, and lets bounds of windows hold.
    fn reach(&self, absent: &[u16]) -> Result<(), LabError> {
        let there = (0..self.topology.terminals.len()).filter(|t| !absent.contains(&(*t as u16)));
        std::thread::scope(|scope| {
            let bounded: Vec<bool> = self.scenario.terminals().map(|t| t.kind.window.is_some()).collect();
            let one = |terminal: usize, bounded: bool| {
                self.topology.reach(terminal, self.stop)?;
                if bounded { self.topology.prime(terminal, self.stop) } else { Ok(()) }
            };
            let tries: Vec<_> = there
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
            control: self.laws.name(t.kind_number).map(str::to_owned).or_else(|| t.kind.control.clone()),
            // Who was there from the start was primed then.
            prime: t.kind.window.is_some() && t.kind.joins_s > 0.0,
            start: origin + Duration::from_secs_f64(t.kind.joins_s),
        });
        jobs.collect()
    }

    /// Lets all work from `origin` until the end, and gives what the workers tell, and what ended it early.
    fn work(
        &self,
        origin: Instant,
        progress: &mut dyn FnMut(f64),
    ) -> Result<(Vec<Told>, Option<LabError>), LabError> {
        let scenario = self.scenario;
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
                .any(|job| matches!(job.spec, crate::scenario::WorkloadSpec::RequestResponse { .. }))
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
                .map(|(job, flag)| Some(scope.spawn(move || work::work(self.topology, job, flag))))
                .collect();
            let mut told: Vec<Told> = vec![Told::default(); jobs.len()];
            let mut failed = None;
            let end = at(scenario.duration_s);
            while failed.is_none() && !self.stop.load(Ordering::Relaxed) && Instant::now() < end {
                for (flag, ends) in flags.iter().zip(&ends) {
                    if Instant::now() >= *ends {
                        flag.store(true, Ordering::Relaxed);
                    }
                }
                if !self.driver.is_running() {
                    failed = Some(LabError::Run("the driver ended before the run did".into()));
                }
                if let Some(at) = servers.iter().position(|s| s.is_finished()) {
                    let result = servers.swap_remove(at).join();
                    failed = result.unwrap_or_else(|p| std::panic::resume_unwind(p)).err();
                }
                for (worker, told) in workers.iter_mut().zip(&mut told) {
                    if let Some(done) = worker.take_if(|w| w.is_finished()) {
                        match done.join().unwrap_or_else(|p| std::panic::resume_unwind(p)) {
                            Ok(tells) => *told = tells,
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
            for (worker, told) in workers.into_iter().zip(&mut told) {
                match worker.map(|w| w.join().unwrap_or_else(|p| std::panic::resume_unwind(p))) {
                    Some(Ok(tells)) => *told = tells,
                    Some(Err(error)) => failed = failed.or(Some(error)),
                    None => {}
                }
            }
            servers_stop.store(true, Ordering::Relaxed);
            Ok((told, failed))
        })
    }
}

/// The flows' figures between two moments.
fn plan_flows(
    recording: &Path,
    [from_ns, to_ns]: [u64; 2],
    topology: &Topology,
    jobs: &[Job],
) -> Result<Vec<FlowFigures>, LabError> {
    // Of a flow both ends may be recorded: the one that sends the data counts.
    let sends = |address| topology.terminal_of(address).filter(|t| jobs[*t].directions().0);
    let gets = |address| topology.terminal_of(address).filter(|t| jobs[*t].directions() == (false, true));
    flows::read(recording, from_ns, to_ns, |flow| sends(flow.local.ip()).or_else(|| gets(flow.remote.ip())))
}

fn flows_csv(scenario: &Scenario, figures: &[FlowFigures]) -> String {
    let names: Vec<String> = scenario.terminals().map(|t| t.name()).collect();
    let mut text = String::from(
        "terminal,control,bytes_acked,bytes_received,retransmissions,recoveries,timeouts,srtt_mean_us,srtt_p95_us,min_rtt_us,cwnd_mean\n",
    );
    let number = |value: Option<f64>| value.map_or(String::new(), |v| format!("{v:.1}"));
    for f in figures {
        let _ = writeln!(
            text,
            "{},{},{},{},{},{},{},{},{},{},{}",
            names[f.terminal],
            f.control,
            f.bytes_acked,
            f.bytes_received,
            f.retransmissions,
            f.recoveries,
            f.timeouts,
            number(f.srtt.mean()),
            number(f.srtt.quantile(0.95)),
            f.min_rtt_us.map_or(String::new(), |v| v.to_string()),
            number(f.cwnd.mean())
        );
    }
    text
}

/// The buffers of all terminals; `None` where no workload keeps them.
fn buffers_csv(scenario: &Scenario, told: &[Told], origin_mono_ns: u64) -> Option<String> {
    let names: Vec<String> = scenario.terminals().map(|t| t.name()).collect();
    let mut rows: Vec<&BufferRow> = told.iter().flat_map(|t| &t.buffers).collect();
    rows.sort_by_key(|row| row.acked_mono_ns);
    if rows.is_empty() {
        return None;
    }
    let mut text = String::from("terminal,first_write_s,acked_s,bytes,throughput_bps,carried_bps,cwnd\n");
    let seconds = |ns: u64| (ns as f64 - origin_mono_ns as f64) / 1e9;
    for row in rows {
        let _ = writeln!(
            text,
            "{},{:.6},{:.6},{},{},{},{}",
            names[row.terminal],
            seconds(row.first_write_mono_ns),
            seconds(row.acked_mono_ns),
            row.bytes,
            row.throughput_bps,
            row.carried_bps,
            row.cwnd
        );
    }
    Some(text)
}

fn summarize(
    scenario: &Scenario,
    task: &Task,
    report: &DriverReport,
    figures: &[FlowFigures],
    told: &[Told],
    account: &Account,
    spans: [&Snapshot; 2],
) -> RunRecord {
    let mut invalid_because = Vec::new();
    let mut notes: Vec<String> = told.iter().flat_map(|t| t.notes.clone()).collect();
    if let Err(why) = report.lateness.verdict() {
        invalid_because.push(why);
    }
    let watched = Watched { seen: account.seen(), kept: account.kept(), lost: account.lost() };
    if watched.lost > 0 {
        notes.push(format!("the monitor lost records: {account}"));
    }
    let [from, to] = spans;
    let span_s = scenario.duration_s - scenario.warm_up_s;
    let mut all_rtt = Weighted::default();
    let mut terminals = Vec::new();
    for (number, terminal) in scenario.terminals().enumerate() {
        let of: Vec<&FlowFigures> = figures.iter().filter(|f| f.terminal == number).collect();
        let (mut rtt, mut cwnd) = (Weighted::default(), Weighted::default());
        for f in &of {
            rtt.extend(&f.srtt);
            cwnd.extend(&f.cwnd);
        }
        all_rtt.extend(&rtt);
        let mut exchanges: Vec<u64> = told[number].exchanges_us.clone();
        exchanges.sort_unstable();
        let present_s = scenario.leaves_s(terminal.kind) - terminal.kind.joins_s.max(scenario.warm_up_s);
        // A terminal is measured while it is there.
        let seconds = present_s.clamp(1e-3, span_s);
        let mut controls: HashMap<&str, u64> = HashMap::new();
        of.iter().for_each(|f| *controls.entry(&f.control).or_default() += f.bytes_acked + 1);
        let control = controls.into_iter().max_by_key(|(name, bytes)| (*bytes, std::cmp::Reverse(*name)));
        let ms = |us: f64| us / 1000.0;
        terminals.push(TerminalRecord {
            name: terminal.name(),
            kind: terminal.kind.name.clone(),
            control: control.map(|(name, _)| name.to_owned()).unwrap_or_default(),
            flows: of.len(),
            throughput_mbps: of.iter().map(|f| f.bytes()).sum::<u64>() as f64 * 8e-6 / seconds,
            rtt_mean_ms: rtt.mean().map(ms),
            rtt_p95_ms: rtt.quantile(0.95).map(ms),
            rtt_min_ms: of.iter().filter_map(|f| f.min_rtt_us).min().map(f64::from).map(ms),
            cwnd_mean: cwnd.mean(),
            retransmissions: of.iter().map(|f| f.retransmissions).sum(),
            recoveries: of.iter().map(|f| f.recoveries).sum(),
            timeouts: of.iter().map(|f| f.timeouts).sum(),
            buffers: told[number].buffers.len(),
            exchange_median_ms: exchanges.get(exchanges.len() / 2).map(|us| *us as f64 / 1000.0),
            radio: RadioRecord::between(
                &from.cell.stations[number],
                &to.cell.stations[number],
                from.at,
                to.at,
            ),
        });
    }
    let ap = RadioRecord::between(&from.cell.ap, &to.cell.ap, from.at, to.at);
    let wire_up = LineRecord::between(&from.wire.up, &to.wire.up, from.at, to.at);
    let wire_down = LineRecord::between(&from.wire.down, &to.wire.down, from.at, to.at);
    let radios = terminals.iter().map(|t| &t.radio).chain([&ap]);
    let drops = radios.map(|r| r.queue_drops + r.retry_drops).sum::<u64>()
        + [&wire_up, &wire_down].map(|l| l.queue_drops + l.lost).iter().sum::<u64>();
    let busy_kinds = scenario.terminals().map(|t| scenario.workload_of(t.kind));
    let working = terminals
        .iter()
        .zip(busy_kinds)
        .filter(|(_, w)| !matches!(w, crate::scenario::WorkloadSpec::Idle {}));
    let totals = Totals {
        throughput_mbps: figures.iter().map(FlowFigures::bytes).sum::<u64>() as f64 * 8e-6 / span_s,
        jain: jain(working.map(|(t, _)| t.throughput_mbps)),
        rtt_mean_ms: all_rtt.mean().map(|us| us / 1000.0),
        rtt_p95_ms: all_rtt.quantile(0.95).map(|us| us / 1000.0),
        retransmissions: terminals.iter().map(|t| t.retransmissions).sum(),
        drops,
    };
    RunRecord {
        format: record::FORMAT,
        task: task.clone(),
        title: scenario.title.clone(),
        yuzuri: env!("CARGO_PKG_VERSION").to_owned(),
        host: host(),
        started_unix_ns: 0,
        origin_mono_ns: 0,
        valid: invalid_because.is_empty(),
        invalid_because,
        notes,
        lateness: report.lateness,
        watched,
        driver_cpu_s: report.cpu.as_secs_f64(),
        process_cpu_s: 0.0,
        wall_s: 0.0,
        from_s: scenario.warm_up_s,
        to_s: scenario.duration_s,
        totals,
        terminals,
        ap,
        busy: record::busy_between(from, to),
        wire_up,
        wire_down,
    }
}

fn host() -> HostRecord {
    let name = nix::sys::utsname::uname();
    let word = |text: &std::ffi::OsStr| text.to_string_lossy().into_owned();
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    name.map_or(HostRecord::default(), |n| HostRecord {
        name: word(n.nodename()),
        kernel: format!("{} {}", word(n.release()), word(n.version())),
        machine: word(n.machine()),
        cpus,
    })
}

fn process_cpu_s() -> f64 {
    let seconds = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 / 1e6;
    getrusage(UsageWho::RUSAGE_SELF).map_or(0.0, |u| seconds(u.user_time()) + seconds(u.system_time()))
}
