//! What several examples need: the largest flow of a capture.

use anyhow::Result;
use std::path::Path;
use yuzuri_capture::{Capture, Item, Options};
use yuzuri_infer::packets::{Ended, Tracker};

/// The flow of a capture with most data acknowledged, as its first `most_packets` segments show it; `None` without flows.
pub fn largest(path: &Path, most_packets: u64) -> Result<Option<Ended>> {
    let mut capture = Capture::open(path, &Options::default())?;
    let mut tracker = Tracker::new();
    let mut packets = 0;
    while let Some(item) = capture.next_item()? {
        if let Item::Segment(segment) = item {
            tracker.segment(segment);
            packets += 1;
            if packets >= most_packets {
                break;
            }
        }
    }
    let ended = tracker.live().filter_map(|slot| tracker.end(slot));
    Ok(ended.max_by_key(|ended| ended.main().map_or(0, |(_, course)| course.acked_bytes)))
}
