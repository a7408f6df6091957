//! For how much of the time the reported limit is right.

use super::Judge as Args;
use super::case::KINDS;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use yuzuri_capture::{Capture, End, Item, Options};
use yuzuri_infer::packets::Tracker;
use yuzuri_limits::{Limit, LimitTimes, Stretch};
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

#[derive(Deserialize)]
struct Phase {
    from_us: u64,
    to_us: u64,
    right: Vec<String>,
    busy_us: u64,
    rwnd_limited_us: u64,
    sndbuf_limited_us: u64,
}

/// Ways to observe: recordings, and captures at both ends.
const SEEN_BY: [&str; 5] = ["ack", "default", "poll", "sender", "receiver"];
/// For each, the part of the time for which the word shall be right in every case.
const WANTED: [f64; 5] = [0.95, 0.90, 0.85, 0.90, 0.80];

/// The parts of cases, each with one limit: how many there are and how many have the right word for
/// the wanted part of the time, by kind and observer, and those that do not.
#[derive(Default)]
struct PhaseCount {
    counts: BTreeMap<usize, [(usize, usize); SEEN_BY.len()]>,
    short: Vec<String>,
}

impl PhaseCount {
    fn add(&mut self, kind: usize, by: usize, right: f64, case: &str, classified: &LimitTimes) {
        let (reached, all) = &mut self.counts.entry(kind).or_default()[by];
        *all += 1;
        if right >= WANTED[by] {
            *reached += 1;
            return;
        }
        let (how, words) = (SEEN_BY[by], shares(classified, 0.005));
        self.short.push(format!("{:<20} {how:<10} {:5.1}  {words}; {case}", KINDS[kind], 100.0 * right));
    }

    fn print(&self) {
        let wanted: Vec<String> =
            SEEN_BY.iter().zip(WANTED).map(|(how, wanted)| format!("{how} {:.0}", wanted * 100.0)).collect();
        println!("\nCases with the right word for the wanted per cent of the time: {}.\n", wanted.join(", "));
        for (kind, counts) in &self.counts {
            let of = |(reached, all): &(usize, usize)| {
                let text = if *all == 0 { "-".to_owned() } else { format!("{reached} of {all}") };
                format!("{text:>10}")
            };
            let counts: Vec<String> = counts.iter().map(of).collect();
            println!("{:<20} {}", KINDS[*kind], counts.join(" "));
        }
        println!("\nThe others: the per cent of the time that is right, and what is reported.\n");
        self.short.iter().for_each(|line| println!("{line}"));
    }
}

impl Phase {
    /// The best possible answer from packets. Seen from the receiver, the sender's own device is
    /// part of the path, pacing and a device with a queue may look the same, and packets do not
    /// show a bound.
    fn right_words(&self, how: &str) -> Vec<&str> {
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

/// Time with a right and with an unknown limit, and all time, microseconds. The rest is wrong.
#[derive(Clone, Copy, Default)]
struct Score {
    right: f64,
    unknown: f64,
    all: f64,
    worst: Option<f64>,
}

impl Score {
    /// Adds a part of a case; returns how much of its time is right.
    fn add(&mut self, phase: &Phase, classified: &LimitTimes, how: &str) -> f64 {
        let all = (phase.to_us - phase.from_us) as f64;
        let right = |limit: &Limit| phase.right_words(how).contains(&limit.name());
        let sum = |of: &dyn Fn(&Limit) -> bool| -> f64 {
            Limit::ALL.iter().filter(|limit| of(limit)).map(|limit| classified.time_us(*limit) as f64).sum()
        };
        let rights = sum(&right);
        self.all += all;
        self.right += rights;
        // Time without any reported limit is unknown, too.
        let other_time = |limit: Limit| if right(&limit) { 0.0 } else { classified.time_us(limit) as f64 };
        let mut unknown = other_time(Limit::Unknown);
        // The sender's rate is less precise than the right limit, but not wrong.
        if phase
            .right
            .iter()
            .any(|right| [Limit::Pacing.name(), Limit::OwnDevice.name()].contains(&right.as_str()))
        {
            unknown += other_time(Limit::SenderRate);
        }
        self.unknown += unknown + (all - classified.total_us() as f64).max(0.0);
        self.worst = Some(self.worst.unwrap_or(1.0).min(rights / all));
        rights / all
    }

    fn text(&self) -> String {
        if self.all == 0.0 {
            return format!("{:>18}", "-");
        }
        let percent = |part: f64| 100.0 * part / self.all;
        let wrong = self.all - self.right - self.unknown;
        format!(
            "{:5.1} {:5.1} {:6.1}",
            percent(self.right),
            percent(wrong.max(0.0)),
            100.0 * self.worst.unwrap_or(0.0)
        )
    }
}

pub fn all(args: &Args) {
    let mut scores: BTreeMap<(usize, usize), Score> = BTreeMap::new();
    let mut chronographs: BTreeMap<usize, [f64; 3]> = BTreeMap::new();
    let mut cases: BTreeMap<usize, usize> = BTreeMap::new();
    let mut seen_from: [[Score; SEEN_BY.len()]; 2] = Default::default();
    let mut words: BTreeMap<(usize, usize), LimitTimes> = BTreeMap::new();
    let mut experts: BTreeMap<usize, [f64; 3]> = BTreeMap::new();
    let mut reached = PhaseCount::default();
    for file in labels(&args.folders) {
        let label: Label = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let Some(kind) = KINDS.iter().position(|kind| *kind == label.kind) else { continue };
        if !args.only.is_empty() && !args.only.contains(&label.kind) {
            continue;
        }
        *cases.entry(kind).or_default() += 1;
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        if args.list {
            println!("{name} {}: {}", label.kind, label.case);
        }
        for phase in &label.phases {
            let sum = chronographs.entry(kind).or_default();
            sum[0] += (phase.to_us - phase.from_us) as f64;
            sum[1] += phase.rwnd_limited_us as f64;
            sum[2] += phase.sndbuf_limited_us as f64;
            if args.list {
                let part = |us: u64| 100.0 * us as f64 / (phase.to_us - phase.from_us) as f64;
                println!(
                    "    ss: busy {:.0} % rwnd_limited {:.0} % sndbuf_limited {:.0} %",
                    part(phase.busy_us),
                    part(phase.rwnd_limited_us),
                    part(phase.sndbuf_limited_us)
                );
            }
        }
        if !args.captures
            && let Some(marks) = tshark(&file.with_extension("sender.pcapng"), &label)
        {
            let sum = experts.entry(kind).or_default();
            for phase in &label.phases {
                let part = |of: usize| tenths(&marks, of, phase);
                sum[0] += (phase.to_us - phase.from_us) as f64 / 1e5;
                sum[1] += part(0);
                sum[2] += part(1);
                if args.list {
                    println!(
                        "    tshark: tenths with a full or closed window {}, with a retransmission {}",
                        part(0),
                        part(1)
                    );
                }
            }
        }
        for (by, how) in SEEN_BY.into_iter().enumerate() {
            if args.captures && !matches!(how, "sender" | "receiver") {
                continue;
            }
            let stretches = match how {
                "sender" | "receiver" => captured(&file.with_extension(format!("{how}.pcapng")), &label),
                _ => recorded(&file.with_extension(format!("{how}.arrows")), label.local),
            };
            for phase in &label.phases {
                let classified = within(&stretches, phase);
                let right = scores.entry((kind, by)).or_default().add(phase, &classified, how);
                reached.add(kind, by, right, &format!("{name} {}", label.case), &classified);
                words.entry((kind, by)).or_default().merge(&classified);
                seen_from[usize::from(label.case.contains("from-begin"))][by].add(phase, &classified, how);
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
    print(&scores, &chronographs, &experts, &cases);
    for (name, scores) in ["seen from the middle", "seen from the begin"].iter().zip(seen_from) {
        let all: Vec<String> = scores.iter().map(Score::text).collect();
        println!("{name:<20} {:>5}  {}", "", all.join("  "));
    }
    reached.print();
    println!("\nThe limits reported for each kind, percent of the time with a report.\n");
    for ((kind, by), times) in &words {
        println!("{:<20} {:<10} {}", KINDS[*kind], SEEN_BY[*by], shares(times, 0.005));
    }
}

/// The limits that took more than the fraction `least` of the time, with their percentages.
fn shares(times: &LimitTimes, least: f64) -> String {
    let ranked = times.ranked();
    let words = ranked.iter().filter(|(_, share)| *share > least);
    words.map(|(limit, share)| format!("{limit} {:.1}", share * 100.0)).collect::<Vec<_>>().join(", ")
}

fn print(
    scores: &BTreeMap<(usize, usize), Score>,
    chronographs: &BTreeMap<usize, [f64; 3]>,
    experts: &BTreeMap<usize, [f64; 3]>,
    cases: &BTreeMap<usize, usize>,
) {
    println!(
        "Per cent of the time: right word, wrong word (the rest is unknown), right word in the worst case.\n"
    );
    println!(
        "{:<20} {:>5}  {:>18}  {:>18}  {:>18}  {:>18}  {:>18}  {:>12}  {:>12}",
        "made",
        "cases",
        "every ACK",
        "default density",
        "polling",
        "capture, sender",
        "capture, receiver",
        "ss rwnd snd",
        "tshark full, again"
    );
    let mut sums = [Score::default(); SEEN_BY.len()];
    for (&kind, count) in cases {
        let mut line = format!("{:<20} {count:>5}", KINDS[kind]);
        for (by, sum) in sums.iter_mut().enumerate() {
            let score = scores.get(&(kind, by)).copied().unwrap_or_default();
            line += &format!("  {}", score.text());
            sum.all += score.all;
            sum.right += score.right;
            sum.unknown += score.unknown;
            sum.worst = match (sum.worst, score.worst) {
                (Some(a), Some(b)) => Some(f64::min(a, b)),
                (a, b) => a.or(b),
            };
        }
        let [all, rwnd, sndbuf] = chronographs.get(&kind).copied().unwrap_or([1.0, 0.0, 0.0]);
        line += &format!("  {:6.0} {:5.0}", 100.0 * rwnd / all, 100.0 * sndbuf / all);
        if let Some([all, full, again]) = experts.get(&kind) {
            line += &format!("  {:11.0} {:6.0}", 100.0 * full / all, 100.0 * again / all);
        }
        println!("{line}");
    }
    let all: Vec<String> = sums.iter().map(Score::text).collect();
    println!("{:<20} {:>5}  {}", "all", cases.values().sum::<usize>(), all.join("  "));
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

/// In how many tenths of a second of a phase there is a mark of this kind.
fn tenths(marks: &[Vec<u64>; 2], of: usize, phase: &Phase) -> f64 {
    let within = marks[of].iter().filter(|at| (phase.from_us..phase.to_us).contains(at));
    within.map(|at| (at - phase.from_us) / 100_000).collect::<BTreeSet<_>>().len() as f64
}

/// The limits of the flow from this address, according to a recording.
fn recorded(file: &Path, local: SocketAddr) -> Vec<Stretch> {
    let mut reader = Reader::open(file).unwrap();
    let (mut items, mut stretches, mut limits) = (Vec::new(), Vec::new(), FlowLimits::default());
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
                limits.add(event, |stretch| stretches.push(stretch));
            }
            _ => {}
        }
    }
    stretches
}

fn within(stretches: &[Stretch], phase: &Phase) -> LimitTimes {
    let mut times = LimitTimes::default();
    for stretch in stretches {
        let (from_us, to_us) = (stretch.from_us.max(phase.from_us), stretch.to_us.min(phase.to_us));
        if from_us < to_us {
            times.add(stretch.limit, to_us - from_us);
        }
    }
    times
}

/// The limits of the flow from this address, according to a capture.
fn captured(file: &Path, label: &Label) -> Vec<Stretch> {
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
    if let Some(skip) = std::env::var("WHY_DUMP").ok().and_then(|n| n.parse::<usize>().ok()) {
        let (slot, end) = found.unwrap();
        let ended = tracker.now(slot).unwrap();
        let trace = ended.window_traces[end.index()].as_ref().unwrap();
        let limits = ended.limits(end).unwrap();
        println!(
            "{:?} mss {} min {} handshake {:?} red {}",
            trace.capture_point,
            trace.mss_bytes,
            trace.min_rtt_us,
            trace.handshake_rtt_us,
            trace.reductions.len()
        );
        let least = ended.signs[end.index()].rounds.iter().filter_map(|l| l.passage_us).min().unwrap_or(0);
        for ((round, signs), limit) in
            trace.rounds.iter().zip(&ended.signs[end.index()].rounds).zip(&limits.rounds).skip(skip).take(60)
        {
            println!(
                "{:.1}..{:.1} w {:.1} acked {:.1} sent {} again {} clock {} rtt {}/{}/{} runs {} empt {} drawn {} woken {} undr {} refill {:.2} used {} wnd {} cv {:.2} held {} upd {} shr {}+{}/{} spr {:.2} rest {:.0}/{:.0} lag {:?} {}{}{} {limit}",
                round.start_ns as f64 / 1e6 % 1e6,
                round.end_ns as f64 / 1e6 % 1e6,
                round.window,
                round.acked,
                round.sent,
                round.retransmitted,
                round.by_clock,
                round.rtt_min_us,
                round.rtt_mean_us,
                round.rtt_max_us,
                signs.runs,
                signs.emptied,
                signs.drawn,
                signs.woken,
                signs.undrawn,
                signs.refilled / signs.runs.max(1) as f32,
                signs.used_bytes,
                signs.window,
                {
                    let m = signs.gaps_ms / signs.runs.max(1) as f64;
                    signs.gaps_ms2 / signs.runs.max(1) as f64 / m / m - 1.0
                },
                signs.held_us,
                signs.updates,
                signs.shrunk,
                signs.late,
                signs.announced,
                signs.spread_ms / f64::from(signs.segments.saturating_sub(signs.runs))
                    * f64::from(signs.segments)
                    / signs.gaps_ms,
                signs.rests_ms.0,
                signs.rests_ms.1,
                signs.passage_us.map(|p| p - least),
                if signs.repair { "R" } else { "" },
                if signs.timeout { "T" } else { "" },
                if signs.closed { "C" } else { "" }
            );
        }
    }
    let limits = found.and_then(|(slot, end)| tracker.end(slot)?.limits(end)).unwrap_or_default();
    let monotonic = |us: u64| us.saturating_add_signed(-label.realtime_minus_monotonic_us);
    let to_clock = |s: Stretch| Stretch { from_us: monotonic(s.from_us), to_us: monotonic(s.to_us), ..s };
    limits.stretches.into_iter().map(to_clock).collect()
}
