//! The values of a column by type, for the writers of recordings and of other formats.
//!
//! A recording's columns have seven types. Writers for all of Arrow's types contain code for
//! dictionaries, runs, nested values, casts and comparisons, which made the command larger by two
//! megabytes.

use arrow_array::types::{
    ArrowPrimitiveType, Int64Type, TimestampNanosecondType, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, BooleanArray, PrimitiveArray, StringArray};
use arrow_schema::{DataType, TimeUnit};

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
