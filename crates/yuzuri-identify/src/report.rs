//! The results of a file.

use crate::input::Kind;
use crate::sequence::Sequence;
use crate::spill::Spilled;
use serde::Serialize;
use std::sync::Arc;
use yuzuri_capture::FileFacts;
use yuzuri_cca::Algorithm;
use yuzuri_infer::verdict::{Answer, Verdict};
use yuzuri_infer::window_trace::{Cause, WindowTrace};
use yuzuri_stats::{upper_median, upper_median_by};

/// The properties of a log of windows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LogFacts {
    /// Rows read: records of a flow.
    pub rows: u64,
    /// Rows that could not be read: truncated lines, invalid numbers.
    pub unreadable: u64,
    /// Whether the log ended within an entry; everything before that was read.
    pub cut: bool,
    /// Whether a recording was complete; `None` if its format does not say, and for logs.
    pub complete: Option<bool>,
    /// How a recording ended, as the predicate of a sentence about it.
    pub ending: Option<String>,
    /// Rows that the writer had lost.
    pub lost: u64,
}

/// Flows without a verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counted {
    /// All flows of the file.
    pub flows: u64,
    /// Flows none of whose directions had enough data.
    pub little_data: u64,
    /// Flows that the filter excluded.
    pub filtered: u64,
}

impl std::ops::AddAssign for Counted {
    fn add_assign(&mut self, more: Counted) {
        let Counted { flows, little_data, filtered } = more;
        self.flows += flows;
        self.little_data += little_data;
        self.filtered += filtered;
    }
}

/// A summary of a direction of a flow.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Rounds.
    pub rounds: u64,
    /// From the first to the last of them, s.
    pub seconds: f64,
    /// Reductions with a visible cause.
    pub losses: u64,
    /// Of these, retransmission timeouts.
    pub timeouts: u64,
    /// Rounds that the application limited.
    pub application_limited: u64,
    /// Rounds that the receiver's window limited.
    pub receiver_limited: u64,
    /// Rounds of loss recovery.
    pub in_recovery: u64,
    /// Median of the rounds' windows, segments.
    pub window_median: f32,
    /// The largest of these windows, segments.
    pub window_greatest: f32,
    /// Median of the rounds' mean round-trip times, µs.
    pub rtt_median_us: u32,
}

impl Summary {
    /// The summary of a window trace.
    pub fn of(window_trace: &WindowTrace) -> Summary {
        let rounds = &window_trace.rounds;
        let count = |f: &dyn Fn(&yuzuri_infer::window_trace::Round) -> bool| {
            rounds.iter().filter(|round| f(round)).count() as u64
        };
        let mut windows: Vec<f32> = rounds.iter().map(|round| round.window).collect();
        let mut rtts: Vec<u32> =
            rounds.iter().map(|round| round.rtt_mean_us).filter(|rtt| *rtt > 0).collect();
        Summary {
            rounds: rounds.len() as u64 + window_trace.rounds_left_out,
            seconds: window_trace.seconds(),
            losses: window_trace.reductions.len() as u64,
            timeouts: window_trace
                .reductions
                .iter()
                .filter(|reduction| reduction.cause == Cause::Timeout)
                .count() as u64,
            application_limited: count(&|round| round.limits.application),
            receiver_limited: count(&|round| round.limits.receiver),
            in_recovery: count(&|round| round.limits.recovery),
            window_median: upper_median_by(&mut windows, f32::total_cmp).unwrap_or(0.0),
            window_greatest: windows.into_iter().max_by(f32::total_cmp).unwrap_or(0.0),
            rtt_median_us: upper_median(&mut rtts).unwrap_or(0),
        }
    }
}

/// A direction of a flow and its result.
#[derive(Debug, Clone, Serialize)]
pub struct FlowReport {
    /// The verdict.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// The summary of its window trace.
    pub summary: Summary,
    /// The name given by the sender's kernel, if the file contains it.
    pub kernel_name: Option<String>,
    /// The segments, if requested.
    #[serde(skip)]
    pub sequence: Option<Box<Sequence>>,
}

/// A note on an answer that the sender's kernel contradicts. The kernel reports the module name:
/// BBR v3 is `bbr` as well.
fn contradicted(answer: &Answer, kernel: &str) -> Option<String> {
    let Answer::Named { name, set } = answer else { return None };
    let module = |name: &String| Algorithm::named(name).map(|algorithm| algorithm.facts().kernel_name);
    (Algorithm::named(kernel).is_some()
        && !set.iter().any(|name| name == kernel || module(name) == Some(kernel)))
    .then(|| format!("the window looks like {name}, but the sender's kernel reports {kernel}"))
}

impl FlowReport {
    /// The report of a verdict.
    pub fn new(mut verdict: Verdict, kernel_name: Option<String>) -> FlowReport {
        if let Some(because) = kernel_name.as_deref().and_then(|kernel| contradicted(&verdict.answer, kernel))
        {
            verdict.answer = Answer::Unknown { because };
        }
        FlowReport { summary: Summary::of(&verdict.window_trace), verdict, kernel_name, sequence: None }
    }

    /// The name, if there is one.
    pub fn name(&self) -> Option<&str> {
        match &self.verdict.answer {
            Answer::Named { name, .. } => Some(name),
            Answer::Unknown { .. } => None,
        }
    }

    /// Probability of the first candidate.
    pub fn probability(&self) -> Option<f64> {
        self.verdict.ranked.first().map(|ranked| ranked.probability)
    }

    /// CUBIC's C if that is the name, segments/s³: by replay, otherwise by least squares over
    /// cycles.
    pub fn cubic_c(&self) -> Option<f64> {
        let constants = &self.verdict.constants;
        self.name().and_then(Algorithm::named)?.cubic_constants()?;
        constants.cubic_c_replayed.map(|(c, _)| c).or(constants.cubic_c.map(|c| c.median))
    }

    /// Both ends as text; `None` if neither is known.
    pub fn ends(&self) -> Option<(String, String)> {
        (self.verdict.from.is_some() || self.verdict.to.is_some()).then(|| (self.from(), self.to()))
    }

    /// The sender, as text.
    pub fn from(&self) -> String {
        self.verdict.from.map_or("?".into(), |address| address.to_string())
    }

    /// The receiver, as text.
    pub fn to(&self) -> String {
        self.verdict.to.map_or("?".into(), |address| address.to_string())
    }
}

/// The results of a file.
#[derive(Debug, Clone, Default, Serialize)]
pub struct FileReport {
    /// Its name as given.
    pub path: String,
    /// Its kind; `None` if it could not be read.
    pub kind: Option<Kind>,
    /// The facts about a capture.
    pub capture: Option<FileFacts>,
    /// The facts about a log or recording.
    pub log: Option<LogFacts>,
    /// Flows without a verdict.
    pub counted: Counted,
    /// Why it could not be read completely.
    pub error: Option<String>,
    /// Whether the user ended it before the file's end.
    pub stopped: bool,
    /// Flows that were written to disk after their verdict, instead of `flows`
    /// ([`Options::spill`](crate::analyse::Options::spill)).
    #[serde(skip)]
    pub spilled: Option<Arc<Spilled>>,
    /// Directions of flows, in the order in which the flows began. The last field, because the
    /// document writes them one by one.
    pub flows: Vec<FlowReport>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(set: &[&str]) -> Answer {
        Answer::Named { name: set[0].to_owned(), set: set.iter().map(|name| (*name).to_owned()).collect() }
    }

    #[test]
    fn a_name_that_the_kernel_contradicts_is_not_certain() {
        let because = contradicted(&named(&["bbr3"]), "cubic");
        assert!(because.is_some_and(|because| because.contains("bbr3") && because.contains("cubic")));
        assert_eq!(contradicted(&named(&["lp", "reno"]), "reno"), None, "it is in the set");
        assert_eq!(contradicted(&named(&["bbr3"]), "bbr"), None, "BBR v3 is `bbr` to its kernel");
        assert_eq!(
            contradicted(&named(&["cubic"]), "a_module_of_somebody"),
            None,
            "no algorithm that is known here"
        );
        assert_eq!(contradicted(&Answer::Unknown { because: String::new() }, "cubic"), None);
    }
}
