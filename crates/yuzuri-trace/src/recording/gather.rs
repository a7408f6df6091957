//! Columns filled row by row.

use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{ArrayRef, PrimitiveArray, StringArray};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::ArrowError;
use std::sync::Arc;

/// Numbers that only some rows have. Rows without a value are filled in late, so that a batch
/// without any such row costs nothing here.
pub(super) struct Numbers<T: ArrowPrimitiveType> {
    values: Vec<T::Native>,
    valid: Vec<bool>,
}

impl<T: ArrowPrimitiveType> Default for Numbers<T> {
    fn default() -> Self {
        Numbers { values: Vec::new(), valid: Vec::new() }
    }
}

impl<T: ArrowPrimitiveType> Numbers<T> {
    /// Sets the value of `row`; rows come in ascending order.
    #[inline]
    pub(super) fn set(&mut self, row: usize, value: T::Native) {
        if self.values.len() < row {
            self.pad(row, value);
        }
        self.values.push(value);
        self.valid.push(true);
    }

    pub(super) fn set_some(&mut self, row: usize, value: Option<T::Native>) {
        if let Some(value) = value {
            self.set(row, value);
        }
    }

    /// Null rows repeat the previous value, the first ones the first: a column of one value is
    /// cheap to compress.
    fn pad(&mut self, rows: usize, first: T::Native) {
        let value = self.values.last().copied().unwrap_or(first);
        self.values.resize(rows, value);
        self.valid.resize(rows, false);
    }

    pub(super) fn take(&mut self, rows: usize) -> ArrayRef {
        if self.values.is_empty() {
            return Arc::new(PrimitiveArray::<T>::new_null(rows));
        }
        self.pad(rows, T::Native::default());
        let nulls = NullBuffer::new(BooleanBuffer::from(self.valid.as_slice()));
        self.valid.clear();
        let values = ScalarBuffer::from(std::mem::take(&mut self.values));
        Arc::new(PrimitiveArray::<T>::new(values, Some(nulls).filter(|n| n.null_count() > 0)))
    }
}

/// Texts; an empty text and a missing one are both null.
#[derive(Default)]
pub(super) struct Texts {
    bytes: Vec<u8>,
    /// The end of each row's text.
    ends: Vec<i32>,
}

impl Texts {
    #[inline]
    pub(super) fn set(&mut self, row: usize, text: &str) {
        if self.ends.len() < row {
            self.pad(row);
        }
        self.bytes.extend_from_slice(text.as_bytes());
        self.ends.push(self.bytes.len() as i32);
    }

    fn pad(&mut self, rows: usize) {
        self.ends.resize(rows, self.bytes.len() as i32);
    }

    /// Bytes of text held.
    pub(super) fn size(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn take(&mut self, rows: usize) -> Result<ArrayRef, ArrowError> {
        if self.ends.is_empty() {
            return Ok(Arc::new(StringArray::new_null(rows)));
        }
        self.pad(rows);
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        offsets.extend_from_slice(&self.ends);
        self.ends.clear();
        let valid = BooleanBuffer::collect_bool(rows, |row| offsets[row] != offsets[row + 1]);
        let nulls = Some(NullBuffer::new(valid)).filter(|nulls| nulls.null_count() > 0);
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        // Copied, not moved: the next batch will need about as much again.
        let bytes = Buffer::from(self.bytes.as_slice());
        self.bytes.clear();
        Ok(Arc::new(StringArray::try_new(offsets, bytes, nulls)?))
    }
}
