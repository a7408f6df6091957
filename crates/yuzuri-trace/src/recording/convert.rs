//! A recording as CSV, JSON lines or Parquet.

use super::columns::schema;
use super::gather::Texts;
use super::parquet::Parquet;
use super::rows::{BATCH_ROWS, Rows};
use super::text::{Csv, JsonLines};
use super::typed::Values;
use super::{ConvertError, ReadError, Reader, Tail};
use crate::{Account, Flow, FlowId, Item, Kind, Session};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Field, Metadata, Schema, SchemaRef};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::sync::Arc;

/// The output format of a conversion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values with a header line; null is empty.
    Csv,
    /// A JSON object per line; null is omitted.
    JsonLines,
    /// Parquet with zstd and dictionaries, the session in its key-value metadata.
    Parquet,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 3] = [Format::Csv, Format::JsonLines, Format::Parquet];

    /// The word for it on the command line, also its usual extension.
    pub fn name(self) -> &'static str {
        match self {
            Format::Csv => "csv",
            Format::JsonLines => "jsonl",
            Format::Parquet => "parquet",
        }
    }

    /// The format of that name or extension.
    pub fn from_name(name: &str) -> Option<Format> {
        match name {
            "csv" => Some(Format::Csv),
            "jsonl" | "ndjson" => Some(Format::JsonLines),
            "parquet" | "pq" => Some(Format::Parquet),
            _ => None,
        }
    }
}

/// The result of a conversion.
#[derive(Debug)]
pub struct Converted {
    /// Rows written.
    pub rows: u64,
    /// Rows skipped because this version does not know their kind.
    pub unknown_rows: u64,
    /// How the recording ended; `None` if it could not be read to an end.
    pub tail: Option<Tail>,
    /// Why it could not. Everything before that was converted.
    pub broke: Option<ReadError>,
    /// The recording's last account.
    pub account: Option<Arc<Account>>,
}

impl Converted {
    /// Whether the recording was complete; `None` if that is unknown.
    pub fn complete(&self) -> Option<bool> {
        if self.broke.is_some() { Some(false) } else { self.tail.and_then(Tail::complete) }
    }
}

/// An additional column of a conversion, placed after the recording's own.
pub struct ExtraColumn<'a> {
    /// Its name.
    pub name: &'static str,
    /// The source of its values.
    pub source: &'static str,
    /// The value for an event. It receives all items in order, since some determine the meaning of
    /// later ones.
    pub value_of: &'a mut dyn FnMut(&Item) -> Option<&'static str>,
}

/// Converts a recording. The columns are the recording's own, in the same order. Records include
/// their flow's identity, so each row is self-contained. Memory grows with the flows open at a
/// time, not with the recording's length.
///
/// `beside` is an additional column. `progress` is called after each batch with the bytes read and
/// the rows written so far.
///
/// A truncated or damaged recording is converted up to that position; [`Converted`] reports that.
///
/// # Errors
/// If the result cannot be written.
pub fn convert<R: Read, W: Write + Send>(
    mut reader: Reader<R>,
    format: Format,
    out: W,
    beside: Option<ExtraColumn<'_>>,
    mut progress: impl FnMut(u64, u64),
) -> Result<Converted, ConvertError> {
    let mut table = Table::new(reader.session(), beside);
    let mut sink = Sink::new(format, &table.schema, out)?;
    let mut flows: HashMap<FlowId, Arc<Flow>> = HashMap::new();
    let mut written = 0;
    let mut last_account = None;
    let broke = loop {
        let items = match reader.next_batch() {
            Ok(Some(items)) => items,
            Ok(None) => break None,
            Err(error) => break Some(error),
        };
        for item in &items {
            table.value_of(item);
            let rows = &mut table.rows;
            match item {
                Item::Event(event) => {
                    rows.push_with_identity(event, flows.get(&event.flow).map(Arc::as_ref));
                    if event.kind == Kind::Close {
                        flows.remove(&event.flow);
                    }
                }
                Item::Flow(flow) => {
                    flows.insert(flow.id, flow.clone());
                    rows.push(item);
                }
                Item::Account(account) => {
                    last_account = Some(account.clone());
                    rows.push(item);
                }
                Item::Setting(_) => rows.push(item),
            }
            if rows.len() >= BATCH_ROWS {
                written += sink.write(&mut table)?;
            }
        }
        written += sink.write(&mut table)?;
        progress(reader.bytes_read(), written);
    };
    let tail = if broke.is_some() { None } else { reader.tail() };
    if tail == Some(Tail::Complete) {
        table.rows.end(last_account.as_deref());
        written += sink.write(&mut table)?;
    }
    sink.finish()?;
    Ok(Converted { rows: written, unknown_rows: reader.unknown_rows(), tail, broke, account: last_account })
}

/// The recording's rows on their way into a batch, with the additional column.
struct Table<'a> {
    rows: Rows,
    beside: Option<ExtraColumn<'a>>,
    added: Texts,
    /// The schema with all columns.
    schema: SchemaRef,
}

impl<'a> Table<'a> {
    fn new(session: &Session, beside: Option<ExtraColumn<'a>>) -> Table<'a> {
        let own = Arc::new(schema(session));
        let schema = match &beside {
            None => own.clone(),
            Some(ExtraColumn { name, source, .. }) => {
                let mut about = Metadata::default();
                about.insert("source", *source);
                let more = Field::new(*name, DataType::Utf8, true).with_metadata(about);
                let fields: Vec<_> = own.fields().iter().cloned().chain([Arc::new(more)]).collect();
                Arc::new(Schema::new(fields).with_metadata(own.metadata().clone()))
            }
        };
        Table { rows: Rows::new(own, session), beside, added: Texts::default(), schema }
    }

    /// Determines the additional column of the next item's row.
    fn value_of(&mut self, item: &Item) {
        if let Some(text) = self.beside.as_mut().and_then(|beside| (beside.value_of)(item)) {
            self.added.set(self.rows.len(), text);
        }
    }

    /// Returns all rows as a batch, and leaves none.
    fn take(&mut self) -> Result<RecordBatch, ConvertError> {
        let count = self.rows.len();
        let batch = self.rows.take().map_err(ConvertError::write)?;
        if self.beside.is_none() {
            return Ok(batch);
        }
        let mut columns = batch.columns().to_vec();
        columns.push(self.added.take(count).map_err(ConvertError::write)?);
        RecordBatch::try_new(self.schema.clone(), columns).map_err(ConvertError::write)
    }
}

/// The destination of converted rows.
enum Sink<W: Write + Send> {
    Csv(Box<Csv<W>>),
    Json(JsonLines<W>),
    Parquet(Box<Parquet<W>>),
}

impl<W: Write + Send> Sink<W> {
    fn new(format: Format, schema: &SchemaRef, out: W) -> Result<Self, ConvertError> {
        Ok(match format {
            Format::Csv => Sink::Csv(Box::new(Csv::new(schema, out)?)),
            Format::JsonLines => Sink::Json(JsonLines::new(schema, out)?),
            Format::Parquet => Sink::Parquet(Box::new(Parquet::new(schema, out)?)),
        })
    }

    /// Writes the rows and returns their number.
    fn write(&mut self, table: &mut Table<'_>) -> Result<u64, ConvertError> {
        if table.rows.is_empty() {
            return Ok(0);
        }
        let batch = table.take()?;
        match self {
            Sink::Csv(writer) => writer.write(&batch)?,
            Sink::Json(writer) => writer.write(&batch)?,
            Sink::Parquet(writer) => writer.write(&batch)?,
        }
        Ok(batch.num_rows() as u64)
    }

    fn finish(self) -> Result<(), ConvertError> {
        match self {
            Sink::Csv(writer) => writer.finish(),
            Sink::Json(writer) => writer.finish(),
            Sink::Parquet(writer) => writer.finish(),
        }
    }
}

/// A column: as an array that knows its nulls, and as values of its type.
type Column<'a> = (&'a dyn Array, Values<'a>);

/// The columns of a batch.
///
/// # Errors
/// If a column has a type that recordings do not have.
pub(super) fn columns(batch: &RecordBatch) -> Result<Vec<Column<'_>>, ConvertError> {
    let fields = batch.schema_ref().fields().iter();
    let typed = fields.zip(batch.columns()).map(|(field, array)| match Values::of(array) {
        Some(values) => Ok((array.as_ref(), values)),
        None => {
            let (name, of) = (field.name(), field.data_type());
            Err(ConvertError::write(format!("column '{name}' has the unknown type {of}")))
        }
    });
    typed.collect()
}
