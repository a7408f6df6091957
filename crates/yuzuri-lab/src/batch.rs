//! Batches of runs: determines which runs are missing, executes them in parallel on the available
//! cores, and keeps every finished run whatever happens later.

use crate::LabError;
use crate::run::{Clock, RECORD_FILE, RunRecord, SCENARIO_FILE, Task};
use nix::fcntl::{Flock, FlockArg};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use yuzuri_scenario::{Document, Problems, Scenario};

/// A run of an experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// The task.
    pub task: Task,
    /// The experiment.
    pub scenario: Scenario,
    /// The folder of its results.
    pub folder: PathBuf,
}

/// The state of a run's results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Finished and valid.
    Finished,
    /// Finished but not valid; it will be repeated.
    Invalid,
    /// Missing, from another scenario, or incomplete.
    Missing,
}

impl Planned {
    /// The name shown to users.
    pub fn name(&self) -> String {
        format!("{}/seed-{}", self.task.point, self.task.seed)
    }

    /// The state of its results.
    pub fn state(&self) -> State {
        let same =
            |text: String| toml::from_str(&text).is_ok_and(|existing| is_same_run(existing, &self.scenario));
        let same_scenario = std::fs::read_to_string(self.folder.join(SCENARIO_FILE)).is_ok_and(same);
        match RunRecord::open(&self.folder) {
            Ok(record) if same_scenario && record.task == self.task && record.valid => State::Finished,
            Ok(record) if same_scenario && record.task == self.task => State::Invalid,
            _ => State::Missing,
        }
    }
}

/// Whether both scenarios give the same run for a seed: the number of repetitions and the
/// descriptions do not matter.
fn is_same_run(mut existing: Scenario, wanted: &Scenario) -> bool {
    existing.title.clone_from(&wanted.title);
    existing.about.clone_from(&wanted.about);
    existing.repetitions = wanted.repetitions;
    existing == *wanted
}

/// All runs of a file: each point with each seed, ordered by seed, so that a sweep that is stopped
/// early has results for every point.
///
/// # Errors
/// None for a parsed document.
pub fn plan(document: &Document, clock: Clock, out: &Path) -> Result<Vec<Planned>, Problems> {
    let points = document.points()?;
    let repetitions = points.iter().map(|p| p.scenario.repetitions).max().unwrap_or(0);
    let mut planned = Vec::new();
    for repetition in 0..repetitions {
        for point in points.iter().filter(|p| repetition < p.scenario.repetitions) {
            let seed = point.scenario.seed.wrapping_add(u64::from(repetition));
            let task = Task {
                point: point.name.clone(),
                labels: point.labels.clone(),
                alone: point.alone.clone(),
                seed,
                clock,
            };
            let folder = out.join(&point.name).join(format!("seed-{seed}"));
            planned.push(Planned { task, scenario: point.scenario.clone(), folder });
        }
    }
    Ok(planned)
}

/// Executes a run: on this host in real time, in a guest, or simulated.
pub trait Executor: Sync {
    /// Executes a run and writes its results to `folder`, which exists.
    ///
    /// # Errors
    /// As [`crate::run::run`].
    fn execute(
        &self,
        planned: &Planned,
        folder: &Path,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(f64),
    ) -> Result<RunRecord, LabError>;
}

/// Executes runs on this host in real time.
#[derive(Debug, Clone, Copy)]
pub struct RealTimeExecutor;

impl Executor for RealTimeExecutor {
    fn execute(
        &self,
        planned: &Planned,
        folder: &Path,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(f64),
    ) -> Result<RunRecord, LabError> {
        crate::run::run(&planned.scenario, &planned.task, folder, stop, progress)
    }
}

/// Progress events of a batch.
#[derive(Debug)]
pub enum Event<'a> {
    /// A run starts.
    Started(&'a Planned),
    /// The progress of the whole batch.
    Progress {
        /// Number of finished runs.
        done: usize,
        /// Number of runs in the batch.
        of: usize,
        /// Fraction of the work that is finished, by scenario time, 0 to 1.
        part: f64,
    },
    /// A run has finished.
    Done(&'a Planned, &'a RunRecord),
    /// A run has failed.
    Failed(&'a Planned, &'a LabError),
}

/// The result of a batch.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Runs finished by this batch.
    pub done: usize,
    /// Of these, runs that are not valid.
    pub invalid: usize,
    /// Runs that failed, with the reason.
    pub failed: Vec<(String, LabError)>,
    /// Whether the batch was stopped early.
    pub stopped: bool,
}

/// A lock on a results folder. The kernel releases it when the process ends.
#[derive(Debug)]
pub struct OutLock {
    _lock: Flock<File>,
}

impl OutLock {
    /// Creates the folder and locks it.
    ///
    /// # Errors
    /// If the folder cannot be written, or if another process holds the lock.
    pub fn claim(out: &Path) -> Result<OutLock, LabError> {
        std::fs::create_dir_all(out).map_err(LabError::file(out))?;
        let path = out.join(".lock");
        let file = File::create(&path).map_err(LabError::file(&path))?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Ok(OutLock { _lock: lock }),
            Err((_, nix::errno::Errno::EWOULDBLOCK)) => Err(LabError::Run(format!(
                "{} is in use by another `yuzuri lab`: wait for it, or choose another folder with --out",
                out.display()
            ))),
            Err((_, errno)) => Err(LabError::file(&path)(errno.into())),
        }
    }
}

/// Executes the runs, `jobs` in parallel. The folder of a run appears only when the run has
/// finished. The outcome contains the errors of the runs.
pub fn execute(
    planned: &[Planned],
    executor: &dyn Executor,
    jobs: usize,
    stop: &AtomicBool,
    report: &(dyn Fn(Event<'_>) + Sync),
) -> Outcome {
    let waiting: Mutex<VecDeque<&Planned>> = Mutex::new(planned.iter().collect());
    let outcome = Mutex::new(Outcome::default());
    let total_ms: u64 = planned.iter().map(|p| (p.scenario.duration_s * 1000.0) as u64).sum();
    let done_ms = AtomicU64::new(0);
    // Set if no further run can succeed, although the user did not stop the batch.
    let abort = AtomicBool::new(false);
    let next = || waiting.lock().pop_front();
    let count = || outcome.lock();
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) && !abort.load(Ordering::Relaxed) {
                    let Some(run) = next() else { break };
                    report(Event::Started(run));
                    let mut reported_ms = 0;
                    let mut progress = |seconds: f64| {
                        let now_ms = (seconds.clamp(0.0, run.scenario.duration_s) * 1000.0) as u64;
                        let sum = done_ms.fetch_add(now_ms.saturating_sub(reported_ms), Ordering::Relaxed);
                        reported_ms = reported_ms.max(now_ms);
                        let part = sum as f64 / total_ms.max(1) as f64;
                        report(Event::Progress { done: count().done, of: planned.len(), part });
                    };
                    let result = execute_one(run, executor, stop, &mut progress);
                    progress(run.scenario.duration_s);
                    match result {
                        Ok(record) => {
                            let mut outcome = count();
                            outcome.done += 1;
                            outcome.invalid += usize::from(!record.valid);
                            drop(outcome);
                            report(Event::Done(run, &record));
                        }
                        Err(LabError::Stopped) if stop.load(Ordering::Relaxed) => {}
                        Err(error) => {
                            if is_persistent(&error) {
                                abort.store(true, Ordering::Relaxed);
                            }
                            report(Event::Failed(run, &error));
                            count().failed.push((run.name(), error));
                        }
                    }
                }
            });
        }
    });
    let mut outcome = outcome.into_inner();
    outcome.stopped = stop.load(Ordering::Relaxed);
    outcome
}

/// Whether the next run would fail for the same reason.
fn is_persistent(error: &LabError) -> bool {
    matches!(error, LabError::Tool(_) | LabError::File { .. } | LabError::Network { .. })
}

fn execute_one(
    run: &Planned,
    executor: &dyn Executor,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(f64),
) -> Result<RunRecord, LabError> {
    let name = run.folder.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let partial = run.folder.with_file_name(format!("{name}.partial"));
    // Left over from a run that was killed.
    remove(&partial)?;
    std::fs::create_dir_all(&partial).map_err(LabError::file(&partial))?;
    let result = executor.execute(run, &partial, stop, progress);
    if result.is_err() {
        let _ = std::fs::remove_dir_all(&partial);
        return result;
    }
    remove(&run.folder)?;
    std::fs::rename(&partial, &run.folder).map_err(LabError::file(&run.folder))?;
    result
}

fn remove(folder: &Path) -> Result<(), LabError> {
    match std::fs::remove_dir_all(folder) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(LabError::file(folder)(e)),
        _ => Ok(()),
    }
}

/// Every finished run below a folder, sorted by name.
///
/// # Errors
/// If the folder cannot be read.
pub fn finished(out: &Path) -> Result<Vec<(PathBuf, RunRecord)>, LabError> {
    let mut found = Vec::new();
    for point in folders(out)? {
        for folder in folders(&point)? {
            let partial = folder.extension().is_some_and(|e| e == "partial");
            if !partial && folder.join(RECORD_FILE).is_file() {
                found.push((folder.clone(), RunRecord::open(&folder)?));
            }
        }
    }
    Ok(found)
}

/// Returns a warning if the runs include both simulated ones and ones with the kernel's TCP; their
/// figures are not combined.
pub fn mixed_executors(runs: &[(PathBuf, RunRecord)]) -> Option<String> {
    let first_of = |kernels: bool| runs.iter().find(|(_, r)| r.task.clock.is_kernels() == kernels);
    let (simulated, kernels) = (first_of(false)?, first_of(true)?);
    Some(format!(
        "it mixes simulated runs ({}) and runs with the kernel's TCP ({}): move one kind to a separate folder",
        simulated.0.display(),
        kernels.0.display()
    ))
}

/// Rejects a results folder with runs of the other kind: simulated runs if the kernel's TCP is
/// requested, or the reverse. Neither kind may replace the other or be stored beside it.
///
/// # Errors
/// If there is such a run, or if the folder cannot be read.
pub fn refuse_mixed_executors(out: &Path, clock: Clock) -> Result<(), LabError> {
    for point in folders(out)? {
        for folder in folders(&point)? {
            // A record that cannot be read is not a finished run.
            let Ok(record) = RunRecord::open(&folder) else { continue };
            if record.task.clock.is_kernels() != clock.is_kernels() {
                let (existing, requested) = match clock.is_kernels() {
                    true => ("simulated runs", "runs with the kernel's TCP"),
                    false => ("runs with the kernel's TCP", "simulated runs"),
                };
                let why = format!(
                    "it holds {existing} (such as {}), which are not mixed with {requested}: choose another folder with --out",
                    folder.display()
                );
                return Err(LabError::Results { path: out.to_owned(), why });
            }
        }
    }
    Ok(())
}

fn folders(of: &Path) -> Result<Vec<PathBuf>, LabError> {
    let entries = std::fs::read_dir(of).map_err(LabError::file(of))?;
    let mut found: Vec<PathBuf> = entries.flatten().map(|e| e.path()).filter(|p| p.is_dir()).collect();
    found.sort();
    Ok(found)
}
