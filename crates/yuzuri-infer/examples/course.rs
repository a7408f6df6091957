//! The course of a capture's largest flow as JSON, compressed: `course CAPTURE INTO.json.zst`. Makes the fixtures of tests/kernel.rs.

use anyhow::{Context, Result};
use yuzuri_capture::{Capture, Item, Options};
use yuzuri_infer::packets::Tracker;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(from), Some(into)) = (arguments.next(), arguments.next()) else {
        anyhow::bail!("usage: course CAPTURE INTO.json.zst");
    };
    let mut capture = Capture::open(&from, &Options::default())?;
    let mut tracker = Tracker::new();
    while let Some(item) = capture.next_item()? {
        if let Item::Segment(segment) = item {
            tracker.segment(segment);
        }
    }
    let ended = tracker.live().filter_map(|slot| tracker.end(slot));
    let courses = ended.flat_map(|ended| ended.courses).flatten();
    let course = courses.max_by_key(|course| course.acked_bytes).context("no flow with data")?;
    let json = serde_json::to_vec(&course)?;
    std::fs::write(&into, zstd::encode_all(json.as_slice(), 19)?)?;
    Ok(())
}
