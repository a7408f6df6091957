//! Reads the messages of an Arrow stream from untrusted bytes: every length is checked against a
//! limit and against the bytes available before Arrow's own decoder sees it.

use super::ReadError;
use super::checksum::{self, Checked};
use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::RecordBatchDecoder;
use arrow_ipc::{CompressionType, Message, MessageHeader, MetadataVersion, root_as_message};
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use std::collections::HashMap;
use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A batch of a recording holds at most this many rows.
pub const MAX_BATCH_ROWS: usize = 65_536;

/// A batch of a recording takes at most this many bytes, compressed or not.
pub const MAX_BATCH_BYTES: usize = 64 << 20;

/// The description of a message (for the first: the schema with the session) takes at most this
/// many bytes.
const MAX_METADATA: usize = 4 << 20;

/// How the bytes ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BytesEnd {
    /// With the end-of-stream marker.
    Marker,
    /// Within the message that begins there.
    Cut { at: u64 },
}

/// A message without its body.
struct Frame {
    at: u64,
    prefix: [u8; 8],
    metadata: Vec<u8>,
}

pub(super) struct Frames<R> {
    read: R,
    /// The input's name in errors.
    pub(super) name: String,
    at: u64,
    end: Option<BytesEnd>,
    /// The previous message's checksum.
    checksum: u32,
}

impl<R: Read> Frames<R> {
    pub(super) fn new(read: R, name: String) -> Self {
        Frames { read, name, at: 0, end: None, checksum: 0 }
    }

    /// How it ended, once it has.
    pub(super) fn end(&self) -> Option<BytesEnd> {
        self.end
    }

    /// Bytes read so far.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    fn damaged(&self, at: u64, why: impl ToString) -> ReadError {
        ReadError::Damaged { name: self.name.clone(), at, why: why.to_string() }
    }

    fn not_a_recording(&self, why: impl ToString) -> ReadError {
        ReadError::NotARecording { name: self.name.clone(), why: why.to_string() }
    }

    /// Reads `length` bytes, or fewer if the input ends. Memory grows with the bytes that arrive,
    /// not with the claimed length.
    fn take(&mut self, length: usize) -> Result<Vec<u8>, ReadError> {
        let mut bytes = Vec::with_capacity(length.min(64 << 10));
        let result = (&mut self.read).take(length as u64).read_to_end(&mut bytes);
        self.at += bytes.len() as u64;
        result.map_err(|source| self.io(source))?;
        Ok(bytes)
    }

    fn io(&self, source: io::Error) -> ReadError {
        ReadError::Io { name: self.name.clone(), at: self.at, source }
    }

    /// The next message's description; `None` at the end: see [`Frames::end`].
    fn frame(&mut self) -> Result<Option<Frame>, ReadError> {
        if self.end.is_some() {
            return Ok(None);
        }
        let at = self.at;
        let prefix = self.take(8)?;
        let Ok(prefix) = <[u8; 8]>::try_from(prefix.as_slice()) else { return Ok(self.cut(at)) };
        let [c0, c1, c2, c3, l0, l1, l2, l3] = prefix;
        if [c0, c1, c2, c3] != [0xff; 4] {
            return Err(self.damaged(at, "no Arrow message begins here"));
        }
        let length = i32::from_le_bytes([l0, l1, l2, l3]);
        if length == 0 {
            self.end = Some(BytesEnd::Marker);
            return Ok(None);
        }
        let length = usize::try_from(length).ok().filter(|length| *length <= MAX_METADATA);
        let Some(length) = length else {
            return Err(self.damaged(at, "a message with an impossible length"));
        };
        let metadata = self.take(length)?;
        if metadata.len() < length {
            return Ok(self.cut(at));
        }
        Ok(Some(Frame { at, prefix, metadata }))
    }

    fn cut<T>(&mut self, at: u64) -> Option<T> {
        self.end = Some(BytesEnd::Cut { at });
        None
    }

    /// The schema: the first message.
    pub(super) fn schema(&mut self) -> Result<Schema, ReadError> {
        let frame = match self.frame() {
            Ok(Some(frame)) => frame,
            Ok(None) if self.at == 0 => return Err(self.not_a_recording("it is empty")),
            Ok(None) => {
                return Err(
                    self.not_a_recording("it ends within its header: it was truncated, or is other data")
                );
            }
            Err(ReadError::Damaged { .. }) => {
                return Err(self.not_a_recording("it does not begin like an Arrow stream"));
            }
            Err(other) => return Err(other),
        };
        let why = |words: &dyn std::fmt::Display| format!("its schema cannot be read ({words})");
        let message = root_as_message(&frame.metadata).map_err(|e| self.not_a_recording(why(&e)))?;
        let schema = message
            .header_as_schema()
            .filter(|_| message.bodyLength() == 0)
            .ok_or_else(|| self.not_a_recording("it does not begin with a schema"))?;
        self.checksum = checksum::of(&[&frame.prefix, frame.metadata.as_slice()].concat());
        guarded(|| try_fb_to_schema(schema)).map_err(|e| self.not_a_recording(why(&e)))
    }

    /// The next batch; `None` at the end.
    pub(super) fn batch(&mut self, columns: &Columns) -> Result<Option<RecordBatch>, ReadError> {
        let Some(Frame { at, prefix, metadata }) = self.frame()? else { return Ok(None) };
        let message = root_as_message(&metadata)
            .map_err(|e| self.damaged(at, format!("its description cannot be read ({e})")))?;
        let length = usize::try_from(message.bodyLength()).ok().filter(|length| *length <= MAX_BATCH_BYTES);
        let Some(length) = length else {
            return Err(self.damaged(at, "a batch with an impossible length"));
        };
        let body = self.take(length)?;
        if body.len() < length {
            return Ok(self.cut(at));
        }
        match checksum::check(prefix, &metadata, &message, &body, self.checksum) {
            Checked::Right(checksum) => self.checksum = checksum,
            Checked::Wrong => return Err(self.damaged(at, "its checksum is wrong")),
            Checked::Absent if columns.checksums => {
                return Err(self.damaged(at, "its checksum is missing"));
            }
            Checked::Absent => {}
        }
        let body = Buffer::from_vec(body);
        decode(&message, &body, columns).map(Some).map_err(|why| self.damaged(at, why))
    }
}

/// Why a batch, or a schema, cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum BatchError {
    #[error("its column {name} is {is}")]
    ColumnType { name: String, is: String },
    #[error("Arrow metadata version {0:?}, not V5")]
    Version(MetadataVersion),
    #[error("a message of type {0:?}, not a batch")]
    NotABatch(MessageHeader),
    #[error("a batch without description")]
    NoDescription,
    #[error("a batch of {0} rows")]
    Rows(i64),
    #[error("a column with an impossible length")]
    ColumnLength,
    #[error("compression {0:?}, not zstd")]
    Compression(CompressionType),
    #[error("a batch without buffers")]
    NoBuffers,
    #[error("{are} buffers instead of {wanted}")]
    Buffers { are: usize, wanted: usize },
    #[error("a column outside its batch")]
    Outside,
    #[error("a column of broken values")]
    Values,
    #[error("a batch that unpacks to an impossible size")]
    Size,
    #[error("{0}")]
    Arrow(ArrowError),
    #[error("Arrow's decoder fails on it")]
    Panic,
}

/// A recording's columns, and which of them to read.
pub(super) struct Columns {
    schema: SchemaRef,
    /// The columns to read.
    projection: Vec<usize>,
    /// For each buffer of a batch, in order, the size of its elements.
    widths: Vec<usize>,
    /// Whether every batch has a checksum.
    checksums: bool,
}

impl Columns {
    /// # Errors
    /// If a column has a type that no version of the format has: the batch's buffers could not be
    /// assigned.
    pub(super) fn new(
        schema: Schema,
        projection: Vec<usize>,
        checksums: bool,
    ) -> Result<Columns, BatchError> {
        let mut widths = Vec::new();
        for field in schema.fields() {
            let validity = 1;
            match field.data_type() {
                DataType::Utf8 => widths.extend([validity, size_of::<i32>(), 1]),
                DataType::Boolean => widths.extend([validity, 1]),
                other => match other.primitive_width() {
                    Some(width) => widths.extend([validity, width]),
                    None => {
                        return Err(BatchError::ColumnType {
                            name: field.name().clone(),
                            is: other.to_string(),
                        });
                    }
                },
            }
        }
        Ok(Columns { schema: Arc::new(schema), projection, widths, checksums })
    }
}

fn decode(message: &Message, body: &Buffer, columns: &Columns) -> Result<RecordBatch, BatchError> {
    let version = message.version();
    if version != MetadataVersion::V5 {
        return Err(BatchError::Version(version));
    }
    if message.header_type() != MessageHeader::RecordBatch {
        return Err(BatchError::NotABatch(message.header_type()));
    }
    let batch = message.header_as_record_batch().ok_or(BatchError::NoDescription)?;
    check(&batch, body, &columns.widths)?;
    let none = HashMap::new();
    guarded(|| {
        RecordBatchDecoder::try_new(body, batch, columns.schema.clone(), &none, &version)
            .and_then(|decoder| decoder.with_projection(Some(&columns.projection)).read_record_batch())
    })
}

/// The last resort against a panic in Arrow's decoder that our checks did not foresee: it is
/// reported as damage, and does not end the program. Tests and the fuzzer, which run with debug
/// assertions, do see it.
fn guarded<T>(decode: impl FnOnce() -> Result<T, ArrowError>) -> Result<T, BatchError> {
    let decoded = if cfg!(debug_assertions) {
        decode()
    } else {
        catch_unwind(AssertUnwindSafe(decode)).map_err(|_| BatchError::Panic)?
    };
    decoded.map_err(BatchError::Arrow)
}

/// Checks what Arrow's decoder assumes: that buffers lie within the body and hold whole values, and
/// that sizes are sane.
fn check(batch: &arrow_ipc::RecordBatch, body: &Buffer, widths: &[usize]) -> Result<(), BatchError> {
    let rows = |number: i64| usize::try_from(number).ok().filter(|rows| *rows <= MAX_BATCH_ROWS);
    if rows(batch.length()).is_none() {
        return Err(BatchError::Rows(batch.length()));
    }
    for node in batch.nodes().into_iter().flatten() {
        if rows(node.length()).is_none() || node.null_count() < 0 || node.null_count() > node.length() {
            return Err(BatchError::ColumnLength);
        }
    }
    let packed = match batch.compression() {
        None => false,
        Some(compression) if compression.codec() == CompressionType::ZSTD => true,
        Some(other) => return Err(BatchError::Compression(other.codec())),
    };
    let buffers = batch.buffers().ok_or(BatchError::NoBuffers)?;
    if buffers.len() != widths.len() {
        return Err(BatchError::Buffers { are: buffers.len(), wanted: widths.len() });
    }
    let mut total = 0usize;
    for (buffer, width) in buffers.iter().zip(widths) {
        let bytes = usize::try_from(buffer.offset())
            .ok()
            .zip(usize::try_from(buffer.length()).ok())
            .and_then(|(offset, length)| body.get(offset..offset.checked_add(length)?))
            .ok_or(BatchError::Outside)?;
        let unpacked = if packed { unpacked_size(bytes) } else { Some(bytes.len()) };
        let unpacked = unpacked.filter(|size| size.is_multiple_of(*width)).ok_or(BatchError::Values)?;
        total =
            total.checked_add(unpacked).filter(|total| *total <= MAX_BATCH_BYTES).ok_or(BatchError::Size)?;
    }
    Ok(())
}

/// The uncompressed size that a buffer states: its first eight bytes, where -1 means uncompressed.
fn unpacked_size(bytes: &[u8]) -> Option<usize> {
    if bytes.is_empty() {
        return Some(0);
    }
    match i64::from_le_bytes(*bytes.first_chunk()?) {
        -1 => Some(bytes.len() - 8),
        size => usize::try_from(size).ok(),
    }
}
