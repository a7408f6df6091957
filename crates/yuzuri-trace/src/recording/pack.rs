//! Compresses the buffers of a batch, each into a zstd frame of its own behind its length.

use arrow_schema::ArrowError;
use zstd::bulk::Compressor;
use zstd::zstd_safe::compress_bound;

/// Fast enough for 600,000 rows a second on a fraction of a core; higher levels gain little on
/// these columns.
const ZSTD_LEVEL: i32 = 1;

/// The length of a buffer that is not compressed.
const NOT_COMPRESSED: i64 = -1;

/// Compresses buffers.
pub(super) struct Packer {
    zstd: Compressor<'static>,
}

impl Packer {
    pub(super) fn new() -> Result<Packer, ArrowError> {
        Ok(Packer { zstd: Compressor::new(ZSTD_LEVEL).map_err(failed)? })
    }

    /// Appends the buffer in the format of Arrow: its length and a zstd frame, or -1 and its bytes
    /// if a frame is not shorter. `value_bytes` is the size of its values; of texts, that of the
    /// first.
    pub(super) fn pack(
        &mut self,
        bytes: &[u8],
        value_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), ArrowError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let start = out.len();
        out.extend_from_slice(&(bytes.len() as i64).to_le_bytes());
        let frame = out.len();
        if !frame_of_a_run(bytes, value_bytes, out) {
            out.resize(frame + compress_bound(bytes.len()), 0);
            let length = self.zstd.compress_to_buffer(bytes, &mut out[frame..]).map_err(failed)?;
            out.truncate(frame + length);
        }
        if out.len() - frame >= bytes.len() {
            out.truncate(start);
            out.extend_from_slice(&NOT_COMPRESSED.to_le_bytes());
            out.extend_from_slice(bytes);
        }
        Ok(())
    }
}

fn failed(source: std::io::Error) -> ArrowError {
    ArrowError::ExternalError(Box::new(source))
}

/// The longest value for whose run a frame is made without zstd: as many literals as have a header
/// of one byte.
const MAX_VALUE_BYTES: usize = 31;
/// The largest block of a frame.
const MAX_BLOCK_BYTES: usize = 128 << 10;
/// The shortest match.
const MIN_MATCH_BYTES: usize = 3;

const MAGIC: [u8; 4] = 0xfd2f_b528_u32.to_le_bytes();
/// Bit of the frame header's descriptor: the whole content is one segment, and its size follows.
const SINGLE_SEGMENT: u8 = 1 << 5;
/// The size of a frame's content takes two bytes, less this.
const TWO_BYTES: usize = 256;
const LAST_COMPRESSED_BLOCK: usize = 1 | 2 << 1;
/// The table of each code has one symbol: literals length, offset, match length.
const ONE_SYMBOL_EACH: u8 = 1 << 6 | 1 << 4 | 1 << 2;

/// Appends a zstd frame (RFC 8878) for a value that fills the whole buffer, except perhaps for its
/// last byte, which may be an incomplete one of a bitmap. False: the buffer is not such a run, and
/// nothing was appended.
///
/// Most buffers of a recording are such runs. zstd produces the same frames, but takes 11,000
/// instructions for a buffer of any length, since it prepares for any content.
fn frame_of_a_run(bytes: &[u8], value_bytes: usize, out: &mut Vec<u8>) -> bool {
    let tail_bytes = usize::from(value_bytes == 1);
    if !(1..=MAX_VALUE_BYTES - tail_bytes).contains(&value_bytes)
        || !(value_bytes + tail_bytes + MIN_MATCH_BYTES..=MAX_BLOCK_BYTES).contains(&bytes.len())
    {
        return false;
    }
    let (run, tail) = bytes.split_at(bytes.len() - tail_bytes);
    if run[value_bytes..] != run[..run.len() - value_bytes] {
        return false;
    }
    // Offset values 1 to 3 denote repeated offsets.
    let offset = Code::power_of_two(value_bytes + 3);
    let literals = Code::of(value_bytes, &LITERALS_LENGTHS, 16);
    let matched = Code::of(run.len() - value_bytes - MIN_MATCH_BYTES, &MATCH_LENGTHS, 32);
    // Read from its end, where a bit marks the end: offset, match length, literals length.
    let mut stream = 1u32;
    let mut bits = 1;
    for code in [&offset, &matched, &literals] {
        stream = stream << code.extra_bits | code.extra;
        bits += code.extra_bits;
    }
    let stream_bytes = bits.div_ceil(8) as usize;
    let literal_bytes = value_bytes + tail_bytes;
    let block = 1 + literal_bytes + 5 + stream_bytes;
    // A block may not be longer than the content (RFC 8878, section 3.1.1.2.4).
    if block > bytes.len() {
        return false;
    }
    out.extend_from_slice(&MAGIC);
    match bytes.len() {
        size if size < TWO_BYTES => out.extend_from_slice(&[SINGLE_SEGMENT, size as u8]),
        size if size - TWO_BYTES <= usize::from(u16::MAX) => {
            out.push(SINGLE_SEGMENT | 1 << 6);
            out.extend_from_slice(&((size - TWO_BYTES) as u16).to_le_bytes());
        }
        size => {
            out.push(SINGLE_SEGMENT | 2 << 6);
            out.extend_from_slice(&(size as u32).to_le_bytes());
        }
    }
    out.extend_from_slice(&(block << 3 | LAST_COMPRESSED_BLOCK).to_le_bytes()[..3]);
    out.push((literal_bytes as u8) << 3);
    out.extend_from_slice(&run[..value_bytes]);
    out.extend_from_slice(tail);
    out.extend_from_slice(&[1, ONE_SYMBOL_EACH, literals.symbol, offset.symbol, matched.symbol]);
    out.extend_from_slice(&stream.to_le_bytes()[..stream_bytes]);
    true
}

/// A number in a sequence: a symbol, and bits that follow.
struct Code {
    symbol: u8,
    extra: u32,
    extra_bits: u32,
}

/// From symbol 16 on: the lowest literals length of a symbol, and its extra bits.
const LITERALS_LENGTHS: [(usize, u32); 6] = [(16, 1), (18, 1), (20, 1), (22, 1), (24, 2), (28, 2)];
/// From symbol 32 on: the lowest match length less 3 of a symbol, and its extra bits.
const MATCH_LENGTHS: [(usize, u32); 21] = [
    (32, 1),
    (34, 1),
    (36, 1),
    (38, 1),
    (40, 2),
    (44, 2),
    (48, 3),
    (56, 3),
    (64, 4),
    (80, 4),
    (96, 5),
    (128, 7),
    (256, 8),
    (512, 9),
    (1024, 10),
    (2048, 11),
    (4096, 12),
    (8192, 13),
    (16384, 14),
    (32768, 15),
    (65536, 16),
];

impl Code {
    /// A number below that of symbol `first` is its own symbol.
    fn of(number: usize, table: &[(usize, u32)], first: u8) -> Code {
        let at = table.partition_point(|(lowest, _)| *lowest <= number);
        match at.checked_sub(1).map(|at| (at, table[at])) {
            None => Code { symbol: number as u8, extra: 0, extra_bits: 0 },
            Some((at, (lowest, extra_bits))) => {
                Code { symbol: first + at as u8, extra: (number - lowest) as u32, extra_bits }
            }
        }
    }

    /// The symbol is the number of bits that follow the highest.
    fn power_of_two(number: usize) -> Code {
        let extra_bits = number.ilog2();
        Code { symbol: extra_bits as u8, extra: (number - (1 << extra_bits)) as u32, extra_bits }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn packed(bytes: &[u8], value_bytes: usize) -> Vec<u8> {
        let mut out = Vec::new();
        Packer::new().unwrap().pack(bytes, value_bytes, &mut out).unwrap();
        out
    }

    /// Reads a buffer with zstd's own decoder.
    fn unpacked(packed: &[u8]) -> Vec<u8> {
        let Some((length, frame)) = packed.split_first_chunk() else { return Vec::new() };
        match i64::from_le_bytes(*length) {
            NOT_COMPRESSED => frame.to_vec(),
            length => {
                let bytes = zstd::bulk::decompress(frame, length as usize).unwrap();
                assert_eq!(bytes.len(), length as usize);
                bytes
            }
        }
    }

    fn is_run(bytes: &[u8], value_bytes: usize) -> bool {
        frame_of_a_run(bytes, value_bytes, &mut Vec::new())
    }

    #[test]
    fn zstd_reads_runs_of_every_length() {
        let value: Vec<u8> = (1..=MAX_VALUE_BYTES as u8).collect();
        for value_bytes in [1, 2, 4, 8, 13, 15, 16, 17, 23, 24, 27, 28, 30, 31] {
            let lengths = (0..2200).chain((1..70).map(|n| n * 2048 - 3)).chain(131_060..131_080);
            for length in lengths {
                let bytes: Vec<u8> = value[..value_bytes].iter().copied().cycle().take(length).collect();
                let mut out = Vec::new();
                // A header, a value and a sequence.
                let least = value_bytes + 15;
                let made = frame_of_a_run(&bytes, value_bytes, &mut out);
                if (least..=MAX_BLOCK_BYTES).contains(&length) {
                    assert!(made, "{length} bytes of {value_bytes}");
                    assert!(out.len() <= 64, "{} bytes", out.len());
                }
                if made {
                    assert_eq!(zstd::bulk::decompress(&out, length).unwrap(), bytes, "{value_bytes}");
                } else {
                    assert!(out.is_empty());
                }
            }
        }
    }

    #[test]
    fn a_bitmap_may_end_within_a_byte() {
        let mut bytes = vec![0xff; 55];
        bytes[54] = 0x0f;
        assert!(is_run(&bytes, 1));
        assert_eq!(unpacked(&packed(&bytes, 1)), bytes);
        bytes[53] = 0x0f;
        assert!(!is_run(&bytes, 1));
        assert_eq!(unpacked(&packed(&bytes, 1)), bytes);
    }

    #[test]
    fn one_other_value_anywhere_is_kept() {
        for at in [0, 1, 7, 8, 799, 800, 1599] {
            let mut bytes: Vec<u8> = 1448u32.to_le_bytes().repeat(400);
            bytes[at] ^= 1;
            assert!(!is_run(&bytes, 4));
            assert_eq!(unpacked(&packed(&bytes, 4)), bytes);
        }
    }

    proptest! {
        #[test]
        fn any_buffer_round_trips(
            parts in prop::collection::vec((any::<[u8; 4]>(), 0usize..400), 0..6),
            value_bytes in 0usize..40,
        ) {
            let bytes: Vec<u8> = parts.iter().flat_map(|(value, times)| value.repeat(*times)).collect();
            let packed = packed(&bytes, value_bytes);
            prop_assert!(packed.len() <= bytes.len() + 8);
            prop_assert_eq!(unpacked(&packed), bytes);
        }
    }
}
