//! Memory: how much a file can make the reader hold, and that packets allocate nothing. Memory used
//! by libzstd, in C, is not counted; it stays within its allowed window.

mod common;

use common::{Packing, PcapNg, START_NS, end, pack, pcap, pcap_header, pcap_record};
use parking_lot::Mutex;
use std::io::Read;
use yuzuri_capture::{Capture, Damage, Ending, FileFacts, Flags, NewSegment, Options};
use yuzuri_testnet::CountingAllocator;
use yuzuri_testnet::heap::{calls_of_this_thread, max_bytes_during};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// One test at a time: the counters are global.
static ALONE: Mutex<()> = Mutex::new(());

/// The most memory that reading a file took beyond what was in use before, and the file's facts.
fn max_bytes(reader: impl Read, options: &Options) -> (usize, FileFacts) {
    max_bytes_during(|| {
        let mut capture = Capture::new(reader, "it", options).expect("a capture");
        capture.fold((), |(), _, _| ()).expect("no error");
        capture.facts().clone()
    })
}

const MIB: usize = 1 << 20;

#[test]
fn a_packet_costs_no_memory() {
    let _alone = ALONE.lock();
    let segments: Vec<_> = (0..20_000u16)
        .map(|place| {
            let segment = NewSegment::new(end(2, place % 100), end(1, 443));
            (START_NS, NewSegment { payload_bytes: 100, ..segment })
        })
        .collect();
    let bytes = pcap(&segments);
    let mut capture = Capture::new(&bytes[..], "it", &Options::default()).expect("a capture");
    for _ in 0..1000 {
        capture.next_item().expect("memory");
    }
    let before = calls_of_this_thread();
    let left = capture.fold(0, |count, _, _| count + 1).expect("memory");
    assert_eq!(left, 19_000);
    assert_eq!(calls_of_this_thread() - before, 0);
}

#[test]
fn flows_are_bounded() {
    let _alone = ALONE.lock();
    let syn = |place: u32| {
        let from = std::net::SocketAddr::new(std::net::Ipv4Addr::from_bits(place).into(), 1);
        (START_NS, NewSegment { flags: Flags::SYN, ..NewSegment::new(from, end(1, 443)) })
    };
    let bytes = pcap(&(0..200_000).map(syn).collect::<Vec<_>>());
    let with = |max_flows| max_bytes(&bytes[..], &Options { max_flows, ..Options::default() });
    let (least, facts) = with(1);
    assert_eq!((facts.flows.seen, facts.flows.evicted), (200_000, 199_999));
    let (most, facts) = with(10_000);
    assert_eq!((facts.flows.seen, facts.flows.evicted), (200_000, 190_000));
    // The cost of a flow. Tables double, and the old one is freed once the new one is filled.
    assert!((most - least) / 10_000 < 300, "{} bytes for each flow", (most - least) / 10_000);
    // Only the buffer is allocated.
    assert!(least < MIB, "{least}");
    yuzuri_testnet::attack(
        "capture of made-up flows",
        200_000,
        "flows",
        "below 300 bytes for each that is kept",
    );
}

#[test]
fn claimed_lengths_allocate_nothing() {
    let _alone = ALONE.lock();
    let claims = |length: u32| {
        let record = pcap_record(false, [0, 0, length, length], &[0; 100]);
        [pcap_header(false, 0xa1b2_c3d4, 1), record].concat()
    };
    let too_long = Ending::Damaged { offset_bytes: 24, damage: Damage::TooLong };
    let cut = Ending::Cut { offset_bytes: 24 };
    for (length, ending) in
        [(u32::MAX, too_long), (1 << 31, too_long), ((16 << 20) + 1, too_long), (16 << 20, cut)]
    {
        let (most, facts) = max_bytes(&claims(length)[..], &Options::default());
        assert_eq!(facts.ending, ending);
        assert!(most < MIB, "{length}: {most}");
    }
    // The longest packet allowed, all of it present.
    let mut whole = claims(16 << 20);
    whole.resize(24 + 16 + (16 << 20), 0);
    let (most, facts) = max_bytes(&whole[..], &Options::default());
    assert_eq!((facts.packets, facts.ending), (1, Ending::Whole));
    assert!(most < 50 * MIB, "{most}");
    yuzuri_testnet::attack("capture that claims long packets", 5, "files", "no memory taken for the claim");
}

#[test]
fn interfaces_and_link_types_are_bounded() {
    let _alone = ALONE.lock();
    let mut file = PcapNg::new(false);
    let section = file.bytes.len();
    for link_type in 0..u16::MAX {
        file.interface(link_type, 0);
    }
    // The same section, with 655,350 interfaces.
    let interfaces = file.bytes.split_off(section).repeat(10);
    file.bytes.extend(interfaces);
    let (most, facts) = max_bytes(&file.bytes[..], &Options::default());
    assert_eq!((facts.ending, facts.link_types.len()), (Ending::Whole, 64));
    assert!(most < 12 * MIB, "{most}");
    yuzuri_testnet::attack("capture of many interfaces", 655_350, "interfaces", "below 12 MiB");
}

#[test]
fn highly_compressed_files_are_read_in_bounded_memory() {
    let _alone = ALONE.lock();
    // 16 MiB of zeros in packets, as several members or frames of one file.
    let record = pcap_record(false, [0, 0, 65_520, 65_520], &vec![0; 65_520]);
    let header = pcap_header(false, 0xa1b2_c3d4, 1);
    for (packing, limit) in [(Packing::Gzip, MIB), (Packing::Zstd, 4 * MIB), (Packing::Xz, 20 * MIB)] {
        let members = pack(packing, &record.repeat(16)).repeat(16);
        let bytes = [pack(packing, &header), members].concat();
        assert!(bytes.len() < MIB);
        let (most, facts) = max_bytes(&bytes[..], &Options::default());
        assert_eq!((facts.packets, facts.ending), (256, Ending::Whole), "{packing:?}");
        assert!(most < limit, "{packing:?}: {most}");
    }
    yuzuri_testnet::attack("packed capture that unpacks to 16 MiB", 3, "files", "below 20 MiB");
}

#[test]
fn claimed_zstd_windows_are_bounded() {
    let _alone = ALONE.lock();
    // A frame with a window of 2^41 bytes (RFC 8878 section 3.1.1.1.2), and one with 2^27, the
    // largest accepted.
    for (descriptor, read) in [(31 << 3, false), (17 << 3, true)] {
        let header = pcap_header(false, 0xa1b2_c3d4, 1);
        let raw_block = (header.len() as u32) << 3 | 1;
        let frame =
            [&[0x28, 0xb5, 0x2f, 0xfd, 0, descriptor], &raw_block.to_le_bytes()[..3], &header].concat();
        let (most, capture) =
            max_bytes_during(|| Capture::new(&frame[..], "it", &Options::default()).is_ok());
        assert_eq!(capture, read);
        assert!(most < 200 * MIB, "{most}");
    }
    // xz: the block header holds the dictionary's size (0: 4 KiB, 40: 4 GiB), after the stream
    // header.
    let packed = pack(Packing::Xz, &pcap(&common::odd::download()));
    for size in [37, 38, 39, 40] {
        let mut bytes = packed.clone();
        // Block header: size, flags, filter 0x21, one byte of properties, the dictionary, padding,
        // CRC.
        assert_eq!(bytes[14..16], [0x21, 1]);
        bytes[16] = size;
        let crc = crc32(&bytes[12..20]).to_le_bytes();
        bytes[20..24].copy_from_slice(&crc);
        let (most, capture) = max_bytes_during(|| Capture::new(&bytes[..], "it", &Options::default()));
        let error = capture.err().expect("too much is asked for");
        assert!(error.to_string().contains("nothing in it can be decompressed"), "{error}");
        assert!(most < MIB, "{most}");
    }
    yuzuri_testnet::attack(
        "packed capture that claims a large window",
        6,
        "files",
        "below 200 MiB, or refused",
    );
}

/// CRC-32 as in xz, bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(
            crc ^ u32::from(*byte),
            |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 },
        )
    })
}
