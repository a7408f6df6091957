//! Rounds and reductions as columns, exported to Python through Arrow's C stream interface or as
//! lists.

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float32Array, Int64Array, ListArray, RecordBatch, RecordBatchIterator,
    StringArray, UInt32Array,
};
use arrow_schema::ArrowError;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use std::sync::Arc;
use yuzuri_infer::verdict::Verdict;
use yuzuri_infer::window_trace::{Cause, Reduction, Round};

/// A table of columns.
#[pyclass(frozen, module = "yuzuri._native")]
pub struct Columns {
    batch: RecordBatch,
}

#[pymethods]
impl Columns {
    /// Exports the table as a stream of one batch (Arrow PyCapsule interface). A requested schema
    /// is ignored, as the interface permits.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches = RecordBatchIterator::new([Ok(self.batch.clone())], self.batch.schema());
        // Dropping the stream releases it, unless its consumer has taken it.
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(batches)), c"arrow_array_stream")
    }

    /// The table as a dict of lists, one per column.
    fn to_pydict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns = PyDict::new(py);
        for (field, column) in self.batch.schema().fields().iter().zip(self.batch.columns()) {
            columns.set_item(field.name(), list(py, column.as_ref())?)?;
        }
        Ok(columns)
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }
}

/// A column as a Python list.
fn list<'py>(py: Python<'py>, column: &dyn Array) -> PyResult<Bound<'py, PyAny>> {
    let any = column.as_any();
    if let Some(column) = any.downcast_ref::<Int64Array>() {
        column.iter().collect::<Vec<_>>().into_pyobject(py)
    } else if let Some(column) = any.downcast_ref::<UInt32Array>() {
        column.iter().collect::<Vec<_>>().into_pyobject(py)
    } else if let Some(column) = any.downcast_ref::<Float32Array>() {
        column.iter().collect::<Vec<_>>().into_pyobject(py)
    } else if let Some(column) = any.downcast_ref::<BooleanArray>() {
        column.iter().collect::<Vec<_>>().into_pyobject(py)
    } else if let Some(column) = any.downcast_ref::<StringArray>() {
        column.iter().collect::<Vec<_>>().into_pyobject(py)
    } else if let Some(column) = any.downcast_ref::<ListArray>() {
        let rows: PyResult<Vec<_>> =
            column.iter().map(|row| row.map(|row| list(py, row.as_ref())).transpose()).collect();
        rows?.into_pyobject(py)
    } else {
        Err(PyValueError::new_err(format!("a column of {} cannot become a list", column.data_type())))
    }
}

/// The rounds of a verdict, with the window that its best candidate predicts for each.
pub fn rounds(verdict: &Verdict) -> PyResult<Columns> {
    let rounds = &verdict.window_trace.rounds;
    let predicted = |place: usize| verdict.predicted.get(place).copied().filter(|window| !window.is_nan());
    let mut limits = ListBuilder::new(StringBuilder::new());
    for round in rounds {
        let held = round.limits;
        for (word, holds) in
            [("application", held.application), ("receiver", held.receiver), ("recovery", held.recovery)]
        {
            if holds {
                limits.values().append_value(word);
            }
        }
        limits.append(true);
    }
    let numbers =
        |f: fn(&Round) -> u32| -> ArrayRef { Arc::new(UInt32Array::from_iter_values(rounds.iter().map(f))) };
    // 0 means not measured.
    let times = |f: fn(&Round) -> u32| -> ArrayRef {
        Arc::new(rounds.iter().map(|round| Some(f(round)).filter(|rtt| *rtt > 0)).collect::<UInt32Array>())
    };
    let windows =
        |f: fn(&Round) -> f32| -> ArrayRef { Arc::new(Float32Array::from_iter_values(rounds.iter().map(f))) };
    let moments =
        |f: fn(&Round) -> i64| -> ArrayRef { Arc::new(Int64Array::from_iter_values(rounds.iter().map(f))) };
    table([
        ("start_ns", moments(|round| round.start_ns)),
        ("end_ns", moments(|round| round.end_ns)),
        ("window", windows(|round| round.window)),
        ("predicted", Arc::new((0..rounds.len()).map(predicted).collect::<Float32Array>())),
        ("acked", windows(|round| round.acked)),
        ("acks", numbers(|round| round.acks)),
        ("rtt_first_us", times(|round| round.rtt_first_us)),
        ("rtt_min_us", times(|round| round.rtt_min_us)),
        ("rtt_max_us", times(|round| round.rtt_max_us)),
        ("rtt_last_us", times(|round| round.rtt_last_us)),
        ("rtt_mean_us", times(|round| round.rtt_mean_us)),
        ("sent", numbers(|round| round.sent)),
        ("retransmitted", numbers(|round| round.retransmitted)),
        ("ece", numbers(|round| round.ece)),
        ("limits", Arc::new(limits.finish())),
    ])
}

/// The reductions of a verdict.
pub fn reductions(verdict: &Verdict) -> PyResult<Columns> {
    let reductions = &verdict.window_trace.reductions;
    let moments = |f: fn(&Reduction) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(reductions.iter().map(f)))
    };
    let windows = |f: fn(&Reduction) -> f32| -> ArrayRef {
        Arc::new(Float32Array::from_iter_values(reductions.iter().map(f)))
    };
    table([
        ("at_ns", moments(|reduction| reduction.at_ns)),
        ("over_ns", moments(|reduction| reduction.over_ns)),
        (
            "cause",
            Arc::new(StringArray::from_iter_values(
                reductions.iter().map(|reduction| cause(reduction.cause)),
            )),
        ),
        ("before", windows(|reduction| reduction.before)),
        ("after", windows(|reduction| reduction.after)),
        (
            "round",
            Arc::new(UInt32Array::from_iter_values(reductions.iter().map(|reduction| reduction.round))),
        ),
        (
            "undone",
            Arc::new(reductions.iter().map(|reduction| Some(reduction.undone)).collect::<BooleanArray>()),
        ),
    ])
}

fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::Recovery => "recovery",
        Cause::Timeout => "timeout",
        Cause::Ecn => "ecn",
    }
}

/// All columns are nullable in the schema, so that tables of several flows can be concatenated.
fn table<const N: usize>(columns: [(&str, ArrayRef); N]) -> PyResult<Columns> {
    let failed = |error: ArrowError| PyValueError::new_err(format!("creating columns of a flow: {error}"));
    let nullable = columns.map(|(name, column)| (name, column, true));
    Ok(Columns { batch: RecordBatch::try_from_iter_with_nullable(nullable).map_err(failed)? })
}
