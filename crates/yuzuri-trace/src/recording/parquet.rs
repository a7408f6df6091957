//! Batches as Parquet.

use super::ConvertError;
use super::convert::columns;
use super::typed::Values;
use arrow_array::RecordBatch;
use arrow_schema::Schema;
use parquet::arrow::{ArrowSchemaConverter, add_encoded_arrow_schema_to_metadata};
use parquet::basic::{Compression, Type, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::ColumnDescPtr;
use std::io::Write;
use std::sync::Arc;

/// Rows of a row group. A group is in memory until it is written, since its columns are written one
/// after another.
const GROUP_ROWS: usize = 32 << 10;

/// Rows as Parquet with zstd and dictionaries, with the session in its key-value metadata, and
/// Arrow's schema with the units and sources of columns.
pub(super) struct Parquet<W: Write + Send> {
    file: SerializedFileWriter<W>,
    group: Vec<Waiting>,
    rows: usize,
}

impl<W: Write + Send> Parquet<W> {
    pub(super) fn new(schema: &Schema, out: W) -> Result<Self, ConvertError> {
        let session = schema.metadata.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone()));
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_key_value_metadata(Some(session.collect()))
            .build();
        add_encoded_arrow_schema_to_metadata(schema, &mut properties);
        let columns = ArrowSchemaConverter::new().convert(schema).map_err(ConvertError::write)?;
        let group = columns
            .columns()
            .iter()
            .map(Waiting::new)
            .collect::<Result<_, _>>()
            .map_err(ConvertError::write)?;
        let file = SerializedFileWriter::new(out, columns.root_schema_ptr(), Arc::new(properties))
            .map_err(ConvertError::write)?;
        Ok(Parquet { file, group, rows: 0 })
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), ConvertError> {
        for (waiting, (_, values)) in self.group.iter_mut().zip(columns(batch)?) {
            waiting.append(&values);
        }
        self.rows += batch.num_rows();
        if self.rows >= GROUP_ROWS { self.end_group().map_err(ConvertError::write) } else { Ok(()) }
    }

    fn end_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.file.next_row_group()?;
        for waiting in &mut self.group {
            let Some(column) = group.next_column()? else { break };
            waiting.write(column)?;
        }
        group.close()?;
        self.rows = 0;
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<(), ConvertError> {
        if self.rows > 0 {
            self.end_group().map_err(ConvertError::write)?;
        }
        self.file.into_inner().map_err(ConvertError::write)?.flush().map_err(ConvertError::write)
    }
}

/// A column's values on their way into a row group: the non-null values, and for each row whether
/// it has one.
struct Waiting {
    /// Parquet's definition levels: 1 for a value, 0 for null. `None` if no row may be null.
    levels: Option<Vec<i16>>,
    values: Physical,
}

/// Values by the types in which Parquet stores them.
enum Physical {
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Bool(Vec<bool>),
    Bytes(Vec<ByteArray>),
}

impl Waiting {
    fn new(column: &ColumnDescPtr) -> Result<Waiting, ParquetError> {
        let values = match column.physical_type() {
            Type::INT32 => Physical::Int32(Vec::new()),
            Type::INT64 => Physical::Int64(Vec::new()),
            Type::BOOLEAN => Physical::Bool(Vec::new()),
            Type::BYTE_ARRAY => Physical::Bytes(Vec::new()),
            other => return Err(ParquetError::NYI(format!("column '{}' as {other}", column.name()))),
        };
        Ok(Waiting { levels: (column.max_def_level() > 0).then(Vec::new), values })
    }

    fn append(&mut self, values: &Values<'_>) {
        let levels = self.levels.as_mut();
        match (&mut self.values, values) {
            (Physical::Int64(to), Values::Time(from)) => extend(to, levels, from.iter()),
            (Physical::Int32(to), Values::U16(from)) => {
                extend(to, levels, from.iter().map(as_other(i32::from)))
            }
            (Physical::Int32(to), Values::U32(from)) => {
                extend(to, levels, from.iter().map(as_other(u32::cast_signed)))
            }
            (Physical::Int64(to), Values::U64(from)) => {
                extend(to, levels, from.iter().map(as_other(u64::cast_signed)))
            }
            (Physical::Int64(to), Values::I64(from)) => extend(to, levels, from.iter()),
            (Physical::Bool(to), Values::Bool(from)) => extend(to, levels, from.iter()),
            (Physical::Bytes(to), Values::Text(from)) => {
                extend(to, levels, from.iter().map(as_other(ByteArray::from)))
            }
            _ => unreachable!("the schema of the file was made from the schema of the batches"),
        }
    }

    /// Writes the values and clears them.
    fn write(&mut self, mut column: SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let levels = self.levels.as_deref();
        match &mut self.values {
            Physical::Int32(values) => put::<Int32Type>(&mut column, values, levels)?,
            Physical::Int64(values) => put::<Int64Type>(&mut column, values, levels)?,
            Physical::Bool(values) => put::<BoolType>(&mut column, values, levels)?,
            Physical::Bytes(values) => put::<ByteArrayType>(&mut column, values, levels)?,
        }
        if let Some(levels) = &mut self.levels {
            levels.clear();
        }
        column.close()
    }
}

fn as_other<A, B>(one: impl Fn(A) -> B) -> impl Fn(Option<A>) -> Option<B> {
    move |value| value.map(&one)
}

fn extend<T>(to: &mut Vec<T>, levels: Option<&mut Vec<i16>>, from: impl Iterator<Item = Option<T>>) {
    match levels {
        Some(levels) => to.extend(from.filter_map(|value| {
            levels.push(value.is_some().into());
            value
        })),
        None => to.extend(from.flatten()),
    }
}

fn put<T: DataType>(
    column: &mut SerializedColumnWriter<'_>,
    values: &mut Vec<T::T>,
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    column.typed::<T>().write_batch(values, levels, None)?;
    values.clear();
    Ok(())
}
