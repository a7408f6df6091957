//! How fast a capture is read and its windows are rebuilt: `rebuild FILE [TIMES [THREADS]]` prints packets, seconds and packets per second of
//! each time. The flows are spread over THREADS (1) beside the one that reads; with one, that one does all.

use anyhow::{Context, Result};
use std::time::Instant;
use yuzuri_capture::{Capture, FlowKey, FlowSlot, Options, Segment};
use yuzuri_infer::packets::{Part, Tracker, spread};

/// Counts what comes of its flows.
#[derive(Default)]
struct Count {
    tracker: Tracker,
    flows: u64,
    rounds: usize,
}

impl Part for Count {
    fn begin(&mut self, _: FlowSlot, _: FlowKey) {}

    fn segment(&mut self, segment: &Segment) {
        self.tracker.segment(segment);
    }

    fn end(&mut self, flow: FlowSlot) {
        self.flows += 1;
        let ended = self.tracker.end(flow);
        let courses = ended.iter().flat_map(|ended| ended.courses.iter().flatten());
        self.rounds += courses.map(|course| course.rounds.len()).sum::<usize>();
    }

    fn finish(&mut self) {
        for flow in self.tracker.live() {
            self.end(flow);
        }
    }
}

fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let file = words.next().context("usage: rebuild FILE [TIMES [THREADS]]")?;
    let times: u32 = words.next().map_or(Ok(1), |n| n.parse())?;
    let threads: usize = words.next().map_or(Ok(1), |n| n.parse())?;
    for _ in 0..times {
        let begun = Instant::now();
        let mut capture = Capture::open(&file, &Options::default())?;
        let mut parts: Vec<Count> = (0..threads.max(1)).map(|_| Count::default()).collect();
        spread(&mut capture, &mut parts, || true)?;
        let flows: u64 = parts.iter().map(|part| part.flows).sum();
        let rounds: usize = parts.iter().map(|part| part.rounds).sum();
        let packets = capture.facts().packets;
        let seconds = begun.elapsed().as_secs_f64();
        println!(
            "{packets} packets {seconds:.3} s {:.0} packets/s {flows} flows {rounds} rounds",
            packets as f64 / seconds
        );
    }
    Ok(())
}
