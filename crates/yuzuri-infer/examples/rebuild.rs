//! How fast a capture is read and its windows are rebuilt: `rebuild FILE [TIMES [THREADS]]` prints packets, seconds and packets per second of
//! each time. THREADS (1) each read the file and follow their share of its flows; `-THREADS`: one reads, and hands on to them, as what cannot be read twice is read.

use anyhow::{Context, Result};
use std::time::Instant;
use yuzuri_capture::{Capture, FlowKey, FlowSlot, Options, Partition, Segment};
use yuzuri_infer::packets::{Part, Tracker, read_each, spread};

/// That of `yuzuri-identify`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

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
        let window_traces = ended.iter().flat_map(|ended| ended.window_traces.iter().flatten());
        self.rounds += window_traces.map(|window_trace| window_trace.rounds.len()).sum::<usize>();
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
    let threads: isize = words.next().map_or(Ok(1), |n| n.parse())?;
    for _ in 0..times {
        let begun = Instant::now();
        let number = threads.unsigned_abs().max(1);
        let mut parts: Vec<Count> = (0..number).map(|_| Count::default()).collect();
        let readers = if threads < 0 { 1 } else { number };
        let captures = Partition::each(readers as u32)
            .map(|partition| Capture::open(&file, &Options { partition, ..Options::default() }));
        let mut captures: Vec<_> = captures.collect::<Result<_, _>>()?;
        match &mut captures[..] {
            [capture] => spread(capture, &mut parts)?,
            captures => read_each(captures, &mut parts)?,
        };
        let flows: u64 = parts.iter().map(|part| part.flows).sum();
        let rounds: usize = parts.iter().map(|part| part.rounds).sum();
        let packets = captures[0].facts().packets;
        let seconds = begun.elapsed().as_secs_f64();
        println!(
            "{packets} packets {seconds:.3} s {:.0} packets/s {flows} flows {rounds} rounds",
            packets as f64 / seconds
        );
    }
    Ok(())
}
