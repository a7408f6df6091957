//! Analyses many files in parallel; their reports keep the order in which the files were given.

use crate::analyse::{Options, Outcome, analyse};
use crate::error::IdentifyError;
use crate::input;
use crate::report::FileReport;
use parking_lot::{Condvar, Mutex};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use yuzuri_exit::stopped;

/// A file that is to be analysed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its path; `-` for standard input.
    pub path: PathBuf,
    /// Its size, 0 if unknown.
    pub bytes: u64,
    /// The folder it was found in, as an index into those that were given; files in folders may
    /// have any format.
    pub folder: Option<usize>,
}

/// The arguments, as files.
#[derive(Debug, Default)]
pub struct Plan {
    /// The files, those of a folder by name.
    pub entries: Vec<Entry>,
    /// The folders that were given.
    pub folders: Vec<PathBuf>,
    /// Folders that could not be read.
    pub failed: Vec<FileReport>,
}

impl Plan {
    /// A plan for paths of files and folders, and `-`.
    pub fn of(paths: &[PathBuf]) -> Plan {
        let mut plan = Plan::default();
        for path in paths {
            if path.as_os_str() != "-" && path.is_dir() {
                plan.folders.push(path.clone());
                plan.folder(path, plan.folders.len() - 1);
            } else {
                let bytes = std::fs::metadata(path).map_or(0, |about| about.len());
                plan.entries.push(Entry { path: path.clone(), bytes, folder: None });
            }
        }
        plan
    }

    fn folder(&mut self, path: &Path, root: usize) {
        let listed = std::fs::read_dir(path).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
        let mut entries = match listed {
            Ok(entries) => entries,
            Err(source) => {
                let error = IdentifyError::Folder { name: input::name(path), source };
                let path = input::name(path);
                self.failed.push(FileReport {
                    path,
                    error: Some(error.to_string()),
                    ..FileReport::default()
                });
                return;
            }
        };
        entries.sort_by_key(|entry| entry.file_name());
        for entry in entries {
            let path = entry.path();
            // A link to a folder may form a loop: follow links to files only.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.folder(&path, root);
            } else if let Ok(about) = std::fs::metadata(&path)
                && about.is_file()
            {
                self.entries.push(Entry { path, bytes: about.len(), folder: Some(root) });
            }
        }
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.entries.iter().map(|entry| entry.bytes).sum()
    }
}

/// The results of all files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Files that were analysed to their end.
    pub files: u64,
    /// Files in folders without a supported format.
    pub others: u64,
    /// Files and folders that could not be read completely.
    pub failed: u64,
    /// Directions of flows with a verdict.
    pub flows: u64,
    /// Of these, named.
    pub named: u64,
    /// Files that were not read completely because the user stopped the program.
    pub unread: u64,
}

/// Receives the progress: bytes read, and files finished.
pub trait Watch: Sync {
    /// This many more bytes were read.
    fn bytes(&self, bytes: u64);
    /// A file is done.
    fn done(&self, entry: &Entry);
}

/// Analyses a file; an internal error in one file must not affect the others.
fn guarded(path: &Path, options: &Options, stop: &AtomicBool, watch: &dyn Watch) -> Outcome {
    let work = || analyse(path, options, stop, &|bytes| watch.bytes(bytes));
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|_| {
        let path = input::name(path);
        let error = IdentifyError::Fault { name: path.clone() }.to_string();
        Outcome::Read(Box::new(FileReport { path, error: Some(error), ..FileReport::default() }))
    })
}

/// How many files each worker may be ahead of the first file whose report is missing: later reports
/// wait in memory.
const AHEAD: usize = 4;

/// Analyses all files on `jobs` threads; reports come in the order of the plan.
pub fn run(
    plan: &Plan,
    options: &Options,
    jobs: usize,
    stop: &AtomicBool,
    watch: &dyn Watch,
    mut each: impl FnMut(FileReport) -> Result<(), IdentifyError>,
) -> Result<Totals, IdentifyError> {
    let mut totals = Totals::default();
    let mut give = |report: FileReport, totals: &mut Totals| {
        totals.failed += u64::from(report.error.is_some());
        totals.files += u64::from(report.error.is_none() && !report.stopped);
        totals.unread += u64::from(report.stopped);
        totals.flows += report.flows.len() as u64;
        totals.named += report.flows.iter().filter(|flow| flow.name().is_some()).count() as u64;
        if let Some(spilled) = &report.spilled {
            totals.flows += spilled.flows();
            totals.named += spilled.named();
        }
        each(report)
    };
    for report in &plan.failed {
        give(report.clone(), &mut totals)?;
    }
    // By folder: files that are read, and others.
    let mut found = vec![(0u64, 0u64); plan.folders.len()];
    let next = AtomicUsize::new(0);
    let given = (Mutex::new(0usize), Condvar::new());
    let jobs = jobs.clamp(1, plan.entries.len().max(1));
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for _ in 0..jobs {
            let (sender, next, given) = (sender.clone(), &next, &given);
            scope.spawn(move || {
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(entry) = plan.entries.get(place) else { return };
                    let ahead = |given: &mut usize| place >= given.saturating_add(jobs * AHEAD);
                    given.1.wait_while(&mut given.0.lock(), ahead);
                    if stopped(stop) {
                        continue;
                    }
                    let outcome = guarded(&entry.path, options, stop, watch);
                    watch.done(entry);
                    if sender.send((place, outcome)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let release = |count: usize| {
            *given.0.lock() = count;
            given.1.notify_all();
        };
        let mut waiting = BTreeMap::new();
        let mut awaited = 0;
        let mut result = Ok(());
        let mut deliver = |place: usize, outcome, totals: &mut Totals| {
            let folder = plan.entries[place].folder;
            match (outcome, folder) {
                (Outcome::Read(report), folder) => {
                    if let Some(folder) = folder {
                        found[folder].0 += 1;
                    }
                    give(*report, totals)
                }
                (Outcome::NotOurs(_), Some(folder)) => {
                    found[folder].1 += 1;
                    totals.others += 1;
                    Ok(())
                }
                (Outcome::NotOurs(error), None) => {
                    let path = input::name(&plan.entries[place].path);
                    give(FileReport { path, error: Some(error.to_string()), ..FileReport::default() }, totals)
                }
            }
        };
        for (place, outcome) in &receiver {
            waiting.insert(place, outcome);
            while let Some(outcome) = waiting.remove(&awaited) {
                if result.is_ok() {
                    result = deliver(awaited, outcome, &mut totals);
                }
                awaited += 1;
                release(awaited);
            }
            if result.is_err() {
                // The user stopped the program: workers skip the rest.
                stop.store(true, Ordering::Relaxed);
                release(usize::MAX);
            }
            if stopped(stop) {
                release(usize::MAX);
            }
        }
        // After a stop, files in between may be missing.
        for (place, outcome) in waiting {
            if result.is_ok() {
                result = deliver(place, outcome, &mut totals);
            }
            awaited += 1;
        }
        totals.unread += plan.entries.len().saturating_sub(awaited) as u64;
        result
    })?;
    for (folder, (ours, others)) in plan.folders.iter().zip(found) {
        if ours == 0 && !stopped(stop) {
            let name = input::name(folder);
            let error = IdentifyError::EmptyFolder { name: name.clone(), others }.to_string();
            give(FileReport { path: name, error: Some(error), ..FileReport::default() }, &mut totals)?;
        }
    }
    Ok(totals)
}
