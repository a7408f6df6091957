//! The columns of a batch by type, for the writers of recordings and of other formats.
//!
//! A recording's columns have seven types. Writers for all of Arrow's types contain code for
//! dictionaries, runs, nested values, casts and comparisons, which made the command larger by two
//! megabytes.

#[cfg(feature = "convert")]
use super::ConvertError;
use arrow_array::types::{
    ArrowPrimitiveType, Int64Type, TimestampNanosecondType, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, BooleanArray, PrimitiveArray, StringArray};
#[cfg(feature = "convert")]
use arrow_array::{ArrayRef, RecordBatch};
#[cfg(feature = "convert")]
use arrow_schema::Field;
use arrow_schema::{DataType, TimeUnit};

#[cfg(feature = "convert")]
/// A column: as an array that knows its nulls, and as values of its type.
pub(super) type Column<'a> = (&'a dyn Array, Values<'a>);

/// The values of a column of one of [`super::ColumnType`]'s types.
pub(super) enum Values<'a> {
    Time(&'a PrimitiveArray<TimestampNanosecondType>),
    U16(&'a PrimitiveArray<UInt16Type>),
    U32(&'a PrimitiveArray<UInt32Type>),
    U64(&'a PrimitiveArray<UInt64Type>),
    I64(&'a PrimitiveArray<Int64Type>),
    Bool(&'a BooleanArray),
    Text(&'a StringArray),
}

#[cfg(feature = "convert")]
/// The columns of a batch.
///
/// # Errors
/// If a column has another type.
pub(super) fn columns(batch: &RecordBatch) -> Result<Vec<Column<'_>>, ConvertError> {
    let fields = batch.schema_ref().fields().iter();
    fields.zip(batch.columns()).map(|(field, array)| column(field, array)).collect()
}

#[cfg(feature = "convert")]
fn column<'a>(field: &Field, array: &'a ArrayRef) -> Result<Column<'a>, ConvertError> {
    let other = || {
        ConvertError::write(format!("column '{}' has the unknown type {}", field.name(), field.data_type()))
    };
    Ok((array.as_ref(), Values::of(array).ok_or_else(other)?))
}

impl<'a> Values<'a> {
    pub(super) fn of(column: &'a dyn Array) -> Option<Values<'a>> {
        fn numbers<T: ArrowPrimitiveType>(column: &dyn Array) -> Option<&PrimitiveArray<T>> {
            column.as_any().downcast_ref()
        }
        match column.data_type() {
            DataType::Timestamp(TimeUnit::Nanosecond, _) => numbers(column).map(Values::Time),
            DataType::UInt16 => numbers(column).map(Values::U16),
            DataType::UInt32 => numbers(column).map(Values::U32),
            DataType::UInt64 => numbers(column).map(Values::U64),
            DataType::Int64 => numbers(column).map(Values::I64),
            DataType::Boolean => column.as_any().downcast_ref().map(Values::Bool),
            DataType::Utf8 => column.as_any().downcast_ref().map(Values::Text),
            _ => None,
        }
    }
}
