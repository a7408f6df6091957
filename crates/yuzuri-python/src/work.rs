//! Analyses files for Python without holding the GIL, and handles Ctrl-C during the analysis.

use crate::{error, flow};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use yuzuri_capture::Ending;
use yuzuri_identify::analyse::{Options, Outcome};
use yuzuri_identify::batch::Plan;
use yuzuri_identify::error::IdentifyError;
use yuzuri_identify::input;
use yuzuri_identify::report::FileReport;
use yuzuri_identify::table;

/// Interval of the check for Ctrl-C: a longer one would be noticeable, a shorter one costs time.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// A stop request for work on other threads.
#[pyclass(frozen, module = "yuzuri._native")]
pub struct Stop {
    flag: Arc<AtomicBool>,
}

#[pymethods]
impl Stop {
    #[new]
    fn new() -> Stop {
        Stop { flag: Arc::new(AtomicBool::new(false)) }
    }

    /// Requests a stop; analyses that were given this object end soon.
    fn set(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }
}

/// Analyses a file. Returns a dict of `flows` (each the arguments of `Flow`), the file's
/// `anomalies`, whether part of it is `missing`, `error` if it could not be read to its end, and
/// `stopped`.
#[pyfunction]
#[pyo3(signature = (path, *, min_segments, rounds=true, stop=None))]
pub fn analyse<'py>(
    py: Python<'py>,
    path: PathBuf,
    min_segments: u64,
    rounds: bool,
    stop: Option<&Stop>,
) -> PyResult<Bound<'py, PyDict>> {
    let path = as_file(path);
    // One thread per file: callers with many files analyse them in parallel.
    let options = Options { min_segments, rounds, threads: 1, ..Options::default() };
    let stop = stop.map_or_else(|| Arc::new(AtomicBool::new(false)), |stop| stop.flag.clone());
    let ask = SignalCheck { state: Mutex::new((Instant::now(), None)), stop: &stop };
    let outcome = py.detach(|| yuzuri_identify::analyse::analyse(&path, &options, &stop, &|_| ask.ask()));
    ask.answer()?;
    let report = match outcome {
        Outcome::NotOurs(error) => return Err(error::not_ours(&error)),
        Outcome::Read(report) => report,
    };
    if let (Some(words), None) = (&report.error, report.kind) {
        return Err(error::opening(&path, words));
    }
    let flows = PyList::empty(py);
    for each in &report.flows {
        flows.append(flow::fields(py, each)?)?;
    }
    let done = PyDict::new(py);
    done.set_item("flows", flows)?;
    done.set_item("anomalies", table::anomalies(&report))?;
    done.set_item("missing", is_missing(&report))?;
    done.set_item("error", report.error)?;
    done.set_item("stopped", report.stopped)?;
    Ok(done)
}

/// Whether the file lacks data that it should contain. A clock that goes back slightly does not
/// affect the answer.
fn is_missing(report: &FileReport) -> bool {
    let capture = report.capture.as_ref().is_some_and(|facts| {
        !matches!(facts.ending, Ending::Whole | Ending::Open)
            || facts.capture_drops.is_some_and(|drops| drops > 0)
    });
    capture || report.log.as_ref().is_some_and(|log| log.cut || log.lost > 0 || log.unreadable > 0)
}

/// Checks for a signal from the user while a file is read. Python handles signals only on its main
/// thread.
struct SignalCheck<'a> {
    /// Time of the last check, and its error.
    state: Mutex<(Instant, Option<PyErr>)>,
    stop: &'a AtomicBool,
}

impl SignalCheck<'_> {
    fn ask(&self) {
        let mut state = self.state.lock();
        if state.0.elapsed() < ASK_EVERY || state.1.is_some() {
            return;
        }
        state.1 = Python::attach(|py| py.check_signals()).err();
        state.0 = Instant::now();
        if state.1.is_some() {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    fn answer(self) -> PyResult<()> {
        self.state.into_inner().1.map_or(Ok(()), Err)
    }
}

/// Expands paths to files. Returns each file's path and, if it was found in a folder, that folder's
/// index in `paths`.
#[pyfunction]
pub fn plan(py: Python<'_>, paths: Vec<PathBuf>) -> PyResult<Vec<(PathBuf, Option<usize>)>> {
    let mut files = Vec::new();
    for (place, path) in paths.into_iter().enumerate() {
        let path = as_file(path);
        let plan = py.detach(|| Plan::of(std::slice::from_ref(&path)));
        if let Some(failed) = plan.failed.first() {
            return Err(error::folder(Path::new(&failed.path)));
        }
        files.extend(plan.entries.into_iter().map(|entry| (entry.path, entry.folder.map(|_| place))));
    }
    Ok(files)
}

/// Raises the error for a folder without any supported file; `others` counts its files of other
/// kinds.
#[pyfunction]
pub fn empty_folder(path: PathBuf, others: u64) -> PyResult<()> {
    Err(error::not_ours(&IdentifyError::EmptyFolder { name: input::name(&path), others }))
}

/// `-` would mean standard input, which belongs to the interpreter.
fn as_file(path: PathBuf) -> PathBuf {
    if path.as_os_str() == "-" { Path::new(".").join(path) } else { path }
}
