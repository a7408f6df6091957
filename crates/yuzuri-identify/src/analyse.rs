//! Analyses a file, from its bytes to its verdicts.

use crate::error::IdentifyError;
use crate::input::{self, Input, Kind};
use crate::known;
use crate::live::{Live, VerdictSchedule};
use crate::report::{Counted, FileReport, FlowReport};
use crate::sequence::{MAX_MARKS, Sequences};
use crate::spill::{Spill, Spilled};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use yuzuri_capture::{Capture, End, FlowKey, FlowSlot, Partition, Segment};
use yuzuri_exit::stopped;
use yuzuri_infer::identify;
use yuzuri_infer::packets::{Ended, MAX_READERS, Part, Tracker, read_each, spread};
use yuzuri_infer::window_trace::WindowTrace;
use yuzuri_trace::{Filter, Flow};

/// How files are analysed.
#[derive(Debug, Clone)]
pub struct Options {
    /// Segments with payload that a direction must have for a verdict.
    pub min_segments: u64,
    /// The flows to analyse; in a capture, the sender counts as the local end.
    pub filter: Filter,
    /// Whether the rounds are kept after the verdict: an hour of them takes megabytes.
    pub rounds: bool,
    /// Whether flows of captures are written to disk as JSON once they are judged: for callers that
    /// only need the document.
    pub spill: bool,
    /// Whether segments are kept individually, for time-sequence graphs.
    pub sequences: bool,
    /// Threads that share the flows of a capture. If possible, each of a few threads reads the
    /// capture; a compressed one or a pipe is read by one thread, which distributes it.
    pub threads: usize,
    /// The receiver of verdicts while the file is read; a capture is then read by one thread.
    pub live: Option<Live>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            min_segments: 100,
            filter: Filter::default(),
            rounds: true,
            spill: false,
            sequences: false,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            live: None,
        }
    }
}

/// The result for a file.
#[derive(Debug)]
pub enum Outcome {
    /// It was read, completely or as far as its report states.
    Read(Box<FileReport>),
    /// It has no supported format.
    NotOurs(IdentifyError),
}

/// Analyses a file, or standard input if the path is `-`. `progress` receives the number of bytes
/// read; once `stop` is set, the rest of the file is not read.
pub fn analyse(
    path: &Path,
    options: &Options,
    stop: &AtomicBool,
    progress: &(dyn Fn(u64) + Sync),
) -> Outcome {
    let mut report = FileReport { path: input::name(path), ..FileReport::default() };
    match read(path, &mut report, options, stop, progress) {
        Ok(()) => {}
        Err(_) if stopped(stop) => report.stopped = true,
        Err(error @ IdentifyError::NotOurs(_)) if report.kind.is_none() => return Outcome::NotOurs(error),
        Err(error) => report.error = Some(error.to_string()),
    }
    let start =
        |flow: &FlowReport| flow.verdict.window_trace.rounds.first().map_or(i64::MAX, |round| round.start_ns);
    report.flows.sort_by_key(|flow| (start(flow), flow.verdict.from, flow.verdict.to));
    if !options.rounds {
        for flow in &mut report.flows {
            flow.verdict.window_trace.rounds = Vec::new();
            flow.verdict.predicted = Vec::new();
        }
    }
    Outcome::Read(Box::new(report))
}

fn read(
    path: &Path,
    report: &mut FileReport,
    options: &Options,
    stop: &AtomicBool,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<(), IdentifyError> {
    let input = Input::open(path, stop, progress)?;
    report.kind = input.kind;
    match input.kind {
        // ERF has no magic number, and that of a compressed capture may come late.
        Some(Kind::Capture) | None => captures(input, report, options),
        Some(kind) => known::read(kind, input.whole, report, options),
    }
}

/// The verdict on a direction of a flow.
pub(crate) fn flow_report(
    window_trace: WindowTrace,
    flow: &Flow,
    seen: Option<yuzuri_infer::packets::Seen>,
) -> FlowReport {
    let name = Some(flow.congestion_control.clone()).filter(|name| !name.is_empty());
    let known = |address: std::net::SocketAddr| Some(address).filter(|address| address.port() > 0);
    FlowReport::new(identify(window_trace, seen, known(flow.local), known(flow.remote)), name)
}

fn captures(input: Input<'_>, report: &mut FileReport, options: &Options) -> Result<(), IdentifyError> {
    // For a live receiver, verdicts are made as the packets arrive: on the thread that reads them.
    let threads = if options.live.is_some() { 1 } else { options.threads.max(1) };
    let mut wholes = input.again(threads.min(MAX_READERS) - 1);
    wholes.insert(0, input.whole);
    let partitions = Partition::each(wholes.len() as u32);
    let captures = wholes.into_iter().zip(partitions).map(|(whole, partition)| {
        let options = yuzuri_capture::Options { partition, ..yuzuri_capture::Options::default() };
        Capture::new(whole, &report.path, &options)
    });
    let mut captures = captures.collect::<Result<Vec<_>, _>>().map_err(IdentifyError::NotOurs)?;
    // ERF has no magic number: only here it is known to be a capture.
    report.kind = Some(Kind::Capture);
    let number = if captures.len() > 1 { captures.len() } else { threads };
    let mut parts: Vec<Sorter<'_>> = (0..number).map(|_| Sorter::new(options)).collect();
    let read = match &mut captures[..] {
        [capture] => spread(capture, &mut parts),
        captures => read_each(captures, &mut parts),
    };
    report.capture = captures.iter().map(|capture| capture.facts().clone()).reduce(|mut all, share| {
        all.add_share(&share);
        all
    });
    let mut spills = Vec::new();
    for part in parts {
        report.counted += part.counted;
        report.flows.extend(part.flows);
        spills.extend(part.spill);
    }
    if options.spill {
        report.spilled = Some(Arc::new(Spilled::of(spills)?));
    }
    Ok(read?)
}

/// Follows flows of a capture, and decides which of them get a verdict.
struct Sorter<'a> {
    options: &'a Options,
    tracker: Tracker,
    counted: Counted,
    flows: Vec<FlowReport>,
    /// The alternative destination of flows.
    spill: Option<Spill>,
    /// By slot.
    states: Vec<Option<State>>,
    /// The number of further marks that time-sequence graphs may keep.
    room: usize,
}

/// The state of a flow that passes the filter, in addition to its segments.
struct State {
    key: FlowKey,
    /// By end.
    paces: [VerdictSchedule; 2],
    sequences: Option<Box<Sequences>>,
}

impl Part for Sorter<'_> {
    fn begin(&mut self, slot: FlowSlot, key: FlowKey) {
        self.counted.flows += 1;
        let chosen = [End::Lower, End::Higher].into_iter().any(|end| self.matches(&direction(&key, end)));
        self.counted.filtered += u64::from(!chosen);
        if slot.index() >= self.states.len() {
            self.states.resize_with(slot.index() + 1, || None);
        }
        let sequences = self.options.sequences.then(Box::default);
        self.states[slot.index()] = chosen.then(|| State { key, paces: Default::default(), sequences });
    }

    fn segment(&mut self, segment: &Segment) {
        let Some(state) = &mut self.states[segment.flow.index()] else { return };
        if let Some(sequences) = &mut state.sequences {
            sequences.add(segment, &mut self.room);
        }
        self.tracker.segment(segment);
        if let Some(live) = &self.options.live {
            self.update_live(live, segment.flow);
        }
    }

    fn end(&mut self, slot: FlowSlot) {
        let state = self.states.get_mut(slot.index()).and_then(Option::take);
        if let (Some(ended), Some(State { key, sequences, .. })) = (self.tracker.end(slot), state) {
            self.report_both_directions(ended, &key, sequences);
        }
    }

    fn finish(&mut self) {
        for slot in self.tracker.live() {
            self.end(slot);
        }
    }
}

impl<'a> Sorter<'a> {
    fn new(options: &'a Options) -> Sorter<'a> {
        Sorter {
            options,
            tracker: Tracker::new(),
            counted: Counted::default(),
            flows: Vec::new(),
            spill: options.spill.then(|| Spill::new(options.rounds)),
            states: Vec::new(),
            room: if options.sequences { MAX_MARKS } else { 0 },
        }
    }

    /// Evaluates the flow's present state, if that is due.
    fn update_live(&mut self, live: &Live, slot: FlowSlot) {
        let Some(State { key, paces, .. }) = &mut self.states[slot.index()] else { return };
        let [lower, higher] = self.tracker.rounds(slot);
        // Evaluate both: each evaluation counts as its turn.
        if !(paces[0].is_due(lower) | paces[1].is_due(higher)) {
            return;
        }
        let Some(now) = self.tracker.now(slot) else { return };
        for ((end, window_trace), pace) in
            [End::Lower, End::Higher].into_iter().zip(now.window_traces).zip(paces)
        {
            let flow = direction(key, end);
            let enough =
                window_trace.filter(|window_trace| window_trace.segments >= self.options.min_segments.max(1));
            if let Some(window_trace) = enough.filter(|_| self.options.filter.matches(&flow, |_, _| false)) {
                pace.report_change(live, flow_report(window_trace, &flow, Some(now.seen)));
            }
        }
    }

    fn matches(&self, flow: &Flow) -> bool {
        self.options.filter.matches(flow, |_, _| false)
    }

    fn report_both_directions(&mut self, ended: Ended, key: &FlowKey, mut sequences: Option<Box<Sequences>>) {
        let mut enough = false;
        let held = sequences.as_ref().map_or(0, |sequences| sequences.held());
        let mut kept = 0;
        for (end, window_trace) in [End::Lower, End::Higher].into_iter().zip(ended.window_traces) {
            let Some(window_trace) =
                window_trace.filter(|window_trace| window_trace.segments >= self.options.min_segments.max(1))
            else {
                continue;
            };
            enough = true;
            let flow = direction(key, end);
            if self.matches(&flow) {
                let mut report = flow_report(window_trace, &flow, Some(ended.seen));
                report.sequence = sequences.as_mut().map(|sequences| Box::new(sequences.take(end)));
                kept += report.sequence.as_ref().map_or(0, |sequence| sequence.marks.len());
                if let Some(spill) = &mut self.spill {
                    spill.push(report);
                    continue;
                }
                if !self.options.rounds {
                    // Keep the first one, by which directions are sorted.
                    report.verdict.window_trace.rounds.truncate(1);
                    report.verdict.window_trace.rounds.shrink_to_fit();
                    report.verdict.predicted = Vec::new();
                }
                self.flows.push(report);
            }
        }
        // Marks that are not drawn make room for others.
        self.room += held - kept;
        self.counted.little_data += u64::from(!enough);
    }
}

/// A direction of a flow: the sender is its local end.
fn direction(key: &FlowKey, end: End) -> Flow {
    Flow { local: key.end(end), remote: key.end(end.other()), ..Flow::default() }
}
