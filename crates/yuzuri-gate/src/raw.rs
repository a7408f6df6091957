//! The kernel's records: `bpf/gate.h` is their one definition, the build derives the types.

#![expect(unsafe_code, reason = "the kernel's records are read from bytes")]

pub(crate) use crate::skel::types::{bound, bucket, flow, rate};

// `#define`s of the header; a test reads them there.
pub(crate) const FLOW_KNOWN: u8 = 4;
pub(crate) const FLOW_NEVER_MODIFIED: u8 = 8;
pub(crate) const FLOW_CLOSED: u8 = 16;
pub(crate) const FLOW_DATA: u8 = 32;
pub(crate) const PERIOD_SHIFT: u8 = 29;
pub(crate) const ROOM_UNKNOWN: u32 = u32::MAX;
pub(crate) const EDGE_KNOWN: u64 = 1 << 32;

const _: () = assert!(size_of::<bound>() == 16 && size_of::<rate>() == 16);

/// The state of a connection, from a value of the table `flows`.
pub(crate) fn read_flow(bytes: &[u8]) -> Option<flow> {
    if bytes.len() != size_of::<flow>() {
        return None;
    }
    // SAFETY: the slice is as long as the record, which is integers throughout: every bit pattern
    // is valid; it need not be aligned.
    Some(unsafe { bytes.as_ptr().cast::<flow>().read_unaligned() })
}

/// A station's traffic without a window, from a value of the table `buckets`.
pub(crate) fn read_bucket(bytes: &[u8]) -> Option<bucket> {
    if bytes.len() != size_of::<bucket>() {
        return None;
    }
    // SAFETY: as above: as long as the record, which is integers throughout.
    Some(unsafe { bytes.as_ptr().cast::<bucket>().read_unaligned() })
}

/// The memory layout of `struct mac`.
pub(crate) fn mac_bytes(mac: [u8; 6]) -> [u8; 8] {
    let mut raw = [0; 8];
    raw[..6].copy_from_slice(&mac);
    raw
}

/// The memory layout of `struct rate`.
pub(crate) fn rate_bytes(until_ns: u64, bytes_per_s: u64) -> [u8; size_of::<rate>()] {
    let mut raw = [0; size_of::<rate>()];
    raw[..8].copy_from_slice(&until_ns.to_ne_bytes());
    raw[8..].copy_from_slice(&bytes_per_s.to_ne_bytes());
    raw
}

/// The memory layout of `struct bound`.
pub(crate) fn bound_bytes(until_ns: u64, bytes: u32, thin: u32) -> [u8; size_of::<bound>()] {
    let mut raw = [0; size_of::<bound>()];
    raw[..8].copy_from_slice(&until_ns.to_ne_bytes());
    raw[8..12].copy_from_slice(&bytes.to_ne_bytes());
    raw[12..].copy_from_slice(&thin.to_ne_bytes());
    raw
}

/// When an entry of `bounds`, `station_bounds` or `rates` expires: their first field.
pub(crate) fn until_ns(value: &[u8]) -> Option<u64> {
    const _: () = assert!(std::mem::offset_of!(bound, until_ns) == 0);
    const _: () = assert!(std::mem::offset_of!(rate, until_ns) == 0);
    value.first_chunk().copied().map(u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn constants_are_the_headers() {
        let header = include_str!("../bpf/gate.h");
        let value = |name: &str| -> u8 {
            let line = header.lines().find(|l| l.starts_with(&format!("#define {name} "))).unwrap();
            line.split_whitespace().nth(2).unwrap().parse().unwrap()
        };
        assert_eq!(value("FLOW_KNOWN"), FLOW_KNOWN);
        assert_eq!(value("FLOW_NEVER_MODIFIED"), FLOW_NEVER_MODIFIED);
        assert_eq!(value("FLOW_CLOSED"), FLOW_CLOSED);
        assert_eq!(value("FLOW_DATA"), FLOW_DATA);
        assert_eq!(value("PERIOD_SHIFT"), PERIOD_SHIFT);
        assert!(header.contains("#define ROOM_UNKNOWN 0xffffffff"));
        assert!(header.contains("#define EDGE_KNOWN (1ULL << 32)"));
        let gap = format!("#define THIN_GAP_NS {}ULL", crate::MAX_ACK_GAP.as_nanos());
        assert!(include_str!("../bpf/thin.h").contains(&gap));
    }

    #[test]
    fn records_decode_from_their_exact_size_only() {
        assert!(read_flow(&[0; size_of::<flow>() - 1]).is_none());
        let read = read_flow(&[1; size_of::<flow>()]).unwrap();
        assert_eq!((read.right_edge, read.scale), (0x0101_0101_0101_0101, 1));
        assert!(read_bucket(&[0; size_of::<bucket>() + 1]).is_none());
        assert_eq!(read_bucket(&[1; size_of::<bucket>()]).unwrap().tokens, 0x0101_0101_0101_0101);
        assert_eq!(mac_bytes([1, 2, 3, 4, 5, 6]), [1, 2, 3, 4, 5, 6, 0, 0]);
        assert_eq!(rate_bytes(7, 9), *[7u64.to_ne_bytes(), 9u64.to_ne_bytes()].concat());
        let bytes = bound_bytes(1, 2, 3);
        let number = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!((u64::from_ne_bytes(bytes[..8].try_into().unwrap()), number(8), number(12)), (1, 2, 3));
    }
}
