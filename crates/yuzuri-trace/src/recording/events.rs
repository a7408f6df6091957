//! The numbers of an event as columns, from the list of `snapshot.rs`.

use super::columns::Number;
use crate::snapshot::{absent, numbers, of};
use crate::{Event, Snapshot};
use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{Array, ArrayRef, PrimitiveArray, RecordBatch};
use arrow_buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use std::sync::Arc;

/// A number's column: its Arrow type and the array that holds it.
fn array<T: ArrowPrimitiveType>(values: Vec<T::Native>, nulls: Option<NullBuffer>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(values), nulls))
}

/// The named column, if the batch has it.
pub(super) fn typed<'a, A: Array + 'static>(batch: &'a RecordBatch, name: &str) -> Option<&'a A> {
    batch.column_by_name(name)?.as_any().downcast_ref()
}

/// The value in that row, if there is one.
#[inline]
fn value<T: ArrowPrimitiveType>(column: Option<&PrimitiveArray<T>>, row: usize) -> Option<T::Native> {
    column.filter(|column| column.is_valid(row)).map(|column| column.value(row))
}

macro_rules! event_columns {
    ($(
        $(#[$about:meta])*
        $type:ident $path:tt [$($part:ident: $part_type:ident)?] {$(
            $(#[$field_about:meta])*
            $field:ident: $native:ty => $name:ident, $unit:literal, $source:literal $(, null $null:expr, $meaning:literal)?;
        )*}
    )*) => {
        /// The columns while rows are being gathered.
        #[derive(Default)]
        pub(super) struct EventColumns {
            $($($name: Vec<$native>,)*)*
        }

        impl EventColumns {
            /// Adds an event's row.
            #[inline]
            pub(super) fn push(&mut self, event: &Event) {
                $($(self.$name.push(of!(event, $path).$field);)*)*
            }

            /// Adds a row without these columns.
            pub(super) fn push_absent(&mut self) {
                $($({
                    #[allow(unused_mut, unused_assignments)]
                    let mut value = self.$name.last().copied().unwrap_or(0);
                    $(value = $null;)?
                    self.$name.push(value);
                })*)*
            }

            /// Reserves room.
            pub(super) fn reserve(&mut self, rows: usize) {
                $($(self.$name.reserve_exact(rows);)*)*
            }

            /// The columns by name, in order; `present` marks the rows that are events.
            pub(super) fn take(&mut self, present: &Option<NullBuffer>) -> Vec<(&'static str, ArrayRef)> {
                // Rows before the first event: they repeat its values.
                let before = present.as_ref().and_then(|rows| rows.valid_indices().next()).unwrap_or(0);
                vec![$($({
                    #[allow(unused_mut)]
                    let mut values = std::mem::take(&mut self.$name);
                    #[allow(unused_mut, unused_assignments)]
                    let mut nulls = present.clone();
                    $(
                        nulls = nulls_where(&values, $null);
                        if nulls.is_some() {
                            repeat_at_nulls(&mut values, $null);
                        }
                    )?
                    if let Some(first) = values.get(before).copied() {
                        values[..before].fill(first);
                    }
                    (stringify!($name), array::<<$native as Number>::Arrow>(values, nulls))
                },)*)*]
            }
        }

        /// The columns of a batch that was read.
        pub(super) struct EventView<'a> {
            $($($name: Option<&'a PrimitiveArray<<$native as Number>::Arrow>>,)*)*
        }

        impl<'a> EventView<'a> {
            pub(super) fn new(batch: &'a RecordBatch) -> Self {
                EventView { $($($name: typed(batch, stringify!($name)),)*)* }
            }

            /// Fills in the event's numbers.
            #[inline]
            pub(super) fn fill(&self, row: usize, event: &mut Event) {
                $({
                    let part = &mut of!(event, $path);
                    $(part.$field = value(self.$name, row).unwrap_or(absent!($($null)?));)*
                })*
            }
        }
    };
}

/// Null where the value is the one for "missing", in events as in other rows.
fn nulls_where<T: PartialEq + Copy>(values: &[T], null: T) -> Option<NullBuffer> {
    let valid = BooleanBuffer::collect_bool(values.len(), |row| values[row] != null);
    Some(NullBuffer::new(valid)).filter(|nulls| nulls.null_count() > 0)
}

/// Null rows repeat the previous value, the first ones the first: a column of one value is cheap to
/// compress.
fn repeat_at_nulls<T: PartialEq + Copy>(values: &mut [T], null: T) {
    let Some(mut last) = values.iter().find(|value| **value != null).copied() else { return };
    for value in values {
        if *value == null {
            *value = last;
        } else {
            last = *value;
        }
    }
}

numbers!(event_columns);
