//! Converts a verdict to the arguments of Python's `Flow`.

use crate::columns;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use yuzuri_identify::report::FlowReport;
use yuzuri_identify::table;
use yuzuri_infer::verdict::{Answer, Measured};

/// A dict of the fields of `yuzuri.Flow`, except those of the file.
pub fn fields<'py>(py: Python<'py>, flow: &FlowReport) -> PyResult<Bound<'py, PyDict>> {
    let FlowReport { verdict, summary, kernel_name, .. } = flow;
    let constants = &verdict.constants;
    let (set, because) = match &verdict.answer {
        Answer::Named { set, .. } => (set.as_slice(), None),
        Answer::Unknown { because } => (&[][..], Some(because)),
    };
    let candidates = PyDict::new(py);
    for ranked in &verdict.ranked {
        candidates.set_item(&ranked.name, ranked.probability)?;
    }
    let fields = PyDict::new(py);
    fields.set_item("source", verdict.from.map(|address| address.to_string()))?;
    fields.set_item("destination", verdict.to.map(|address| address.to_string()))?;
    fields.set_item("name", flow.name())?;
    fields.set_item("candidates", candidates)?;
    fields.set_item("set", set)?;
    fields.set_item("because", because)?;
    fields.set_item("evidence", &verdict.evidence)?;
    fields.set_item("notes", &verdict.notes)?;
    fields.set_item("beta", measured(constants.beta))?;
    fields.set_item("cubic_c", measured(constants.cubic_c))?;
    fields.set_item("cubic_b", measured(constants.cubic_b))?;
    fields.set_item("initial_window", constants.initial_window)?;
    fields.set_item("capture_point", table::capture_point(verdict.capture_point))?;
    fields.set_item("losses", summary.losses)?;
    fields.set_item("timeouts", summary.timeouts)?;
    fields.set_item("seconds", summary.seconds)?;
    fields.set_item("round_count", summary.rounds)?;
    fields.set_item("window_median", summary.window_median)?;
    fields.set_item("window_greatest", summary.window_greatest)?;
    fields.set_item("rtt_median_us", Some(summary.rtt_median_us).filter(|rtt| *rtt > 0))?;
    fields.set_item("min_rtt_us", Some(verdict.window_trace.min_rtt_us).filter(|rtt| *rtt > 0))?;
    fields.set_item("mss_bytes", verdict.window_trace.mss_bytes)?;
    fields.set_item("acked_bytes", verdict.window_trace.acked_bytes)?;
    fields.set_item("segments", verdict.window_trace.segments)?;
    fields.set_item("retransmitted", verdict.window_trace.retransmitted)?;
    fields.set_item("kernel_name", kernel_name)?;
    fields.set_item("rounds", Py::new(py, columns::rounds(verdict)?)?)?;
    fields.set_item("reductions", Py::new(py, columns::reductions(verdict)?)?)?;
    Ok(fields)
}

/// Median, lower and upper end of its interval, number of measurements.
fn measured(measured: Option<Measured>) -> Option<(f64, f64, f64, usize)> {
    measured.map(|measured| (measured.median, measured.low, measured.high, measured.count))
}
