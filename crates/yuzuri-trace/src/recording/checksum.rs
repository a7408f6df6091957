//! A checksum in each batch, which distinguishes data from flipped bits and from pages that never
//! reached the disk.
//!
//! Arrow's stream has no checksums, but each message has room for custom metadata, which readers
//! that do not know it skip. It holds `crc32`: eight hexadecimal digits, the CRC-32 of zlib and PNG
//! over the whole message as in the file, with `00000000` in place of the digits. It continues from
//! the checksum of the previous message (for the first batch: of the schema's message). So it
//! covers everything before it, too: the schema, and that no batch is missing or repeated.

use arrow_ipc::{
    BodyCompression, BodyCompressionArgs, BodyCompressionMethod, Buffer, CompressionType, FieldNode,
    KeyValue, KeyValueArgs, Message, MessageArgs, MessageHeader, MetadataVersion, RecordBatch,
    RecordBatchArgs, root_as_message,
};
use arrow_schema::ArrowError;
use crc32fast::Hasher;
use flatbuffers::FlatBufferBuilder;
use std::ops::Range;

/// The key of the custom metadata.
pub(super) const KEY: &str = "crc32";
const DIGITS: usize = 8;
const PLACEHOLDER: [u8; DIGITS] = *b"00000000";

/// The checksum of a whole message that does not contain one: the schema's.
pub(super) fn of(message: &[u8]) -> u32 {
    crc32fast::hash(message)
}

/// A batch's description, with room for the checksum. The buffers are compressed with zstd.
pub(super) fn description(
    rows: usize,
    nodes: &[FieldNode],
    buffers: &[Buffer],
    body_bytes: usize,
) -> Vec<u8> {
    let mut out = FlatBufferBuilder::with_capacity(size_of_val(nodes) + size_of_val(buffers) + 256);
    let nodes = Some(out.create_vector(nodes));
    let buffers = Some(out.create_vector(buffers));
    let args = BodyCompressionArgs { codec: CompressionType::ZSTD, method: BodyCompressionMethod::BUFFER };
    let compression = Some(BodyCompression::create(&mut out, &args));
    let args = RecordBatchArgs {
        length: rows as i64,
        nodes,
        buffers,
        compression,
        // Only for view types, which no column has.
        variadicBufferCounts: None,
    };
    let header = RecordBatch::create(&mut out, &args);
    let key = Some(out.create_string(KEY));
    let value = Some(out.create_string(std::str::from_utf8(&PLACEHOLDER).unwrap_or_default()));
    let pair = KeyValue::create(&mut out, &KeyValueArgs { key, value });
    let custom_metadata = Some(out.create_vector(&[pair]));
    let args = MessageArgs {
        version: MetadataVersion::V5,
        header_type: MessageHeader::RecordBatch,
        header: Some(header.as_union_value()),
        bodyLength: body_bytes as i64,
        custom_metadata,
    };
    let message = Message::create(&mut out, &args);
    out.finish(message, None);
    out.finished_data().to_vec()
}

/// The range of the digits in a description.
fn digits(description: &[u8], message: &Message) -> Option<Range<usize>> {
    let mut pairs = message.custom_metadata().into_iter().flatten();
    let value = pairs.find(|pair| pair.key() == Some(KEY))?.value()?;
    let start = (value.as_ptr() as usize).checked_sub(description.as_ptr() as usize)?;
    (value.len() == DIGITS).then_some(start..start + DIGITS)
}

/// Fills in the checksum of a whole message, which starts with its eight bytes of prefix. `before`
/// is the previous message's checksum. Returns the checksum.
pub(super) fn seal(message: &mut [u8], before: u32) -> Result<u32, ArrowError> {
    let failed = || ArrowError::IpcError("a batch without room for its checksum".into());
    let description = message.get(8..).ok_or_else(failed)?;
    let parsed = root_as_message(description).map_err(|e| ArrowError::IpcError(e.to_string()))?;
    let digits = digits(description, &parsed).ok_or_else(failed)?;
    let mut hasher = Hasher::new_with_initial(before);
    hasher.update(message);
    let checksum = hasher.finalize();
    let place = message.get_mut(8 + digits.start..8 + digits.end).ok_or_else(failed)?;
    place.copy_from_slice(format!("{checksum:08x}").as_bytes());
    Ok(checksum)
}

/// The state of a message's checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Checked {
    /// The message has none.
    Absent,
    /// It does not match the bytes.
    Wrong,
    /// It matches.
    Right(u32),
}

/// Checks whether a batch's bytes are those that were written.
pub(super) fn check(
    prefix: [u8; 8],
    description: &[u8],
    message: &Message,
    body: &[u8],
    before: u32,
) -> Checked {
    let Some(digits) = digits(description, message) else { return Checked::Absent };
    let (Some(head), Some(tail)) = (description.get(..digits.start), description.get(digits.end..)) else {
        return Checked::Absent;
    };
    let mut hasher = Hasher::new_with_initial(before);
    for part in [&prefix, head, &PLACEHOLDER, tail, body] {
        hasher.update(part);
    }
    let checksum = hasher.finalize();
    let written = description.get(digits).and_then(|digits| std::str::from_utf8(digits).ok());
    if written == Some(format!("{checksum:08x}").as_str()) {
        Checked::Right(checksum)
    } else {
        Checked::Wrong
    }
}
