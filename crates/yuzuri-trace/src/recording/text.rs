//! Batches as text: CSV (RFC 4180) and JSON lines.

use super::ConvertError;
use super::convert::columns;
use super::typed::Values;
use arrow_array::RecordBatch;
use arrow_schema::Schema;
use chrono::{DateTime, SecondsFormat};
use std::io::Write;

/// Rows as CSV with a header line; null is empty.
pub(super) struct Csv<W: Write> {
    out: csv::Writer<W>,
    cell: Vec<u8>,
}

impl<W: Write> Csv<W> {
    /// Writes the header line.
    pub(super) fn new(schema: &Schema, out: W) -> Result<Self, ConvertError> {
        let mut out = csv::Writer::from_writer(out);
        out.write_record(schema.fields().iter().map(|field| field.name())).map_err(not_written)?;
        Ok(Csv { out, cell: Vec::new() })
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), ConvertError> {
        let columns = columns(batch)?;
        for row in 0..batch.num_rows() {
            for (array, values) in &columns {
                self.cell.clear();
                if array.is_valid(row) {
                    match values {
                        Values::Text(texts) => self.cell.extend_from_slice(texts.value(row).as_bytes()),
                        Values::Time(times) => {
                            self.cell.extend_from_slice(rfc3339(times.value(row)).as_bytes())
                        }
                        numbers => numbers.append(row, &mut self.cell).map_err(ConvertError::write)?,
                    }
                }
                self.out.write_field(&self.cell).map_err(not_written)?;
            }
            self.out.write_record(None::<&[u8]>).map_err(not_written)?;
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<(), ConvertError> {
        self.out.flush().map_err(ConvertError::write)
    }
}

/// The system's error, if there is one: a closed pipe is no failure.
fn not_written(error: csv::Error) -> ConvertError {
    if !error.is_io_error() {
        return ConvertError::write(error);
    }
    match error.into_kind() {
        csv::ErrorKind::Io(error) => ConvertError::write(error),
        kind => ConvertError::write(format!("{kind:?}")),
    }
}

/// Rows as JSON objects, one per line; null is omitted.
pub(super) struct JsonLines<W: Write> {
    out: W,
    /// The name of each column as JSON, with the colon after it.
    names: Vec<Vec<u8>>,
    lines: Vec<u8>,
}

impl<W: Write> JsonLines<W> {
    pub(super) fn new(schema: &Schema, out: W) -> Result<Self, ConvertError> {
        let name = |name: &String| {
            let mut name = serde_json::to_vec(name)?;
            name.push(b':');
            Ok(name)
        };
        let names = schema.fields().iter().map(|field| name(field.name())).collect::<serde_json::Result<_>>();
        Ok(JsonLines { out, names: names.map_err(ConvertError::write)?, lines: Vec::new() })
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), ConvertError> {
        let columns = columns(batch)?;
        self.lines.clear();
        for row in 0..batch.num_rows() {
            let mut before = b'{';
            for ((array, values), name) in columns.iter().zip(&self.names) {
                if array.is_valid(row) {
                    self.lines.push(before);
                    self.lines.extend_from_slice(name);
                    values.append(row, &mut self.lines).map_err(ConvertError::write)?;
                    before = b',';
                }
            }
            if before == b'{' {
                self.lines.push(b'{');
            }
            self.lines.extend_from_slice(b"}\n");
        }
        self.out.write_all(&self.lines).map_err(ConvertError::write)
    }

    pub(super) fn finish(mut self) -> Result<(), ConvertError> {
        self.out.flush().map_err(ConvertError::write)
    }
}

fn rfc3339(since_epoch_ns: i64) -> String {
    DateTime::from_timestamp_nanos(since_epoch_ns).to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

impl Values<'_> {
    /// Appends a value as JSON.
    fn append(&self, row: usize, to: &mut Vec<u8>) -> serde_json::Result<()> {
        match self {
            Values::Time(array) => serde_json::to_writer(to, &rfc3339(array.value(row))),
            Values::U16(array) => serde_json::to_writer(to, &array.value(row)),
            Values::U32(array) => serde_json::to_writer(to, &array.value(row)),
            Values::U64(array) => serde_json::to_writer(to, &array.value(row)),
            Values::I64(array) => serde_json::to_writer(to, &array.value(row)),
            Values::Bool(array) => serde_json::to_writer(to, &array.value(row)),
            Values::Text(array) => serde_json::to_writer(to, array.value(row)),
        }
    }
}
