//! An untrusted packet capture: an error or segments, never a panic, and bounded memory.
//!
//! `FUZZ_TARGETS=capture make fuzz` begins from the committed captures of the tests.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::io::Read;
use yuzuri_capture::{Capture, Ending, FileFacts, Item, Options, Partition, Segment};

const MAX_FLOWS: usize = 4;

/// Returns a few bytes at a time.
struct Dribble<'a>(&'a [u8]);

impl Read for Dribble<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let most = buffer.len().min(self.0.len() % 7 + 1);
        self.0.read(&mut buffer[..most])
    }
}

fn read(reader: impl Read, partition: Partition) -> Option<(Vec<Segment>, FileFacts)> {
    let options = Options { max_flows: MAX_FLOWS, partition, ..Options::default() };
    let mut capture = Capture::new(reader, "input", &options).ok()?;
    let mut segments = Vec::new();
    let mut live = [false; MAX_FLOWS];
    while let Some(item) = capture.next_item().expect("memory can be read") {
        match item {
            Item::Segment(&segment) => {
                // A flow begins in a free slot and continues in an occupied one.
                assert_ne!(live[segment.flow.index()], segment.first);
                live[segment.flow.index()] = true;
                assert!(segment.wire_bytes >= segment.payload_bytes + 40);
                let key = capture.key(segment.flow).expect("its flow");
                assert!((key.lower.ip(), key.lower.port()) <= (key.higher.ip(), key.higher.port()));
                // Do not keep captures that decompress to very many segments.
                if segments.len() < 1000 {
                    segments.push(segment);
                }
            }
            Item::Ended(flow) => assert!(std::mem::take(&mut live[flow.index()])),
        }
    }
    let facts = capture.facts().clone();
    assert_eq!(facts.packets, facts.segments + facts.skipped.total());
    assert_eq!(facts.flows.seen, facts.flows.evicted + facts.flows.superseded + capture.live_flows() as u64);
    let live = live.iter().filter(|live| **live).count();
    assert!(if partition == Partition::ALL {
        live == capture.live_flows()
    } else {
        live <= capture.live_flows()
    });
    assert_ne!(facts.ending, Ending::Open);
    Some((segments, facts))
}

/// One packet for each 200 bytes; the first byte selects the link type.
fn packets(bytes: &[u8]) -> Vec<u8> {
    const LINKS: [u32; 16] = [1, 1, 0, 9, 12, 50, 101, 101, 105, 108, 113, 127, 197, 228, 229, 276];
    let (link, rest) = bytes.split_first().expect("it is not empty");
    let mut file = [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0].to_vec();
    file.extend([0; 12]);
    file.extend(LINKS[usize::from(*link) % LINKS.len()].to_le_bytes());
    for packet in rest.chunks(200) {
        let length = packet.len() as u32;
        file.extend([0, 0, length, length].into_iter().flat_map(u32::to_le_bytes));
        file.extend(packet);
    }
    file
}

fuzz_target!(|bytes: &[u8]| {
    let whole = read(bytes, Partition::ALL);
    // The sizes of reads must not matter. How much of damaged compressed data is recovered, though,
    // depends on the decompressor.
    if let Some((_, facts)) = &whole
        && bytes.len() < 2000
        && !matches!(facts.ending, Ending::BadCompression { .. })
    {
        assert_eq!(read(Dribble(bytes), Partition::ALL), whole);
    }
    // The two partitions together yield what one reader yields.
    if let Some((segments, facts)) = &whole
        && bytes.len() < 2000
    {
        let parts = Partition::each(2).map(|partition| read(bytes, partition).expect("the same file"));
        let (given, known): (Vec<_>, Vec<_>) = parts.unzip();
        if facts.segments < 1000 {
            assert_eq!(given.concat().len(), segments.len());
        }
        let mut all = known[0].clone();
        all.add_share(&known[1]);
        assert_eq!(all, *facts);
    }
    if bytes.is_empty() {
        return;
    }
    let (_, facts) = read(&packets(bytes)[..], Partition::ALL).expect("it has the header of a capture");
    assert_eq!(facts.ending, Ending::Whole);
});
