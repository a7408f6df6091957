//! The Internet checksum (RFC 1071), in the byte order of this machine: the sum is independent of
//! it.

/// The sum of 16-bit words, not folded yet.
#[inline]
pub fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut sum: u64 = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
    for (place, byte) in rest.iter().enumerate() {
        let mut word = [0; 2];
        word[place % 2] = *byte;
        sum += u64::from(u16::from_ne_bytes(word));
    }
    sum
}

/// The sum folded to 16 bits, in the machine's byte order. The upper half of a number plus itself
/// with its halves exchanged is the sum of the halves, with the end-around carry.
#[inline]
pub fn fold(sum: u64) -> u16 {
    let sum = (sum.wrapping_add(sum.rotate_left(32)) >> 32) as u32;
    (sum.wrapping_add(sum.rotate_left(16)) >> 16) as u16
}

/// The checksum of a header or segment whose checksum field is 0, as the bytes of that field;
/// `[0, 0]` over one with a correct checksum. Each part but the last has an even length.
pub fn of(parts: &[&[u8]]) -> [u8; 2] {
    (!fold(parts.iter().map(|part| sum(part)).sum())).to_ne_bytes()
}

/// The part of a TCP pseudo-header after the addresses: protocol and length. RFC 9293 section 3.1.
#[inline]
pub fn length_and_protocol(length: u32) -> u64 {
    u64::from(length.to_be()) + u64::from(6u16.to_be())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071 section 4.1, word by word.
    fn slow(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    #[test]
    fn the_example_of_the_rfc() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(fold(sum(&bytes)).to_be(), 0xddf2);
    }

    #[test]
    fn the_field_of_an_ipv4_header() {
        let mut header = [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 64, 17, 0, 0, 192, 168, 0, 1, 192, 168, 0, 199];
        let field = of(&[&header[..8], &header[8..]]);
        assert_eq!(field, [0xb8, 0x61]);
        header[10..12].copy_from_slice(&field);
        assert_eq!(of(&[&header]), [0, 0]);
    }

    proptest! {
        #[test]
        fn as_word_by_word(bytes in proptest::collection::vec(any::<u8>(), 0..3000)) {
            prop_assert_eq!(fold(sum(&bytes)).to_be(), slow(&bytes));
        }
    }
}
