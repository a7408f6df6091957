//! How fast a capture is read and its windows are rebuilt: `rebuild FILE [TIMES]` prints packets, seconds and packets per second of each time.

use anyhow::{Context, Result};
use std::time::Instant;
use yuzuri_capture::{Capture, Item, Options};
use yuzuri_infer::packets::Tracker;

fn main() -> Result<()> {
    let file = std::env::args().nth(1).context("usage: rebuild FILE [TIMES]")?;
    let times: u32 = std::env::args().nth(2).map_or(Ok(1), |n| n.parse())?;
    for _ in 0..times {
        let begun = Instant::now();
        let mut capture = Capture::open(&file, &Options::default())?;
        let mut tracker = Tracker::new();
        let (mut flows, mut rounds) = (0_u64, 0_usize);
        let mut over = |ended: Option<yuzuri_infer::packets::Ended>| {
            flows += 1;
            rounds += ended
                .iter()
                .flat_map(|ended| ended.courses.iter().flatten())
                .map(|course| course.rounds.len())
                .sum::<usize>();
        };
        while let Some(item) = capture.next_item()? {
            match item {
                Item::Segment(segment) => tracker.segment(segment),
                Item::Ended(slot) => over(tracker.end(slot)),
            }
        }
        for slot in tracker.live() {
            over(tracker.end(slot));
        }
        let packets = capture.facts().packets;
        let seconds = begun.elapsed().as_secs_f64();
        println!(
            "{packets} packets {seconds:.3} s {:.0} packets/s {flows} flows {rounds} rounds",
            packets as f64 / seconds
        );
    }
    Ok(())
}
