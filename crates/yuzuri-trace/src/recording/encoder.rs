//! Turns batches into the bytes of Arrow messages.
//!
//! Arrow's own writer passes every buffer to zstd, which takes most of the time of small batches;
//! see [`super::pack`].

use super::checksum;
use super::pack::Packer;
use super::typed::Values;
use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{Array, PrimitiveArray, RecordBatch};
use arrow_buffer::Buffer as ArrowBuffer;
use arrow_ipc::writer::{DictionaryTracker, EncodedData, IpcDataGenerator, IpcWriteOptions, write_message};
use arrow_ipc::{Buffer, FieldNode, MetadataVersion};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use std::ops::Range;
use std::sync::Arc;

/// Buffers begin at multiples of 8, not 64, which keeps batches of few rows small.
const ALIGNMENT: usize = 8;

/// Turns batches into the bytes of Arrow messages.
pub(super) struct Encoder {
    pub(super) schema: SchemaRef,
    /// The last message's checksum.
    pub(super) checksum: u32,
    body: Body,
}

/// The buffers of a batch, and their description.
struct Body {
    packer: Packer,
    nodes: Vec<FieldNode>,
    buffers: Vec<Buffer>,
    bytes: Vec<u8>,
    /// The last bitmap of nulls, and its range in `bytes`.
    nulls: Option<(ArrowBuffer, Range<usize>)>,
}

impl Encoder {
    pub(super) fn new(schema: Schema) -> Result<Encoder, ArrowError> {
        let packer = Packer::new()?;
        let body = Body { packer, nodes: Vec::new(), buffers: Vec::new(), bytes: Vec::new(), nulls: None };
        Ok(Encoder { schema: Arc::new(schema), checksum: 0, body })
    }

    pub(super) fn schema_message(&mut self) -> Result<Vec<u8>, ArrowError> {
        let options = IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5)?;
        let encoded: EncodedData = IpcDataGenerator::default().schema_to_bytes_with_dictionary_tracker(
            &self.schema,
            &mut DictionaryTracker::new(true),
            &options,
        );
        let mut message = Vec::new();
        write_message(&mut message, encoded, &options)?;
        self.checksum = checksum::of(&message);
        Ok(message)
    }

    /// Appends the batch's message to `out`.
    pub(super) fn batch_message(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        self.body.clear();
        for column in batch.columns() {
            self.body.add(column.as_ref())?;
        }
        let Body { nodes, buffers, bytes, .. } = &self.body;
        let start = out.len();
        let mut description = checksum::description(batch.num_rows(), nodes, buffers, bytes.len());
        description.resize(description.len().next_multiple_of(ALIGNMENT), 0);
        // The beginning of a message, as of the end-of-stream marker.
        out.extend_from_slice(&[0xff; 4]);
        out.extend_from_slice(&(description.len() as i32).to_le_bytes());
        out.extend_from_slice(&description);
        out.extend_from_slice(bytes);
        self.checksum = checksum::seal(&mut out[start..], self.checksum)?;
        Ok(())
    }
}

impl Body {
    fn clear(&mut self) {
        self.nodes.clear();
        self.buffers.clear();
        self.bytes.clear();
        self.nulls = None;
    }

    fn add(&mut self, column: &dyn Array) -> Result<(), ArrowError> {
        self.nodes.push(FieldNode::new(column.len() as i64, column.null_count() as i64));
        // An empty bitmap means that there are no nulls.
        match column.nulls().filter(|nulls| nulls.null_count() > 0) {
            Some(nulls) => self.nulls(nulls.inner().sliced())?,
            None => self.buffer(&[], 1)?,
        }
        let values = Values::of(column).ok_or_else(|| {
            ArrowError::IpcError(format!("a recording has no columns of {}", column.data_type()))
        })?;
        match values {
            Values::Time(times) => self.numbers(times),
            Values::U16(numbers) => self.numbers(numbers),
            Values::U32(numbers) => self.numbers(numbers),
            Values::U64(numbers) => self.numbers(numbers),
            Values::I64(numbers) => self.numbers(numbers),
            Values::Bool(bits) => self.buffer(&bits.values().sliced(), 1),
            Values::Text(texts) => {
                let offsets = texts.offsets();
                self.buffer(offsets.inner().inner(), size_of::<i32>())?;
                let first_text = offsets.lengths().next().unwrap_or_default();
                self.buffer(texts.values(), first_text)
            }
        }
    }

    /// A bitmap of nulls. Most columns of a batch have the same: all but those of the few rows that
    /// are no events.
    fn nulls(&mut self, bitmap: ArrowBuffer) -> Result<(), ArrowError> {
        let start = self.bytes.len();
        match &self.nulls {
            Some((last, packed)) if *last == bitmap => {
                self.bytes.extend_from_within(packed.clone());
                self.end_buffer(start);
            }
            _ => {
                self.buffer(&bitmap, 1)?;
                let packed = self.buffers.last().map_or(0, |buffer| buffer.length() as usize);
                self.nulls = Some((bitmap, start..start + packed));
            }
        }
        Ok(())
    }

    fn numbers<T: ArrowPrimitiveType>(&mut self, numbers: &PrimitiveArray<T>) -> Result<(), ArrowError> {
        self.buffer(numbers.values().inner(), size_of::<T::Native>())
    }

    fn buffer(&mut self, bytes: &[u8], value_bytes: usize) -> Result<(), ArrowError> {
        let start = self.bytes.len();
        self.packer.pack(bytes, value_bytes, &mut self.bytes)?;
        self.end_buffer(start);
        Ok(())
    }

    fn end_buffer(&mut self, start: usize) {
        self.buffers.push(Buffer::new(start as i64, (self.bytes.len() - start) as i64));
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
    }
}
