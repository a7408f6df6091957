//! Recordings after a power cut, a broken copy or a disk error: truncated at any byte, with pages
//! that never reached the disk, with flipped bits. Every complete batch before the damage is read,
//! the damage is reported, and no row is invented.
//!
//! The random positions come from a seed that is printed; `YUZURI_SEED=N` sets it.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::OnceLock;
use std::time::Instant;
use yuzuri_trace::Item;
use yuzuri_trace::recording::{BATCH_ROWS, ReadError, Reader, Tail, Writer};

/// A recording and where its batches end.
struct Recorded {
    bytes: Vec<u8>,
    /// The end of each batch, as its byte and its number of items; the last batch is the end mark.
    batches: Vec<(usize, usize)>,
    items: Vec<Item>,
}

/// A recording that begins with a full batch; small ones follow, with an account after each.
fn long() -> &'static Recorded {
    static RECORDED: OnceLock<Recorded> = OnceLock::new();
    RECORDED.get_or_init(|| record(&[BATCH_ROWS, 500, 50, 5]))
}

/// The same without the full batch: it takes little time to read, and is read often.
fn short() -> &'static Recorded {
    static RECORDED: OnceLock<Recorded> = OnceLock::new();
    RECORDED.get_or_init(|| record(&[100, 20, 5]))
}

fn record(batches: &[usize]) -> Recorded {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.arrows");
    let mut traffic = common::Traffic::new(20, 50_000);
    let now = Instant::now();
    let mut writer = Writer::create(&path, &common::session(), false).unwrap();
    let mut items = traffic.identities();
    writer.write(&items, now).unwrap();
    for &rows in batches {
        let mut more: Vec<Item> = (0..rows).map(|_| Item::Event(traffic.next())).collect();
        more.push(traffic.account(rows as u64, 1));
        writer.write(&more, now).unwrap();
        writer.flush(now).unwrap();
        items.extend(more);
    }
    assert!(writer.finish().finished);
    let bytes = std::fs::read(path).unwrap();
    let mut reader = Reader::new(&bytes[..], "input").unwrap();
    let mut batches = Vec::new();
    let mut count = 0;
    while let Some(batch) = reader.next_batch().unwrap() {
        count += batch.len();
        batches.push((reader.bytes_read() as usize, count));
    }
    assert_eq!(reader.complete(), Some(true));
    assert_eq!(count, items.len());
    Recorded { bytes, batches, items }
}

/// The result of reading damaged bytes.
struct Read {
    count: usize,
    tail: Option<Tail>,
    broke: Option<ReadError>,
    complete: Option<bool>,
}

/// `None`: the bytes are no longer recognised as a recording.
fn read(of: &Recorded, bytes: &[u8]) -> Option<Read> {
    let all = &of.items;
    let mut reader = match Reader::new(bytes, "input") {
        Ok(reader) => reader,
        Err(ReadError::NotARecording { .. } | ReadError::Newer { .. }) => return None,
        Err(other) => panic!("{other}"),
    };
    let mut count = 0;
    let broke = loop {
        match reader.next_batch() {
            Ok(Some(items)) => {
                // No row that was not written, and none out of order.
                assert!(all[count..].starts_with(&items), "invented a row after {count}");
                count += items.len();
            }
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    Some(Read { count, tail: reader.tail(), broke, complete: reader.complete() })
}

/// The number of items in all batches that end at or before a byte.
fn whole_before(of: &Recorded, at: usize) -> usize {
    of.batches.iter().take_while(|(end, _)| *end <= at).map(|(_, count)| *count).last().unwrap_or(0)
}

fn random() -> common::Random {
    let seed = std::env::var("YUZURI_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| {
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64 | 1
    });
    println!("YUZURI_SEED={seed}");
    common::Random(seed)
}

/// Each cut reads the recording up to the end mark once.
const END_MARK_STEP: usize = 30;

fn cut_at(of: &Recorded, at: usize) {
    let Some(Read { count, tail, broke, complete }) = read(of, &of.bytes[..at]) else {
        assert!(at < of.batches[0].0, "no recording any more at {at}");
        return;
    };
    assert!(broke.is_none(), "at {at}: {broke:?}");
    assert_eq!(count, whole_before(of, at), "at {at}");
    assert!(matches!(tail, Some(Tail::Truncated { .. })), "at {at}: {tail:?}");
    assert_eq!(complete, Some(false));
}

/// At random positions, at one of [`END_MARK_STEP`] bytes of the end mark, and at the ends of
/// batches and next to them. `recording_hostile` truncates a small recording at every byte.
#[test]
fn a_truncated_file_gives_its_whole_batches_and_is_reported() {
    let mut random = random();
    for of in [short(), long()] {
        let length = of.bytes.len();
        let mut cuts: Vec<usize> = (0..100).map(|_| random.below(length as u64) as usize).collect();
        cuts.extend(of.batches.iter().flat_map(|(end, _)| [end - 8, end - 1, *end, end + 1, end + 7]));
        let end_mark = of.batches[of.batches.len() - 2].0;
        let first = end_mark + random.below(END_MARK_STEP as u64) as usize;
        cuts.extend((first..length).step_by(END_MARK_STEP));
        println!("{} cuts of {length} bytes", cuts.len());
        cuts.retain(|at| *at < length);
        cuts.iter().for_each(|at| cut_at(of, *at));
        yuzuri_testnet::attack(
            "power loss: writes cut",
            cuts.len() as u64,
            "cuts",
            "whole batches are read, and the cut is reported",
        );
    }
}

/// A killed writer or a crash between two batches: the stream ends in good order, without an end
/// mark.
#[test]
fn a_stream_that_ends_between_batches_is_not_taken_for_a_finished_one() {
    let Recorded { bytes, batches, .. } = long();
    for (end, count) in &batches[..batches.len() - 1] {
        let mut bytes = bytes[..*end].to_vec();
        bytes.extend_from_slice(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
        let Read { count: found, tail, broke, complete } = read(long(), &bytes).unwrap();
        assert!(broke.is_none());
        assert_eq!((found, tail, complete), (*count, Some(Tail::Unfinished), Some(false)));
    }
}

/// Pages of 4 kB that the file system had allocated but not written read as zeros.
#[test]
fn pages_that_never_reached_the_disk_are_reported() {
    const PAGE: usize = 4096;
    let Recorded { bytes, batches, .. } = long();
    let mut random = random();
    for _ in 0..60 {
        let mut bytes = bytes.clone();
        let page = random.below((bytes.len() / PAGE) as u64 + 1) as usize * PAGE;
        let end = (page + PAGE).min(bytes.len());
        if bytes[page..end].iter().all(|byte| *byte == 0) {
            continue;
        }
        bytes[page..end].fill(0);
        let Some(Read { count, complete, .. }) = read(long(), &bytes) else {
            assert!(page < batches[0].0);
            continue;
        };
        assert!(count <= whole_before(long(), page), "page at {page}: {count} items");
        assert_eq!(complete, Some(false), "page at {page}");
    }
    yuzuri_testnet::attack(
        "power loss: pages never written",
        60,
        "pages",
        "at most what lies behind them, and it is reported",
    );
}

/// A flipped bit anywhere but in the head never changes a row: its batch and all later ones are
/// refused. In the head it invalidates either the head, or every checksum that continues from it.
#[test]
fn a_flipped_bit_never_changes_a_row() {
    let Recorded { bytes, batches, .. } = short();
    let mut random = random();
    let mut flips: Vec<usize> = (0..1000).map(|_| random.below(bytes.len() as u64 * 8) as usize).collect();
    // Every bit of a small batch's beginning, which holds lengths, and every one of the end mark
    // and the end-of-stream marker.
    let small = batches[batches.len() - 3].0;
    flips.extend((small * 8..(small + 64) * 8).chain((bytes.len() - 24) * 8..bytes.len() * 8));
    println!("{} flips in {} bytes", flips.len(), bytes.len());
    for flip in flips {
        let at = flip / 8;
        let mut bytes = bytes.clone();
        bytes[at] ^= 1 << (flip % 8);
        // The head is no longer a recording's, or a newer format's: that is reported.
        let Some(Read { count, tail, complete, .. }) = read(short(), &bytes) else { continue };
        assert!(count <= whole_before(short(), at), "bit {flip}: {count} items");
        assert_eq!(complete, Some(false), "bit {flip}: {tail:?}");
    }
}
