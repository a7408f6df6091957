//! The summary of each odd capture.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Captured, PcapNg, odd};
use std::fmt::Write;
use std::path::Path;
use yuzuri_capture::{
    Capture, Checksum, Ending, FileFacts, Flags, Framing, Item, OpenError, Options, Segment, Skipped,
};

/// A one-line summary.
fn summary(bytes: &[u8]) -> String {
    let mut capture = match Capture::new(bytes, "it", &Options::default()) {
        Ok(capture) => capture,
        Err(OpenError::NotACapture { name, looks }) => return format!("not a capture: {name} {looks}"),
        Err(error) => panic!("{error}"),
    };
    let (payload_bytes, ended) = capture
        .fold((0, 0), |(payload, ended), item, _| match item {
            Item::Segment(segment) => (payload + segment.payload_bytes, ended),
            Item::Ended(_) => (payload, ended + 1),
        })
        .expect("memory can be read");
    assert_eq!(ended, 0);
    describe(capture.facts(), payload_bytes)
}

fn describe(facts: &FileFacts, payload_bytes: u32) -> String {
    let mut text = format!(
        "{} packets, {} segments of {} flows, {payload_bytes} B",
        facts.packets, facts.segments, facts.flows.seen
    );
    let Skipped { not_ip, not_tcp, fragment, cut, bad_header, too_deep, unknown_link_type, no_interface } =
        facts.skipped;
    for (name, count) in [
        ("cut packets", facts.cut_packets),
        ("fragments", facts.fragments),
        ("malformed options", facts.malformed_options),
        ("partial", facts.checksums.partial),
        ("invalid", facts.checksums.invalid),
        ("unknown", facts.checksums.unknown),
        ("not IP", not_ip),
        ("not TCP", not_tcp),
        ("later fragments", fragment),
        ("cut before TCP", cut),
        ("bad headers", bad_header),
        ("too deep", too_deep),
        ("unknown link type", unknown_link_type),
        ("no interface", no_interface),
        ("steps back", facts.clock.steps_back),
        ("unstamped", facts.clock.unstamped),
        ("other blocks", facts.other_blocks),
        ("sections", facts.sections - 1),
        ("drops", facts.capture_drops.unwrap_or(0)),
        ("tunnels", facts.tunnels.total()),
    ] {
        if count > 0 {
            write!(text, "; {name} {count}").expect("memory");
        }
    }
    if facts.ending != Ending::Whole {
        write!(text, "; {:?}", facts.ending).expect("memory");
    }
    text
}

/// For files that are not captures, only what they look like.
const EXPECTED: [(&str, &str); 47] = [
    ("plain.pcap", "10 packets, 10 segments of 1 flows, 400 B"),
    ("big-endian-microseconds.pcap", "10 packets, 10 segments of 1 flows, 400 B"),
    ("empty.pcap", "not a capture: it is an empty file"),
    ("text.pcap", "not a capture: it is text"),
    ("elf.pcap", "not a capture: it is an ELF program or library"),
    ("recording.pcap", "not a capture: it is an Arrow file, such as a recording of yuzuri"),
    ("cut-in-file-header.pcap", "not a capture: it is truncated within the header of a capture"),
    ("header-only.pcap", "0 packets, 0 segments of 0 flows, 0 B"),
    ("cut-in-packet-header.pcap", "1 packets, 1 segments of 1 flows, 0 B; Cut { offset_bytes: 114 }"),
    ("cut-in-packet.pcap", "1 packets, 1 segments of 1 flows, 0 B; Cut { offset_bytes: 114 }"),
    ("no-tcp.pcap", "3 packets, 0 segments of 0 flows, 0 B; not IP 1; not TCP 2"),
    ("one-direction.pcap", "6 packets, 6 segments of 1 flows, 400 B"),
    ("no-syn.pcap", "5 packets, 5 segments of 1 flows, 400 B"),
    ("wrong-checksums.pcap", "10 packets, 10 segments of 1 flows, 400 B; partial 1; invalid 1"),
    ("time-backwards.pcap", "10 packets, 10 segments of 1 flows, 400 B; steps back 2"),
    ("loop.pcap", "15 packets, 15 segments of 1 flows, 1500 B"),
    ("hostile-options.pcap", "8 packets, 8 segments of 1 flows, 212 B; malformed options 6; invalid 8"),
    ("sequence-wrap.pcap", "5 packets, 5 segments of 1 flows, 500 B"),
    ("extension-headers.pcap", "3 packets, 2 segments of 1 flows, 200 B; invalid 2; too deep 1"),
    ("vlan-tags.pcap", "4 packets, 3 segments of 1 flows, 300 B; too deep 1"),
    ("snaplen-54.pcap", "10 packets, 10 segments of 1 flows, 400 B; cut packets 10; unknown 10"),
    ("snaplen-68.pcap", "10 packets, 10 segments of 1 flows, 400 B; cut packets 7; unknown 7"),
    ("snaplen-78.pcap", "10 packets, 10 segments of 1 flows, 400 B; cut packets 4; unknown 4"),
    ("snaplen-96.pcap", "10 packets, 10 segments of 1 flows, 400 B; cut packets 4; unknown 4"),
    ("snaplen-40.pcap", "10 packets, 0 segments of 0 flows, 0 B; cut packets 10; cut before TCP 10"),
    ("zero-total-length.pcap", "1 packets, 1 segments of 1 flows, 99934 B; cut packets 1; unknown 1"),
    ("fragments.pcap", "4 packets, 2 segments of 1 flows, 200 B; fragments 3; unknown 1; later fragments 2"),
    (
        "captured-length-max.pcap",
        "2 packets, 2 segments of 1 flows, 0 B; Damaged { offset_bytes: 204, damage: TooLong }",
    ),
    ("unknown-link-type.pcap", "10 packets, 0 segments of 0 flows, 0 B; unknown link type 10"),
    ("every-link-type.pcapng", "15 packets, 14 segments of 1 flows, 1400 B; unknown link type 1"),
    ("no-interface.pcapng", "4 packets, 1 segments of 1 flows, 100 B; no interface 3"),
    ("resolutions.pcapng", "7 packets, 7 segments of 1 flows, 700 B; steps back 1"),
    (
        "two-sections.pcapng",
        "8 packets, 8 segments of 1 flows, 300 B; unstamped 2; other blocks 2; sections 1",
    ),
    ("statistics.pcapng", "0 packets, 0 segments of 0 flows, 0 B; drops 8"),
    (
        "block-length-max.pcapng",
        "1 packets, 1 segments of 1 flows, 100 B; Damaged { offset_bytes: 256, damage: TooLong }",
    ),
    (
        "block-length-8.pcapng",
        "1 packets, 1 segments of 1 flows, 100 B; Damaged { offset_bytes: 256, damage: TooShort }",
    ),
    (
        "block-lengths-differ.pcapng",
        "1 packets, 1 segments of 1 flows, 100 B; Damaged { offset_bytes: 256, damage: LengthsDiffer }",
    ),
    (
        "neither-byte-order.pcapng",
        "1 packets, 1 segments of 1 flows, 100 B; Damaged { offset_bytes: 256, damage: ByteOrder }",
    ),
    ("packet-beyond-block.pcapng", "3 packets, 2 segments of 1 flows, 200 B; bad headers 1"),
    ("tunnels.pcap", "15 packets, 15 segments of 1 flows, 600 B; tunnels 13"),
    ("download.snoop", "10 packets, 10 segments of 1 flows, 400 B; drops 2"),
    ("download.erf", "10 packets, 10 segments of 1 flows, 400 B"),
    ("bomb.pcap.gz", "2 packets, 1 segments of 1 flows, 100 B; not IP 1"),
    ("truncated.pcap.gz", "6 packets, 6 segments of 1 flows, 300 B; BadCompression { offset_bytes: 899 }"),
    ("truncated.pcap.xz", "4 packets, 4 segments of 1 flows, 100 B; BadCompression { offset_bytes: 600 }"),
    (
        "nothing-to-unpack.pcap.xz",
        "not a capture: it is compressed, but cut or damaged: nothing in it can be decompressed",
    ),
    ("text.gz", "not a capture: it is text, after decompression"),
];

#[test]
fn each_file_is_recognised() {
    let files = odd::all();
    let captured: Vec<(&str, String)> = files.iter().map(|(name, bytes)| (*name, summary(bytes))).collect();
    for ((name, captured), (expected_name, expected)) in captured.iter().zip(EXPECTED) {
        assert_eq!(*name, expected_name);
        assert_eq!(captured, expected, "{name}");
    }
    assert_eq!(captured.len(), EXPECTED.len());
}

#[test]
fn the_committed_files_match_their_generator() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/odd");
    let files = odd::all();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(&folder).unwrap();
        for (name, bytes) in files {
            std::fs::write(folder.join(name), bytes).unwrap();
        }
    }
    for (name, bytes) in files {
        assert!(bytes.len() < 4096, "{name}: {} bytes", bytes.len());
        let committed = std::fs::read(folder.join(name)).unwrap();
        // A compressor's output for the same bytes may differ between versions.
        let same = if name.ends_with("gz") || name.ends_with("xz") {
            summary(&committed) == summary(bytes)
        } else {
            committed == *bytes
        };
        assert!(same, "{name}; UPDATE_GOLDEN=1 writes it anew");
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), files.len());
}

fn of(name: &str) -> Vec<Segment> {
    let of = |captured| match captured {
        Captured::Segment(segment, _) => Some(segment),
        Captured::Ended(..) => None,
    };
    common::read(odd::file(name)).0.into_iter().filter_map(of).collect()
}

#[test]
fn what_was_cut_does_not_change_the_rest() {
    let whole = of("plain.pcap");
    for snaplen in [54, 68, 78, 96] {
        for (cut, whole) in of(&format!("snaplen-{snaplen}.pcap")).iter().zip(&whole) {
            let mut expected = *whole;
            // The header without options is always complete.
            expected.options = cut.options;
            expected.checksum = cut.checksum;
            assert_eq!(*cut, expected);
            assert!(matches!(cut.checksum, Checksum::Unknown | Checksum::Valid));
            let stamps_end = if whole.flags.contains(Flags::SYN) { 70 } else { 66 };
            let stamped = snaplen >= stamps_end;
            assert_eq!(cut.options.timestamps, if stamped { whole.options.timestamps } else { None });
            assert_eq!(
                *cut.options.sack,
                if snaplen >= 78 { whole.options.sack.to_vec() } else { Vec::new() }
            );
        }
    }
    assert_eq!(of("big-endian-microseconds.pcap"), whole);
}

#[test]
fn every_clock_gives_the_same_time() {
    let times: Vec<i64> =
        of("resolutions.pcapng").iter().map(|segment| segment.time_ns % 10_000_000_000).collect();
    assert_eq!(times, [0, 500_000_000, 500_000_000, 500_000_000, 0, 500_000_000, 500_000_000]);
}

#[test]
fn a_length_of_zero_is_the_frames() {
    let segments = of("zero-total-length.pcap");
    assert_eq!((segments[0].payload_bytes, segments[0].wire_bytes), (100_000 - 66, 100_000 - 14));
}

#[test]
fn a_check_sequence_at_the_end_is_no_payload() {
    let zero = odd::file("zero-total-length.pcap");
    let payload_bytes = |bytes: &[u8]| match &common::read(bytes).0[..] {
        [Captured::Segment(segment, _)] => segment.payload_bytes,
        captured => panic!("{captured:?}"),
    };
    assert_eq!(payload_bytes(zero), 100_000 - 66);
    // Twice 16 bits, marked as present; and not marked.
    let network = |network: u32| [&zero[..20], &network.to_le_bytes(), &zero[24..]].concat();
    assert_eq!(payload_bytes(&network(1 | 1 << 26 | 2 << 28)), 100_000 - 66 - 4);
    assert_eq!(payload_bytes(&network(1 | 2 << 28)), 100_000 - 66);
    let mut file = PcapNg::new(true);
    let option = file.option(13, &[4]);
    file.interface_with(1, 0, &option);
    file.enhanced(0, 0, &zero[40..], 100_000);
    assert_eq!(payload_bytes(&file.bytes), 100_000 - 66 - 4);
}

#[test]
fn a_simple_packet_is_as_long_as_its_interface_allows() {
    let frame = common::frame(&odd::download()[3].1, Framing::Ethernet);
    for snaplen in [68, 69, 70, 71] {
        let mut file = PcapNg::new(false);
        file.interface(1, snaplen);
        file.simple(&frame[..snaplen as usize], frame.len() as u32);
        let (captured, facts) = common::read(&file.bytes);
        assert_eq!((facts.captured_bytes, facts.wire_bytes), (u64::from(snaplen), frame.len() as u64));
        let [Captured::Segment(segment, _)] = captured[..] else { panic!("{captured:?}") };
        assert_eq!((segment.payload_bytes, segment.time_ns, facts.clock.unstamped), (100, 0, 1));
    }
}

#[test]
fn a_capture_can_be_read_in_another_thread() {
    let capture = Capture::new(odd::file("plain.pcap"), "it", &Options::default()).unwrap();
    let packets = std::thread::spawn(move || {
        let mut capture = capture;
        capture.fold(0, |count, _, _| count + 1).unwrap()
    });
    assert_eq!(packets.join().unwrap(), 10);
}
