//! A run with simulated TCP: the same scenario, models, results and figures as with the kernel's,
//! but without a network of hosts.

mod recorder;
mod shares;

use super::summary::{flows_csv, summarize};
use super::work::WorkerResult;
use super::{
    FLOWS_FILE, HostRecord, QUEUES_FILE, RECORDING_FILE, RunRecord, SCENARIO_FILE, SHARE_FILE, flows,
    process_cpu_s, refuse, scenario_text, write_file, write_queues,
};
use crate::LabError;
use crate::batch::{Executor, Planned};
use crate::driver::{DriverReport, Lateness};
use recorder::Recorder;
use shares::Shares;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use yuzuri_sim::{run_watched, simulated};

/// The kernel field of the record.
const NO_KERNEL: &str = "none: simulated TCP (yuzuri-sim)";
/// The wall-clock time at a run's start, 2020-01-01, as in a guest, so that a seed reproduces it as
/// well.
const STARTED_UNIX_NS: i64 = 1_577_836_800_000_000_000;

/// Simulates runs on this host, without privilege and without the kernel; a seed reproduces the
/// figures.
#[derive(Debug, Clone, Copy)]
pub struct Simulated;

impl Executor for Simulated {
    fn execute(
        &self,
        planned: &Planned,
        folder: &Path,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(f64),
    ) -> Result<RunRecord, LabError> {
        let (begun, cpu_before) = (Instant::now(), process_cpu_s());
        let (scenario, task) = (&planned.scenario, &planned.task);
        refuse(scenario.problems(), folder)?;
        refuse(yuzuri_sim::refused(scenario), folder)?;
        let experiment = simulated(scenario, task.seed)
            .or_else(|problems| refuse(problems, folder).and(Err(LabError::Stopped)))?;
        write_file(&folder.join(SCENARIO_FILE), &scenario_text(scenario)?)?;
        let mut recorder = Recorder::create(scenario, folder, stop, progress)?;
        let mut shares = Shares::of(scenario);
        let results = run_watched(&experiment, &mut shares, &mut recorder)
            .map_err(|error| LabError::Run(format!("simulating the scenario: {error}")))?;
        let seen = recorder.finish()?;
        // There is no other reason to end early.
        let Some(results) = results else { return Err(LabError::Stopped) };

        let report = DriverReport {
            lateness: Lateness::default(),
            snapshots: seen.snapshots,
            queues: seen.queues,
            elapsed: Duration::from_secs_f64(results.wall_s),
            cpu: Duration::from_secs_f64(results.cpu_s.max(0.0)),
        };
        let ns = |seconds: f64| (seconds * 1e9) as u64;
        let span_s = [scenario.warm_up_s, scenario.duration_s];
        let terminal_of = |flow: &yuzuri_trace::Flow| seen.terminals.get(&flow.id).copied();
        let [from_ns, to_ns] = span_s.map(ns);
        let figures = flows::read(&folder.join(RECORDING_FILE), from_ns, to_ns, terminal_of)?;
        write_file(&folder.join(FLOWS_FILE), &flows_csv(scenario, &figures))?;
        write_queues(&report, 0.0, scenario, &folder.join(QUEUES_FILE))?;
        if let Some(text) = shares.csv(scenario) {
            write_file(&folder.join(SHARE_FILE), &text)?;
        }
        let [from, to] = report.snapshots.as_slice() else {
            return Err(LabError::Run("the simulation did not account for the run".into()));
        };
        let worker_results = vec![WorkerResult::default(); scenario.terminals().count()];
        let mut record =
            summarize(scenario, task, &report, &figures, &worker_results, &seen.account, [from, to]);
        for (number, terminal) in record.terminals.iter_mut().enumerate() {
            terminal.share = shares.record(number, span_s);
        }
        record.host = HostRecord { kernel: NO_KERNEL.into(), ..record.host };
        record.started_unix_ns = STARTED_UNIX_NS;
        record.wall_s = begun.elapsed().as_secs_f64();
        record.process_cpu_s = process_cpu_s() - cpu_before;
        // Written last: a folder with this file contains a finished run.
        record.write(folder)?;
        Ok(record)
    }
}
