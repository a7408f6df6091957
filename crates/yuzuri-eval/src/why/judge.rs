//! Determines for how much of the time the reported limit is right.

use super::Judge as Args;
use super::case::KINDS;
use super::table::{Case, Tables, shares};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use yuzuri_capture::{Capture, End, Item, Options};
use yuzuri_infer::packets::Tracker;
use yuzuri_limits::{Limit, LimitInterval, LimitTimes};
use yuzuri_trace::Item as Recorded;
use yuzuri_trace::recording::Reader;
use yuzuri_view::limited::FlowLimits;

#[derive(Deserialize)]
struct Label {
    kind: String,
    case: String,
    local: SocketAddr,
    realtime_minus_monotonic_us: i64,
    phases: Vec<Phase>,
}

/// A part of a case, with one limit.
#[derive(Deserialize)]
pub struct Phase {
    from_us: u64,
    to_us: u64,
    right: Vec<String>,
    busy_us: u64,
    pub rwnd_limited_us: u64,
    pub sndbuf_limited_us: u64,
}

/// Ways to observe: recordings, and captures at both ends.
pub const SEEN_BY: [&str; 5] = ["ack", "default", "poll", "sender", "receiver"];

impl Phase {
    /// How long it is, microseconds.
    pub fn time_us(&self) -> f64 {
        (self.to_us - self.from_us) as f64
    }

    /// Whether the case produces one of these limits.
    pub fn is_right(&self, limits: &[Limit]) -> bool {
        limits.iter().any(|limit| self.right.iter().any(|right| right == limit.name()))
    }

    /// The best possible answer from packets. Seen from the receiver, the sender's own device is
    /// part of the path, pacing and a device with a queue may look the same, and packets do not
    /// show a bound.
    pub fn right_words(&self, how: &str) -> Vec<&str> {
        let mut right: Vec<&str> = self.right.iter().map(String::as_str).collect();
        if how == "receiver" && right.contains(&Limit::OwnDevice.name()) {
            right.extend([Limit::Path.name(), Limit::SenderRate.name()]);
        }
        if how == "receiver" && right.contains(&Limit::Pacing.name()) {
            right.push(Limit::SenderRate.name());
        }
        if matches!(how, "sender" | "receiver") && right.contains(&Limit::Sharing.name()) {
            right = vec![Limit::Unknown.name()];
        }
        right
    }
}

pub fn all(args: &Args) {
    let mut tables = Tables::default();
    for file in labels(&args.folders) {
        let label: Label = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let Some(kind) = KINDS.iter().position(|kind| *kind == label.kind) else { continue };
        if !args.only.is_empty() && !args.only.contains(&label.kind) {
            continue;
        }
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let case = Case { text: format!("{name} {}", label.case), begins: label.case.contains("from-begin") };
        tables.count(kind, case.begins);
        if args.list {
            println!("{name} {}: {}", label.kind, label.case);
        }
        for phase in &label.phases {
            tables.add_chronographs(kind, phase);
            if args.list {
                let percent = |us: u64| 100.0 * us as f64 / phase.time_us();
                println!(
                    "    ss: busy {:.0} % rwnd_limited {:.0} % sndbuf_limited {:.0} %",
                    percent(phase.busy_us),
                    percent(phase.rwnd_limited_us),
                    percent(phase.sndbuf_limited_us)
                );
            }
        }
        if !args.captures
            && let Some(marks) = tshark(&file.with_extension("sender.pcapng"), &label)
        {
            for phase in &label.phases {
                let [full, again] = [0, 1].map(|of| tenths(&marks, of, phase));
                tables.add_expert(kind, phase, full, again);
                if args.list {
                    println!(
                        "    tshark: tenths with a full or closed window {full}, with a retransmission {again}"
                    );
                }
            }
        }
        for (by, how) in SEEN_BY.into_iter().enumerate() {
            if args.captures && !matches!(how, "sender" | "receiver") {
                continue;
            }
            let intervals = match how {
                "sender" | "receiver" => captured(&file.with_extension(format!("{how}.pcapng")), &label),
                _ => recorded(&file.with_extension(format!("{how}.arrows")), label.local),
            };
            for phase in &label.phases {
                let classified = within(&intervals, phase);
                tables.add((kind, by), phase, &classified, &case);
                if args.list {
                    println!(
                        "    {how:<8} [{}] {}",
                        phase.right_words(how).join(" "),
                        shares(&classified, 0.0)
                    );
                }
            }
        }
    }
    tables.print();
}

fn labels(folders: &[PathBuf]) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = folders
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .collect();
    files.sort();
    files
}

/// When tshark's analysis finds the receiver's window full or closed, and when it finds a
/// retransmission: microseconds on the clock of the labels. `None` if tshark is missing or fails.
fn tshark(file: &Path, label: &Label) -> Option<[Vec<u64>; 2]> {
    let full = "tcp.analysis.window_full || tcp.analysis.zero_window";
    let again = "tcp.analysis.retransmission";
    let when = |filter: &str| {
        let classified = Command::new("tshark")
            .arg("-r")
            .arg(file)
            .args(["-Y", filter, "-T", "fields", "-e", "frame.time_epoch"])
            .stderr(Stdio::null())
            .output()
            .ok()?;
        let text = String::from_utf8(classified.stdout).ok()?;
        let seconds = text.lines().filter_map(|line| line.parse::<f64>().ok());
        let monotonic_us = seconds
            .map(|s| (s * 1e6) as u64)
            .map(|us| us.saturating_add_signed(-label.realtime_minus_monotonic_us));
        classified.status.success().then(|| monotonic_us.collect())
    };
    Some([when(full)?, when(again)?])
}

/// The number of tenths of a second of a phase that contain a mark of this kind.
fn tenths(marks: &[Vec<u64>; 2], of: usize, phase: &Phase) -> f64 {
    let within = marks[of].iter().filter(|at| (phase.from_us..phase.to_us).contains(at));
    within.map(|at| (at - phase.from_us) / 100_000).collect::<BTreeSet<_>>().len() as f64
}

/// The limits of the flow from this address, according to a recording.
fn recorded(file: &Path, local: SocketAddr) -> Vec<LimitInterval> {
    let mut reader = Reader::open(file).unwrap();
    let (mut items, mut intervals, mut limits) = (Vec::new(), Vec::new(), FlowLimits::default());
    while let Some(batch) = reader.next_batch().unwrap() {
        items.extend(batch);
    }
    let flow = items.iter().find_map(|item| match item {
        Recorded::Flow(flow) if flow.local == local => Some(flow.id),
        _ => None,
    });
    for item in &items {
        match item {
            Recorded::Flow(of) if Some(of.id) == flow => limits.controlled_by(&of.congestion_control),
            Recorded::Event(event) if Some(event.flow) == flow => {
                limits.add(event, |interval| intervals.push(interval));
            }
            _ => {}
        }
    }
    intervals
}

fn within(intervals: &[LimitInterval], phase: &Phase) -> LimitTimes {
    let mut times = LimitTimes::default();
    for interval in intervals {
        let (from_us, to_us) = (interval.from_us.max(phase.from_us), interval.to_us.min(phase.to_us));
        if from_us < to_us {
            times.add(interval.limit, to_us - from_us);
        }
    }
    times
}

/// The limits of the flow from this address, according to a capture.
fn captured(file: &Path, label: &Label) -> Vec<LimitInterval> {
    let mut capture = Capture::open(file, &Options::default()).unwrap();
    let (mut tracker, mut found) = (Tracker::new(), None);
    while let Some(item) = capture.next_item().unwrap() {
        let Item::Segment(segment) = item else { continue };
        let segment = *segment;
        tracker.segment(&segment);
        if segment.first
            && let Some(key) = capture.key(segment.flow)
        {
            let end = [End::Lower, End::Higher].into_iter().find(|end| key.end(*end) == label.local);
            found = found.or(end.map(|end| (segment.flow, end)));
        }
    }
    let limits = found.and_then(|(slot, end)| tracker.end(slot)?.limits(end)).unwrap_or_default();
    let monotonic = |us: u64| us.saturating_add_signed(-label.realtime_minus_monotonic_us);
    let to_clock =
        |s: LimitInterval| LimitInterval { from_us: monotonic(s.from_us), to_us: monotonic(s.to_us), ..s };
    limits.intervals.into_iter().map(to_clock).collect()
}
