//! Verdicts and rounds as Parquet, for pandas, Polars, DuckDB and similar tools.

use crate::error::IdentifyError;
use crate::report::{FileReport, FlowReport};
use crate::table;
use arrow_array::builder::{
    BooleanBuilder, Float32Builder, Float64Builder, Int64Builder, StringBuilder, UInt32Builder, UInt64Builder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Metadata, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use yuzuri_infer::verdict::{Answer, Measured};
use yuzuri_infer::window_trace::Round;

/// Name of the file with a row for each verdict.
pub const FLOWS: &str = "flows.parquet";
/// Name of the file with a row for each round.
pub const ROUNDS: &str = "rounds.parquet";
/// Rows per row group, which stays in memory until it is written.
const GROUP_ROWS: usize = 64 << 10;

/// A column that is being filled.
enum Builder {
    Text(StringBuilder),
    Bool(BooleanBuilder),
    I64(Int64Builder),
    U32(UInt32Builder),
    U64(UInt64Builder),
    F32(Float32Builder),
    F64(Float64Builder),
}

/// A value of a row.
enum Value<'a> {
    Text(Option<&'a str>),
    Bool(Option<bool>),
    I64(i64),
    U32(Option<u32>),
    U64(u64),
    F32(Option<f32>),
    F64(Option<f64>),
}

impl Builder {
    fn of(value: &Value<'_>) -> Builder {
        match value {
            Value::Text(_) => Builder::Text(StringBuilder::new()),
            Value::Bool(_) => Builder::Bool(BooleanBuilder::new()),
            Value::I64(_) => Builder::I64(Int64Builder::new()),
            Value::U32(_) => Builder::U32(UInt32Builder::new()),
            Value::U64(_) => Builder::U64(UInt64Builder::new()),
            Value::F32(_) => Builder::F32(Float32Builder::new()),
            Value::F64(_) => Builder::F64(Float64Builder::new()),
        }
    }

    fn push(&mut self, value: Value<'_>) {
        match (self, value) {
            (Builder::Text(of), Value::Text(value)) => of.append_option(value),
            (Builder::Bool(of), Value::Bool(value)) => of.append_option(value),
            (Builder::I64(of), Value::I64(value)) => of.append_value(value),
            (Builder::U32(of), Value::U32(value)) => of.append_option(value),
            (Builder::U64(of), Value::U64(value)) => of.append_value(value),
            (Builder::F32(of), Value::F32(value)) => of.append_option(value.filter(|value| !value.is_nan())),
            (Builder::F64(of), Value::F64(value)) => of.append_option(value.filter(|value| !value.is_nan())),
            // Each row is made by the same function.
            _ => unreachable!("a column's values are of one type"),
        }
    }

    fn take(&mut self) -> ArrayRef {
        match self {
            Builder::Text(of) => Arc::new(of.finish()),
            Builder::Bool(of) => Arc::new(of.finish()),
            Builder::I64(of) => Arc::new(of.finish()),
            Builder::U32(of) => Arc::new(of.finish()),
            Builder::U64(of) => Arc::new(of.finish()),
            Builder::F32(of) => Arc::new(of.finish()),
            Builder::F64(of) => Arc::new(of.finish()),
        }
    }

    fn data_type(&self) -> DataType {
        match self {
            Builder::Text(_) => DataType::Utf8,
            Builder::Bool(_) => DataType::Boolean,
            Builder::I64(_) => DataType::Int64,
            Builder::U32(_) => DataType::UInt32,
            Builder::U64(_) => DataType::UInt64,
            Builder::F32(_) => DataType::Float32,
            Builder::F64(_) => DataType::Float64,
        }
    }
}

/// A Parquet file being written, next to its final path, to which it is renamed when it is
/// complete.
struct Table {
    path: PathBuf,
    part: PathBuf,
    schema: SchemaRef,
    columns: Vec<Builder>,
    rows: usize,
    writer: ArrowWriter<File>,
}

impl Table {
    /// Creates the file with the columns of a row.
    fn new(path: PathBuf, row: &[(&'static str, &'static str, Value<'_>)]) -> Result<Table, IdentifyError> {
        let columns: Vec<Builder> = row.iter().map(|(_, _, value)| Builder::of(value)).collect();
        let fields: Vec<Field> = row
            .iter()
            .zip(&columns)
            .map(|((name, unit, _), column)| {
                let mut about = Metadata::default();
                if !unit.is_empty() {
                    about.insert("unit", *unit);
                }
                Field::new(*name, column.data_type(), true).with_metadata(about)
            })
            .collect();
        let schema = Arc::new(Schema::new(fields));
        let part = path.with_extension("parquet.part");
        let file = File::create(&part).map_err(IdentifyError::write(&part))?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_max_row_group_row_count(Some(GROUP_ROWS))
            .build();
        let writer = ArrowWriter::try_new(file, schema.clone(), Some(properties));
        let writer = writer.map_err(IdentifyError::write(&part))?;
        Ok(Table { path, part, schema, columns, rows: 0, writer })
    }

    fn push(&mut self, row: Vec<(&'static str, &'static str, Value<'_>)>) -> Result<(), IdentifyError> {
        for (column, (_, _, value)) in self.columns.iter_mut().zip(row) {
            column.push(value);
        }
        self.rows += 1;
        if self.rows >= GROUP_ROWS { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), IdentifyError> {
        self.rows = 0;
        let columns = self.columns.iter_mut().map(Builder::take).collect();
        let batch =
            RecordBatch::try_new(self.schema.clone(), columns).map_err(IdentifyError::write(&self.path))?;
        self.writer.write(&batch).map_err(IdentifyError::write(&self.path))
    }

    fn finish(mut self) -> Result<(), IdentifyError> {
        self.flush()?;
        self.writer.close().map_err(IdentifyError::write(&self.path))?;
        std::fs::rename(&self.part, &self.path).map_err(IdentifyError::write(&self.path))
    }
}

/// Both files.
pub struct Tables {
    flows: Table,
    rounds: Table,
}

impl Tables {
    /// Begins both files in a folder, which is created if necessary. They replace older ones once
    /// they are complete.
    pub fn new(folder: &Path) -> Result<Tables, IdentifyError> {
        std::fs::create_dir_all(folder).map_err(IdentifyError::write(folder))?;
        let flow = FlowReport::new(
            yuzuri_infer::identify(yuzuri_infer::window_trace::WindowTrace::default(), None, None, None),
            None,
        );
        Ok(Tables {
            flows: Table::new(folder.join(FLOWS), &flow_row("", 0, &flow, &RowTexts::of(&flow)))?,
            rounds: Table::new(folder.join(ROUNDS), &round_row("", 0, 0, &Round::default(), None))?,
        })
    }

    /// Adds a file.
    pub fn add(&mut self, report: &FileReport) -> Result<(), IdentifyError> {
        for (number, flow) in (0..).zip(&report.flows) {
            self.flows.push(flow_row(&report.path, number, flow, &RowTexts::of(flow)))?;
            let verdict = &flow.verdict;
            for (place, round) in (0..).zip(&verdict.window_trace.rounds) {
                let predicted = verdict.predicted.get(place as usize).copied();
                self.rounds.push(round_row(&report.path, number, place, round, predicted))?;
            }
        }
        Ok(())
    }

    /// Completes both files.
    pub fn finish(self) -> Result<(), IdentifyError> {
        self.flows.finish()?;
        self.rounds.finish()
    }
}

/// Texts created for a row.
struct RowTexts {
    from: String,
    to: String,
    set: String,
    evidence: String,
    notes: String,
}

impl RowTexts {
    fn of(flow: &FlowReport) -> RowTexts {
        let set = match &flow.verdict.answer {
            Answer::Named { set, .. } => set.join(","),
            Answer::Unknown { .. } => String::new(),
        };
        let (evidence, notes) = (flow.verdict.evidence.join("\n"), flow.verdict.notes.join("\n"));
        RowTexts { from: flow.from(), to: flow.to(), set, evidence, notes }
    }
}

type Row<'a> = Vec<(&'static str, &'static str, Value<'a>)>;

fn flow_row<'a>(file: &'a str, number: u32, flow: &'a FlowReport, words: &'a RowTexts) -> Row<'a> {
    let verdict = &flow.verdict;
    let (constants, window_trace, summary) = (&verdict.constants, &verdict.window_trace, &flow.summary);
    let because = match &verdict.answer {
        Answer::Unknown { because } => Some(because.as_str()),
        Answer::Named { .. } => None,
    };
    let median = |measured: Option<Measured>| Value::F64(measured.map(|m| m.median));
    let low = |measured: Option<Measured>| Value::F64(measured.map(|m| m.low));
    let high = |measured: Option<Measured>| Value::F64(measured.map(|m| m.high));
    let count = |measured: Option<Measured>| Value::U32(Some(measured.map_or(0, |m| m.count as u32)));
    let second = verdict.ranked.get(1);
    vec![
        ("file", "", Value::Text(Some(file))),
        ("flow", "", Value::U32(Some(number))),
        ("from", "", Value::Text(Some(&words.from))),
        ("to", "", Value::Text(Some(&words.to))),
        ("name", "", Value::Text(flow.name())),
        ("set", "", Value::Text(Some(words.set.as_str()).filter(|set| !set.is_empty()))),
        ("because", "", Value::Text(because)),
        ("best", "", Value::Text(verdict.ranked.first().map(|ranked| ranked.name.as_str()))),
        ("probability", "", Value::F64(flow.probability())),
        ("second", "", Value::Text(second.map(|ranked| ranked.name.as_str()))),
        ("second_probability", "", Value::F64(second.map(|ranked| ranked.probability))),
        ("residual", "noise", Value::F64(verdict.ranked.first().map(|ranked| ranked.score.residual))),
        ("kernel_name", "", Value::Text(flow.kernel_name.as_deref())),
        ("capture_point", "", Value::Text(Some(table::capture_point(verdict.capture_point)))),
        ("beta", "", median(constants.beta)),
        ("beta_low", "", low(constants.beta)),
        ("beta_high", "", high(constants.beta)),
        ("beta_count", "", count(constants.beta)),
        ("cubic_c", "segments/s^3", median(constants.cubic_c)),
        ("cubic_c_low", "segments/s^3", low(constants.cubic_c)),
        ("cubic_c_high", "segments/s^3", high(constants.cubic_c)),
        ("cubic_c_count", "", count(constants.cubic_c)),
        ("cubic_c_replayed", "segments/s^3", Value::F64(constants.cubic_c_replayed.map(|(c, _)| c))),
        (
            "cubic_c_replayed_error",
            "segments/s^3",
            Value::F64(constants.cubic_c_replayed.map(|(_, error)| error)),
        ),
        ("cubic_c_paper", "segments/s^3", median(constants.cubic_c_paper)),
        ("cubic_b", "s^3/segment", median(constants.cubic_b)),
        ("increase", "segments/round", median(constants.increase)),
        ("initial_window", "segments", Value::F64(constants.initial_window)),
        ("slow_start_end", "segments", Value::F64(constants.slow_start_end.map(|(window, _)| window))),
        (
            "slow_start_end_by_itself",
            "",
            Value::Bool(constants.slow_start_end.map(|(_, by_itself)| by_itself)),
        ),
        ("fast_convergence", "", Value::Bool(constants.fast_convergence)),
        ("probe_rtt_interval_s", "s", Value::F64(constants.probe_rtt_interval_s)),
        ("probe_gain", "", median(constants.probe_gain)),
        ("probe_interval_s", "s", median(constants.probe_interval_s)),
        ("paced_part", "", Value::F64(constants.paced_part)),
        ("rounds", "", Value::U64(summary.rounds)),
        ("losses", "", Value::U64(summary.losses)),
        ("timeouts", "", Value::U64(summary.timeouts)),
        ("seconds", "s", Value::F64(Some(summary.seconds))),
        ("window_median", "segments", Value::F32(Some(summary.window_median))),
        ("window_greatest", "segments", Value::F32(Some(summary.window_greatest))),
        ("rtt_median_us", "us", Value::U32(Some(summary.rtt_median_us))),
        ("min_rtt_us", "us", Value::U32(Some(window_trace.min_rtt_us))),
        ("mss_bytes", "bytes", Value::U32(Some(window_trace.mss_bytes))),
        ("acked_bytes", "bytes", Value::U64(window_trace.acked_bytes)),
        ("segments", "", Value::U64(window_trace.segments)),
        ("retransmitted", "", Value::U64(window_trace.retransmitted)),
        ("evidence", "", Value::Text(Some(&words.evidence))),
        ("notes", "", Value::Text(Some(words.notes.as_str()).filter(|notes| !notes.is_empty()))),
    ]
}

fn round_row<'a>(file: &'a str, flow: u32, number: u32, round: &Round, predicted: Option<f32>) -> Row<'a> {
    let rtt = |us: u32| Value::U32(Some(us).filter(|us| *us > 0));
    vec![
        ("file", "", Value::Text(Some(file))),
        ("flow", "", Value::U32(Some(flow))),
        ("round", "", Value::U32(Some(number))),
        ("start_ns", "ns", Value::I64(round.start_ns)),
        ("end_ns", "ns", Value::I64(round.end_ns)),
        ("window", "segments", Value::F32(Some(round.window))),
        ("predicted", "segments", Value::F32(predicted)),
        ("acked", "segments", Value::F32(Some(round.acked))),
        ("acks", "", Value::U32(Some(round.acks))),
        ("sent", "segments", Value::U32(Some(round.sent))),
        ("retransmitted", "segments", Value::U32(Some(round.retransmitted))),
        ("ece", "", Value::U32(Some(round.ece))),
        ("rtt_first_us", "us", rtt(round.rtt_first_us)),
        ("rtt_min_us", "us", rtt(round.rtt_min_us)),
        ("rtt_mean_us", "us", rtt(round.rtt_mean_us)),
        ("rtt_max_us", "us", rtt(round.rtt_max_us)),
        ("rtt_last_us", "us", rtt(round.rtt_last_us)),
        ("application", "", Value::Bool(Some(round.limits.application))),
        ("receiver", "", Value::Bool(Some(round.limits.receiver))),
        ("recovery", "", Value::Bool(Some(round.limits.recovery))),
        ("limited_by", "", Value::Text(round.limited_by.map(|limit| limit.name()))),
    ]
}
