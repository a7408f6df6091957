//! Any input yields an error or facts, never a panic, and its sound parts are read.

mod common;

use common::{Captured, Packing, odd, pack, pcap_header, read_with};
use proptest::prelude::*;
use std::io::{self, Read};
use yuzuri_capture::{Capture, Ending, OpenError, Options};

/// Reads everything and checks what holds for every capture.
fn try_to_read(bytes: &[u8]) {
    let options = Options { max_flows: 5, ..Options::default() };
    let Ok(mut capture) = Capture::new(bytes, "it", &options) else { return };
    let (mut segments, mut ended) = (0u64, 0u64);
    let mut live = [false; 5];
    while let Some(item) = capture.next_item().expect("memory can be read") {
        match item {
            yuzuri_capture::Item::Segment(segment) => {
                segments += 1;
                // A flow begins in a free slot and continues in an occupied one.
                assert_ne!(live[segment.flow.index()], segment.first);
                live[segment.flow.index()] = true;
                assert!(segment.wire_bytes >= 40 + segment.payload_bytes);
            }
            yuzuri_capture::Item::Ended(flow) => {
                ended += 1;
                assert!(live[flow.index()]);
                live[flow.index()] = false;
            }
        }
    }
    let facts = capture.facts();
    assert_eq!(facts.segments, segments);
    assert_eq!(facts.packets, segments + facts.skipped.total());
    assert_eq!(facts.flows.evicted + facts.flows.superseded, ended);
    assert_eq!(facts.flows.seen - ended, capture.live_flows() as u64);
    let sums = facts.checksums;
    assert_eq!(segments, sums.unknown + sums.valid + sums.partial + sums.invalid);
    assert_ne!(facts.ending, Ending::Open);
    assert!(facts.captured_bytes <= facts.wire_bytes);
    assert_eq!(facts.clock.first_ns.is_some(), facts.clock.last_ns.is_some());
    let whole = read_with(bytes, &options);
    common::check_shares(bytes, &options, 2, &whole);
}

/// Changes to a file.
#[derive(Debug, Clone)]
enum Change {
    Set(prop::sample::Index, u8),
    Flip(prop::sample::Index, u8),
    Remove(prop::sample::Index, usize),
    Insert(prop::sample::Index, Vec<u8>),
    Cut(prop::sample::Index),
}

fn change() -> impl Strategy<Value = Change> {
    let place = any::<prop::sample::Index>;
    prop_oneof![
        4 => (place(), prop_oneof![Just(0), Just(1), Just(0xff), any::<u8>()]).prop_map(|(at, to)| Change::Set(at, to)),
        4 => (place(), 0u8..8).prop_map(|(at, bit)| Change::Flip(at, bit)),
        1 => (place(), 1usize..40).prop_map(|(at, count)| Change::Remove(at, count)),
        1 => (place(), proptest::collection::vec(any::<u8>(), 1..40)).prop_map(|(at, what)| Change::Insert(at, what)),
        1 => place().prop_map(Change::Cut),
    ]
}

fn apply(bytes: &mut Vec<u8>, change: Change) {
    if bytes.is_empty() {
        return;
    }
    let length = bytes.len();
    match change {
        Change::Set(at, to) => bytes[at.index(length)] = to,
        Change::Flip(at, bit) => bytes[at.index(length)] ^= 1 << bit,
        Change::Remove(at, count) => {
            let at = at.index(length);
            bytes.drain(at..(at + count).min(length));
        }
        Change::Insert(at, what) => {
            let at = at.index(length);
            bytes.splice(at..at, what);
        }
        Change::Cut(at) => bytes.truncate(at.index(length)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300), kind in 0usize..6, link_type in 0u32..300) {
        try_to_read(&bytes);
        let beginning = match kind {
            0 => pcap_header(false, 0xa1b2_c3d4, link_type),
            1 => pcap_header(true, 0xa1b2_cd34, link_type),
            2 => common::PcapNg::new(true).bytes,
            3 => vec![0x1f, 0x8b, 8],
            4 => vec![0x28, 0xb5, 0x2f, 0xfd],
            _ => b"\xfd7zXZ\0".to_vec(),
        };
        try_to_read(&[beginning, bytes.clone()].concat());
        // One packet of these bytes, for each link type.
        let length = bytes.len() as u32;
        let record = common::pcap_record(false, [0, 0, length, length], &bytes);
        try_to_read(&[pcap_header(false, 0xa1b2_c3d4, link_type), record].concat());
    }

    #[test]
    fn valid_files_with_changes_cause_no_panic(
        file in any::<prop::sample::Index>(),
        changes in proptest::collection::vec(change(), 1..6),
    ) {
        let mut bytes = file.get(odd::all()).1.clone();
        for change in changes {
            apply(&mut bytes, change);
        }
        try_to_read(&bytes);
        yuzuri_testnet::attack("capture with changed bytes", 1, "files", "read or refused");
    }
}

/// Wherever a file is cut, all complete packets before the cut are read, and the position of the
/// cut is reported.
#[test]
fn every_truncation_is_reported() {
    for name in ["plain.pcap", "every-link-type.pcapng", "two-sections.pcapng"] {
        let bytes = odd::file(name);
        let (whole, _) = common::read(bytes);
        let mut last = 0;
        for length in 24..bytes.len() {
            let Ok(mut capture) = Capture::new(&bytes[..length], "it", &Options::default()) else {
                panic!("{name}: {length}")
            };
            let captured = capture.fold(0, |captured, _, _| captured + 1).expect("memory can be read");
            assert!(
                (last..=last + 1).contains(&captured),
                "{name}: {captured} after {last} of {length} bytes"
            );
            last = captured;
            match capture.facts().ending {
                Ending::Whole => {}
                // Within the first block of pcapng.
                Ending::Cut { offset_bytes: 0 } => assert_eq!(captured, 0, "{name}: {length}"),
                Ending::Cut { offset_bytes } => {
                    let before = &bytes[..offset_bytes as usize];
                    let (captured_before, facts) = read_with(before, &Options::default());
                    assert_eq!(captured_before[..], whole[..captured], "{name}: {length}");
                    assert_eq!(facts.ending, Ending::Whole, "{name}: {length}");
                }
                ending => panic!("{name}: {length}: {ending:?}"),
            }
        }
        let cuts = bytes.len() as u64 - 24;
        yuzuri_testnet::attack("capture cut at any byte", cuts, "cuts", "nothing but what was cut off");
        // The last block of the others holds no segment.
        assert_eq!(last, whole.len() - usize::from(name == "plain.pcap"), "{name}");
    }
}

/// Fails after a number of bytes.
struct Failing<'a> {
    bytes: &'a [u8],
}

impl Read for Failing<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.bytes.is_empty() {
            return Err(io::Error::from_raw_os_error(5));
        }
        self.bytes.read(buffer)
    }
}

/// A disk error is not mistaken for a damaged file, compressed or not.
#[test]
fn an_error_of_the_source_is_an_error() {
    let plain = common::pcap(&odd::download());
    let (captured, _) = common::read(&plain);
    for packing in [None, Some(Packing::Gzip), Some(Packing::Zstd), Some(Packing::Xz)] {
        let (first, second) = plain.split_at(plain.len() / 2);
        let bytes = match packing {
            None => first.to_vec(),
            // One member is complete, the next has begun.
            Some(packing) => [pack(packing, first), pack(packing, second)[..20].to_vec()].concat(),
        };
        let mut capture =
            Capture::new(Failing { bytes: &bytes }, "disk", &Options::default()).expect("a capture");
        let mut count = 0;
        let error = loop {
            match capture.next_item() {
                Ok(Some(_)) => count += 1,
                Ok(None) => panic!("{packing:?}: no error after {count} items"),
                Err(error) => break error,
            }
        };
        assert!(count >= 4 && count < captured.len(), "{packing:?}: {count}");
        assert_eq!(error.packets, count as u64);
        assert_eq!(error.source.raw_os_error(), Some(5), "{packing:?}");
        assert_eq!(
            error.to_string(),
            format!(
                "reading the capture disk: Input/output error (os error 5) (after {count} packets); everything before that was read"
            )
        );
        assert_eq!(capture.next_item().expect("said once"), None);
        assert_eq!(capture.facts().ending, Ending::Open);
    }
    let error =
        Capture::new(Failing { bytes: &plain[..3] }, "disk", &Options::default()).err().expect("an error");
    assert!(matches!(error, OpenError::File { .. }), "{error}");
    let missing = Capture::open("/nowhere/there.pcap", &Options::default()).err().expect("an error");
    assert_eq!(
        missing.to_string(),
        "opening the capture /nowhere/there.pcap: No such file or directory (os error 2); check that the file exists and \
         is readable"
    );
}

#[test]
fn a_file_is_opened_by_its_path() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("it.pcap.zst");
    std::fs::write(&path, pack(Packing::Zstd, &common::pcap(&odd::download()))).expect("room");
    let mut capture = Capture::open(&path, &Options::default()).expect("a capture");
    assert_eq!(capture.fold(0, |count, _, _| count + 1).expect("no error"), 10);
    let captured = common::read(&common::pcap(&odd::download())).0;
    assert!(captured.iter().all(|captured| matches!(captured, Captured::Segment(..))));
}
