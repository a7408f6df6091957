//! Contents of the buffers.

use std::sync::OnceLock;

/// Length of [`payload`], bytes.
pub const PAYLOAD_BYTES: usize = 1 << 18;

/// Contents of a buffer: it starts at the beginning of this block and repeats it. The bytes look
/// random, so that a link with compression does not make a path appear faster, and they are the
/// same everywhere, so that a receiver can verify them.
pub fn payload() -> &'static [u8] {
    static PAYLOAD: OnceLock<Vec<u8>> = OnceLock::new();
    PAYLOAD.get_or_init(|| {
        // xorshift64* (Vigna 2016) with a fixed seed
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let words = std::iter::repeat_with(|| {
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes()
        });
        words.take(PAYLOAD_BYTES / 8).flatten().collect()
    })
}

/// Contiguous bytes of a buffer starting at `offset`, at most `most`.
pub(crate) fn piece(offset: u64, most: u64) -> &'static [u8] {
    let from = (offset % PAYLOAD_BYTES as u64) as usize;
    let rest = &payload()[from..];
    &rest[..rest.len().min(usize::try_from(most).unwrap_or(usize::MAX))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payload_does_not_repeat() {
        let words: std::collections::HashSet<&[u8]> = payload().chunks(8).collect();
        assert_eq!(words.len(), PAYLOAD_BYTES / 8);
    }

    #[test]
    fn pieces_make_up_the_payload() {
        assert_eq!(piece(5, 3), &payload()[5..8]);
        assert_eq!(piece(PAYLOAD_BYTES as u64 + 5, 3), &payload()[5..8]);
        assert_eq!(piece(PAYLOAD_BYTES as u64 - 2, 9).len(), 2);
    }
}
