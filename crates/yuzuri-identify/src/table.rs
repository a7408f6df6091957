//! Verdicts as a table for a terminal, and a single one as text.

use crate::report::{FileReport, FlowReport};
use console::{measure_text_width, truncate_str};
use std::fmt::Write as _;
use yuzuri_infer::verdict::Answer;
use yuzuri_infer::window_trace::CapturePoint;
use yuzuri_stats::counted;
use yuzuri_trace::visible;

/// The rows of a file, without its rounds.
#[derive(Debug, Clone, Default)]
struct Section {
    head: String,
    rows: Vec<[String; COLUMNS.len()]>,
}

/// A column: its header, whether it is numeric, and its priority for being omitted from a narrow
/// table (the highest first).
struct Column {
    head: &'static str,
    number: bool,
    drop: u8,
}

const fn column(head: &'static str, number: bool, drop: u8) -> Column {
    Column { head, number, drop }
}

const COLUMNS: [Column; 11] = [
    column("from", false, 0),
    column("to", false, 1),
    column("name", false, 0),
    column("p", true, 0),
    column("beta", true, 2),
    column("C", true, 3),
    column("rounds", true, 5),
    column("losses", true, 4),
    column("seconds", true, 6),
    column("watched", false, 7),
    column("", false, 0),
];
/// The index of the column that takes the remaining width: the algorithms not distinguished, or why
/// there is no name.
const WORDS: usize = COLUMNS.len() - 1;
/// The minimum width of that column; below it, other columns are omitted.
const WORDS_WIDTH: usize = 16;

/// Collects reports, and then prints them.
#[derive(Debug, Default)]
pub struct Table {
    sections: Vec<Section>,
    /// The single flow, as text, as long as there is only one.
    single: Option<String>,
    flows: usize,
}

impl Table {
    /// Adds a file.
    pub fn add(&mut self, report: &FileReport) {
        if report.error.is_some() && report.flows.is_empty() && report.kind.is_none() {
            return;
        }
        let mut section = Section { head: head(report), rows: Vec::new() };
        for flow in &report.flows {
            section.rows.push(row(flow));
            self.flows += 1;
            self.single = (self.flows == 1).then(|| words(flow));
        }
        self.sections.push(section);
    }

    /// The table; at most `width` columns wide, if given.
    pub fn text(&self, width: Option<usize>) -> String {
        let mut text = String::new();
        let rows = || self.sections.iter().flat_map(|section| &section.rows);
        let mut shown: Vec<usize> = (0..COLUMNS.len())
            .filter(|&place| {
                let filled = rows().any(|row| !row[place].is_empty() && row[place] != NOTHING);
                filled || !["C", "", "beta"].contains(&COLUMNS[place].head)
            })
            .collect();
        let widest = |place: usize| {
            let cells = rows().map(|row| measure_text_width(&row[place]));
            cells.max().unwrap_or(0).max(COLUMNS[place].head.len())
        };
        let widths: [usize; COLUMNS.len()] = std::array::from_fn(widest);
        let fixed = |shown: &[usize]| -> usize {
            shown.iter().filter(|&&place| place != WORDS).map(|&place| widths[place] + 2).sum()
        };
        let room = width.unwrap_or(usize::MAX);
        let wanted = if shown.contains(&WORDS) { WORDS_WIDTH.min(widths[WORDS]) } else { 0 };
        while fixed(&shown).saturating_add(wanted) > room {
            let Some(&last) = shown.iter().max_by_key(|&&place| COLUMNS[place].drop) else { break };
            if COLUMNS[last].drop == 0 {
                break;
            }
            shown.retain(|&place| place != last);
        }
        let left = room.saturating_sub(fixed(&shown)).max(WORDS_WIDTH);
        let line = |cells: &dyn Fn(usize) -> String| {
            let mut line = String::new();
            for &place in &shown {
                let cell = cells(place);
                let gap = " ".repeat(widths[place].saturating_sub(measure_text_width(&cell)));
                match (place, COLUMNS[place].number) {
                    (WORDS, _) => line += &truncate_str(&cell, left, "…"),
                    (_, true) => line += &format!("{gap}{cell}  "),
                    (_, false) => line += &format!("{cell}{gap}  "),
                }
            }
            line.trim_end().to_owned() + "\n"
        };
        let header = line(&|place| COLUMNS[place].head.to_owned());
        let several = self.sections.len() > 1;
        for (number, section) in self.sections.iter().enumerate() {
            if number > 0 && (!section.rows.is_empty() || !self.sections[number - 1].rows.is_empty()) {
                text.push('\n');
            }
            text += &truncate_str(&section.head, room, "…");
            text.push('\n');
            if !section.rows.is_empty() && (number == 0 || !several || number % 20 == 0) {
                text += &header;
            }
            for row in &section.rows {
                text += &line(&|place| row[place].clone());
            }
        }
        if let Some(single) = &self.single {
            text.push('\n');
            text += &wrapped(single, width);
        }
        // The files' text is untrusted.
        visible(&text).into_owned()
    }
}

const NOTHING: &str = "-";

/// A file on one line.
fn head(report: &FileReport) -> String {
    let mut text = format!("{}: ", report.path);
    let Some(kind) = report.kind else { return text + "not read" };
    if let Some(facts) = &report.capture {
        let _ = write!(text, "{} with {}", format_words(facts), counted(facts.packets, "packet"));
    } else {
        let rows = report.log.as_ref().map_or(0, |log| log.rows);
        let _ = write!(text, "{}, {}", kind.words(), counted(rows, "row"));
    }
    let counted = &report.counted;
    let _ = write!(text, ", {}", yuzuri_stats::counted(counted.flows, "TCP flow"));
    if counted.little_data > 0 {
        let _ = write!(text, ", {} with little data", counted.little_data);
    }
    if counted.filtered > 0 {
        let _ = write!(text, ", {} not selected", counted.filtered);
    }
    for anomaly in anomalies(report) {
        let _ = write!(text, "; {anomaly}");
    }
    text
}

fn format_words(facts: &yuzuri_capture::FileFacts) -> &'static str {
    match facts.format {
        yuzuri_capture::Format::PcapNg => "pcapng",
        yuzuri_capture::Format::Snoop => "snoop",
        yuzuri_capture::Format::Erf => "ERF",
        yuzuri_capture::Format::PcapMicro
        | yuzuri_capture::Format::PcapNano
        | yuzuri_capture::Format::PcapModified => "pcap",
    }
}

/// A file's anomalies, as text.
pub fn anomalies(report: &FileReport) -> Vec<String> {
    let mut odd = Vec::new();
    if let Some(facts) = &report.capture {
        use yuzuri_capture::Ending;
        match facts.ending {
            Ending::Cut { offset_bytes } => odd.push(format!("cut within a packet, at byte {offset_bytes}")),
            Ending::BadCompression { offset_bytes } => {
                odd.push(format!(
                    "its compression ends early or is damaged, after {}",
                    counted(offset_bytes, "byte")
                ));
            }
            Ending::Damaged { offset_bytes, .. } => odd.push(format!("damaged at byte {offset_bytes}")),
            Ending::Open | Ending::Whole => {}
        }
        if facts.clock.steps_back > 0 {
            let step_ms = facts.clock.largest_step_back_ns as f64 / 1e6;
            let times = counted(facts.clock.steps_back, "time");
            odd.push(format!("the clock went back {times}, by up to {step_ms:.3} ms"));
        }
        let skipped = facts.skipped.total();
        if skipped > 0 && skipped * 2 > facts.packets {
            odd.push(format!("{} not TCP or not readable", counted(skipped, "packet")));
        }
        if let Some(drops) = facts.capture_drops.filter(|drops| *drops > 0) {
            odd.push(format!("{} lost by the capturing machine", counted(drops, "packet")));
        }
    }
    if let Some(log) = &report.log {
        if log.unreadable > 0 {
            odd.push(format!("{} could not be read", counted(log.unreadable, "row")));
        }
        match (&log.ending, log.complete) {
            (Some(ending), Some(false) | None) => odd.push(ending.clone()),
            _ if log.cut => odd.push("its end is missing".into()),
            _ => {}
        }
        if log.lost > 0 {
            odd.push(format!("{} lost while it was written", counted(log.lost, "row")));
        }
    }
    if report.stopped {
        odd.push("stopped before its end".into());
    }
    odd
}

/// Where a flow was observed, as one word.
pub fn capture_point(capture_point: CapturePoint) -> &'static str {
    match capture_point {
        CapturePoint::Sender => "sender",
        CapturePoint::Receiver => "receiver",
        CapturePoint::Middle => "middle",
        CapturePoint::Kernel => "kernel",
        CapturePoint::Unknown => "unknown",
    }
}

fn row(flow: &FlowReport) -> [String; COLUMNS.len()] {
    let verdict = &flow.verdict;
    let constants = &verdict.constants;
    let (name, words) = match &verdict.answer {
        Answer::Named { name, set } if set.len() > 1 => {
            let others: Vec<&str> = set.iter().filter(|other| *other != name).map(String::as_str).collect();
            (name.clone(), format!("or {}", others.join(", ")))
        }
        Answer::Named { name, .. } => (name.clone(), String::new()),
        Answer::Unknown { because } => ("unknown".into(), because.clone()),
    };
    let named = flow.name().is_some();
    let number =
        |value: Option<f64>, digits: usize| value.map_or(NOTHING.into(), |value| format!("{value:.digits$}"));
    [
        flow.from(),
        flow.to(),
        name,
        number(flow.probability().filter(|_| named), 2),
        number(constants.beta.map(|beta| beta.median), 2),
        number(flow.cubic_c(), 3),
        flow.summary.rounds.to_string(),
        flow.summary.losses.to_string(),
        format!("{:.1}", flow.summary.seconds),
        capture_point(verdict.capture_point).into(),
        words,
    ]
}

/// The answer in a sentence.
pub fn sentence(flow: &FlowReport) -> String {
    match &flow.verdict.answer {
        Answer::Unknown { because } => format!("not named: {because}"),
        Answer::Named { name, set } => {
            let of = |wanted: &String| flow.verdict.ranked.iter().find(|ranked| ranked.name == *wanted);
            let together: f64 = set.iter().filter_map(of).map(|ranked| ranked.probability).sum();
            let percent = together.min(1.0) * 100.0;
            match set.split_last() {
                Some((last, others)) if !others.is_empty() => {
                    let others = others.join(", ");
                    format!(
                        "{others} or {last}, together with probability {percent:.0} %: the observation \
                         does not distinguish them"
                    )
                }
                _ => format!("{name}, with probability {percent:.0} %"),
            }
        }
    }
}

/// The current result for a flow, in a line.
pub fn news(flow: &FlowReport) -> String {
    let who = flow.ends().map_or(String::new(), |(from, to)| format!("{from} > {to}: "));
    let summary = &flow.summary;
    let (rounds, losses) = (counted(summary.rounds, "round"), counted(summary.losses, "reduction"));
    visible(&format!("{who}{} (after {rounds}, {losses})", sentence(flow))).into_owned()
}

/// Verdict, evidence and notes.
fn words(flow: &FlowReport) -> String {
    let verdict = &flow.verdict;
    let mut text = match flow.ends() {
        Some((from, to)) => format!("{from} > {to}: {}\n", sentence(flow)),
        None => sentence(flow) + "\n",
    };
    for evidence in &verdict.evidence {
        let _ = writeln!(text, "- {evidence}");
    }
    if let Some(name) = &flow.kernel_name {
        let _ = writeln!(text, "- the sender's kernel reports {name}");
    }
    let named = |name: &String| match &verdict.answer {
        Answer::Named { set, .. } => set.contains(name),
        Answer::Unknown { .. } => false,
    };
    let next: Vec<String> = verdict
        .ranked
        .iter()
        .filter(|ranked| !named(&ranked.name))
        .take(3)
        .map(|ranked| format!("{} {:.2}", ranked.name, ranked.probability))
        .collect();
    if !next.is_empty() {
        let _ = writeln!(text, "- next: {}", next.join(", "));
    }
    for note in &verdict.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

/// Wraps text at spaces; list items get a hanging indent.
fn wrapped(text: &str, width: Option<usize>) -> String {
    let Some(width) = width.map(|width| width.max(30)) else { return text.to_owned() };
    let options =
        textwrap::Options::new(width).break_words(false).word_splitter(textwrap::WordSplitter::NoHyphenation);
    let fill = |line: &str| {
        let hang = if line.starts_with("- ") { "  " } else { "" };
        textwrap::fill(line, options.clone().subsequent_indent(hang)) + "\n"
    };
    text.lines().map(fill).collect()
}
