//! A file, from its bytes to its verdicts.

use crate::error::IdentifyError;
use crate::input::{self, Input, Kind, Whole};
use crate::known;
use crate::live::{Live, Pace};
use crate::report::{Counted, FileReport, FlowReport};
use std::io::Read;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use yuzuri_capture::{Capture, End, FlowKey, FlowSlot, Item};
use yuzuri_infer::course::Course;
use yuzuri_infer::identify;
use yuzuri_infer::packets::{Ended, Tracker};
use yuzuri_signals::stopped;
use yuzuri_trace::{Filter, Flow};

/// How files are analysed.
#[derive(Debug, Clone)]
pub struct Options {
    /// Segments with payload that a direction must have for a verdict.
    pub least_segments: u64,
    /// Which flows; of a capture the sender is the local end.
    pub filter: Filter,
    /// Whether the rounds are kept once the verdict is made: an hour of them takes megabytes.
    pub rounds: bool,
    /// Who is told of verdicts while the file is read.
    pub live: Option<Live>,
}

impl Default for Options {
    fn default() -> Options {
        Options { least_segments: 100, filter: Filter::default(), rounds: true, live: None }
    }
}

/// What became of a file.
#[derive(Debug)]
pub enum Outcome {
    /// It was read, as far as its report says.
    Read(Box<FileReport>),
    /// It is of no kind that is read.
    NotOurs(IdentifyError),
}

/// Analyses a file, standard input where the path is `-`. `tell` learns how many bytes are read; once `stop` is set, the rest of the file is
/// left unread.
pub fn analyse(path: &Path, options: &Options, stop: &AtomicBool, tell: &(dyn Fn(u64) + Sync)) -> Outcome {
    let mut report = FileReport { path: input::name(path), ..FileReport::default() };
    let input = match Input::open(path, tell) {
        Ok(input) => input,
        Err(error) => {
            report.error = Some(error.to_string());
            return Outcome::Read(Box::new(report));
        }
    };
    report.kind = input.kind;
    let read = match input.kind {
        Some(Kind::Capture) => capture(input.whole, &mut report, options, stop),
        Some(kind) => known::read(kind, input.whole, &mut report, options, stop),
        None => match Capture::new(input.whole, &report.path, &yuzuri_capture::Options::default()) {
            Err(error) => return Outcome::NotOurs(IdentifyError::NotOurs(error)),
            // Its magic number came late: it is one after all.
            Ok(capture) => segments(capture, &mut report, options, stop),
        },
    };
    report.error = read.err().map(|error| error.to_string());
    let start =
        |flow: &FlowReport| flow.verdict.course.rounds.first().map_or(i64::MAX, |round| round.start_ns);
    report.flows.sort_by_key(|flow| (start(flow), flow.verdict.from, flow.verdict.to));
    if !options.rounds {
        for flow in &mut report.flows {
            flow.verdict.course.rounds = Vec::new();
            flow.verdict.foreseen = Vec::new();
        }
    }
    Outcome::Read(Box::new(report))
}

/// A direction of a flow, ready for a verdict.
pub(crate) fn judge(course: Course, flow: &Flow, seen: Option<yuzuri_infer::packets::Seen>) -> FlowReport {
    let name = Some(flow.congestion_control.clone()).filter(|name| !name.is_empty());
    let known = |address: std::net::SocketAddr| Some(address).filter(|address| address.port() > 0);
    FlowReport::new(identify(course, seen, known(flow.local), known(flow.remote)), name)
}

fn capture(
    whole: Whole<'_>,
    report: &mut FileReport,
    options: &Options,
    stop: &AtomicBool,
) -> Result<(), IdentifyError> {
    let capture = Capture::new(whole, &report.path, &yuzuri_capture::Options::default());
    segments(capture.map_err(IdentifyError::NotOurs)?, report, options, stop)
}

fn segments<R: Read>(
    mut capture: Capture<R>,
    report: &mut FileReport,
    options: &Options,
    stop: &AtomicBool,
) -> Result<(), IdentifyError> {
    let mut tracker = Tracker::new();
    let mut sorter = Sorter { options, counted: Counted::default(), flows: Vec::new(), states: Vec::new() };
    let mut count = 0u64;
    let mut result = Ok(());
    loop {
        match capture.next_item() {
            Ok(Some(Item::Segment(&segment))) => {
                count += 1;
                if count.is_multiple_of(1 << 12) && stopped(stop) {
                    report.stopped = true;
                    break;
                }
                if segment.first {
                    let key = capture.key(segment.flow);
                    sorter.begin(segment.flow.index(), key);
                }
                if sorter.states[segment.flow.index()].chosen {
                    tracker.segment(&segment);
                    if let Some(live) = &options.live {
                        sorter.look(live, &tracker, segment.flow, capture.key(segment.flow));
                    }
                }
            }
            Ok(Some(Item::Ended(slot))) => {
                if let Some(ended) = tracker.end(slot) {
                    sorter.end(ended, capture.key(slot));
                }
            }
            Ok(None) => break,
            Err(error) => {
                result = Err(error.into());
                break;
            }
        }
    }
    for slot in tracker.live() {
        if let Some(ended) = tracker.end(slot) {
            sorter.end(ended, capture.key(slot));
        }
    }
    report.capture = Some(capture.facts().clone());
    report.counted = sorter.counted;
    report.flows = sorter.flows;
    result
}

/// Decides which flows of a capture get a verdict.
struct Sorter<'a> {
    options: &'a Options,
    counted: Counted,
    flows: Vec<FlowReport>,
    /// By slot.
    states: Vec<State>,
}

/// What is known of a flow beside its segments.
#[derive(Default)]
struct State {
    /// Whether the filter lets it in.
    chosen: bool,
    /// By end.
    paces: [Pace; 2],
}

impl Sorter<'_> {
    fn begin(&mut self, slot: usize, key: Option<FlowKey>) {
        self.counted.flows += 1;
        let chosen = key.is_some_and(|key| {
            [End::Lower, End::Higher].into_iter().any(|end| self.chooses(&direction(&key, end)))
        });
        self.counted.filtered += u64::from(!chosen);
        if slot >= self.states.len() {
            self.states.resize_with(slot + 1, State::default);
        }
        self.states[slot] = State { chosen, ..State::default() };
    }

    /// Judges the flow as it stands, where that is due.
    fn look(&mut self, live: &Live, tracker: &Tracker, slot: FlowSlot, key: Option<FlowKey>) {
        let paces = &mut self.states[slot.index()].paces;
        let rounds = tracker.rounds(slot);
        let [lower, higher] = rounds;
        // Both are asked: who is asked and due has had its turn.
        if !(paces[0].is_due(lower) | paces[1].is_due(higher)) {
            return;
        }
        let (Some(now), Some(key)) = (tracker.now(slot), key) else { return };
        for ((end, course), pace) in [End::Lower, End::Higher].into_iter().zip(now.courses).zip(paces) {
            let flow = direction(&key, end);
            let enough = course.filter(|course| course.segments >= self.options.least_segments.max(1));
            if let Some(course) = enough.filter(|_| self.options.filter.chooses(&flow, |_, _| false)) {
                pace.tell(live, judge(course, &flow, Some(now.seen)));
            }
        }
    }

    fn chooses(&self, flow: &Flow) -> bool {
        self.options.filter.chooses(flow, |_, _| false)
    }

    fn end(&mut self, ended: Ended, key: Option<FlowKey>) {
        let Some(key) = key else { return };
        let mut enough = false;
        for (end, course) in [End::Lower, End::Higher].into_iter().zip(ended.courses) {
            let Some(course) = course.filter(|course| course.segments >= self.options.least_segments.max(1))
            else {
                continue;
            };
            enough = true;
            let flow = direction(&key, end);
            if self.chooses(&flow) {
                let mut report = judge(course, &flow, Some(ended.seen));
                if !self.options.rounds {
                    // The first stays, by which directions are sorted.
                    report.verdict.course.rounds.truncate(1);
                    report.verdict.course.rounds.shrink_to_fit();
                    report.verdict.foreseen = Vec::new();
                }
                self.flows.push(report);
            }
        }
        self.counted.little_data += u64::from(!enough);
    }
}

/// A direction of a flow: the sender is its local end.
fn direction(key: &FlowKey, end: End) -> Flow {
    Flow { local: key.end(end), remote: key.end(end.other()), ..Flow::default() }
}
