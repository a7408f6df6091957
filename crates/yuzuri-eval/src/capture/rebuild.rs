//! Measures how fast a capture is read and its windows are rebuilt.

use anyhow::Result;
use std::path::PathBuf;
use std::time::Instant;
use yuzuri_capture::{Capture, FlowKey, FlowSlot, Options, Partition, Segment};
use yuzuri_infer::packets::{Part, Tracker, read_each, spread};

/// Counts the results of its flows.
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

#[derive(clap::Args)]
pub struct Args {
    file: PathBuf,
    /// Number of repetitions
    #[arg(default_value_t = 1)]
    times: u32,
    /// Threads, each of which reads the file and tracks its part of the flows
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    threads: u32,
    /// One thread reads and distributes to the others, as with a stream
    #[arg(long)]
    one_reader: bool,
}

/// Prints packets, seconds and packets per second of each repetition.
pub fn run(args: &Args) -> Result<()> {
    for _ in 0..args.times {
        let begun = Instant::now();
        let mut parts: Vec<Count> = (0..args.threads).map(|_| Count::default()).collect();
        let readers = if args.one_reader { 1 } else { args.threads };
        let captures = Partition::each(readers)
            .map(|partition| Capture::open(&args.file, &Options { partition, ..Options::default() }));
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
