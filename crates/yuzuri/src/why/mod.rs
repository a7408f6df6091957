//! `yuzuri why`: what limits each transfer, live, in a recording or in a capture.

mod captured;
mod flows;
mod print;

use crate::cli::{self, WhyArgs};
use crate::watch::{announce, print::or_all};
use anyhow::bail;
use flows::{Collector, Flows};
use print::Observed;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use yuzuri_exit::{UsageError, stop_flag, stopped};
use yuzuri_kernel::{Options, Poller, Watch};
use yuzuri_trace::recording::{Reader, Tail, is_being_written};
use yuzuri_trace::{Account, Filter, Item, Source};
use yuzuri_view::text;
use yuzuri_watch::{Pump, SinkPurpose, Sinks, source};

/// The exit code if no flow sent anything.
const NOTHING_SENT: u8 = 3;

/// Observes for a while, or reads a recording, and prints the answer.
pub fn run(args: WhyArgs) -> anyhow::Result<ExitCode> {
    let (file, terms) = file_and_terms(&args.words);
    let filter = cli::filter("why", terms);
    match file {
        Some(file) => recorded(&args, &file, &filter, &terms.join(" ")),
        None => live(&args, filter),
    }
}

/// A first word that is a file, or looks like the name of one, is the recording or the capture.
fn file_and_terms(words: &[String]) -> (Option<PathBuf>, &[String]) {
    if let [first, rest @ ..] = words {
        let path = Path::new(first);
        let named = [".arrows", ".pcap", ".pcapng", ".cap", ".gz"].iter().any(|end| first.ends_with(end));
        if named || first.starts_with(['/', '.']) || path.is_file() {
            return (Some(path.to_owned()), rest);
        }
    }
    (None, words)
}

fn live(args: &WhyArgs, filter: Filter) -> anyhow::Result<ExitCode> {
    let stop = stop_flag()?;
    let options = Options { filter: filter.clone(), density: args.density, ring_bytes: None };
    let watch = source(&options, args.poll)?;
    let session = watch.session().clone();
    announce(&session);
    let seconds = args.time.as_secs_f64();
    yuzuri_exit::note!("yuzuri: watching {} for {seconds} s; Ctrl-C ends it", or_all(&session.filter));
    let first = watch_flows(&filter, args);
    let collector = Collector::default();
    let mut sinks = Sinks::default();
    sinks.add(collector.clone(), SinkPurpose::View("what limits"));
    let account = Pump::new(&sinks, &stop).for_time(Some(args.time)).run(watch);
    sinks.finish()?;
    let mut flows = collector.take();
    if let Some(last) = watch_flows(&filter, args) {
        flows.look_again(&last);
    }
    if let Some(first) = first {
        flows.begin_chronographs(&first);
    }
    let answered = print::all(args, &flows)?;
    let source = serde_json::to_value(session.source)?;
    let observed = Observed { account: Some(&account), complete: None, source, missing_columns: &[] };
    print::end(args, &flows, &observed)?;
    yuzuri_exit::note!("yuzuri: {account}");
    Ok(code(answered, None, &nothing_of(&session.filter), &flows))
}

/// The message if no flow sent anything.
fn nothing_of(filter: &str) -> String {
    if filter.is_empty() {
        "no flow sent anything".to_owned()
    } else {
        format!("no flow of {filter} sent anything")
    }
}

/// Polls the kernel once: before the observation for the initial values of its chronographs, and
/// after it for the flows that are still open, because an idle flow produces no records. `None` if
/// polling is not possible; a flow is then described up to its last record.
fn watch_flows(filter: &Filter, args: &WhyArgs) -> Option<Vec<Item>> {
    // The monitor has already selected flows by their processes.
    let everyone = Filter { pids: Vec::new(), names: Vec::new(), ..filter.clone() };
    let mut poller = Poller::start(&everyone, args.density, "one look").ok()?;
    let mut items = Vec::new();
    poller.read(&mut items);
    Some(items)
}

fn recorded(args: &WhyArgs, file: &Path, filter: &Filter, terms: &str) -> anyhow::Result<ExitCode> {
    if !filter.cgroups.is_empty() {
        bail!(UsageError::new(
            "cgroup: needs the kernel's control group hierarchy, which recordings do not contain: use another filter term"
        ));
    }
    let stop = stop_flag()?;
    if !captured::is_recording(file) {
        return captured(args, file, (filter, terms), &stop);
    }
    let mut reader = Reader::open(file)?;
    let source = serde_json::to_value(reader.session().source)?;
    let mut flows = Flows::chosen_by(filter.clone());
    let mut broke = None;
    while !stopped(&stop) {
        match reader.next_batch() {
            Ok(Some(items)) => flows.take(&items),
            Ok(None) => break,
            // Everything before the error is valid.
            Err(error) => {
                broke = Some(error.to_string());
                break;
            }
        }
    }
    let complete = reader.complete();
    let answered = print::all(args, &flows)?;
    let missing_columns = reader.missing_columns();
    let observed = Observed { account: flows.account(), complete, source, missing_columns };
    print::end(args, &flows, &observed)?;
    if reader.session().source == Source::Sampled {
        yuzuri_exit::note!(
            "yuzuri: {} was recorded by polling: changes between two polls appear only as a difference",
            file.display()
        );
    }
    if !missing_columns.is_empty() {
        yuzuri_exit::note!(
            "yuzuri: {} was recorded by an older version, without {}: limits that only these show are unknown",
            file.display(),
            missing_columns.join(", ")
        );
    }
    match (&broke, reader.tail()) {
        (Some(error), _) => yuzuri_exit::note!("yuzuri: {error}"),
        (None, Some(Tail::Unfinished)) if is_being_written(file) => {
            yuzuri_exit::note!(
                "yuzuri: {} is still being written: this is its content so far",
                file.display()
            );
        }
        (None, Some(tail)) if tail != Tail::Complete => {
            yuzuri_exit::note!("yuzuri: {} {tail}", file.display())
        }
        _ => {}
    }
    Ok(code(answered, complete, &nothing_sent(file, terms), &flows))
}

fn captured(
    args: &WhyArgs,
    file: &Path,
    (filter, terms): (&Filter, &str),
    stop: &AtomicBool,
) -> anyhow::Result<ExitCode> {
    let of_processes = [!filter.pids.is_empty(), !filter.names.is_empty(), !filter.netns.is_empty()];
    if of_processes.contains(&true) {
        bail!(UsageError::new(
            "a capture has no processes and namespaces: select flows by addresses and ports"
        ));
    }
    let captured::Captured { flows, broke, steps } = captured::read(file, filter, stop)?;
    let complete = broke.is_none().then_some(true).or(Some(false));
    let answered = print::all(args, &flows)?;
    let observed = Observed { account: None, complete, source: "capture".into(), missing_columns: &[] };
    print::end(args, &flows, &observed)?;
    if let Some(note) = steps {
        yuzuri_exit::note!("yuzuri: {}: {note}", file.display());
    }
    if let Some(broke) = &broke {
        yuzuri_exit::note!("yuzuri: {}: {broke}; everything before it was used", file.display());
    }
    let nothing = if flows.one_way() > 0 {
        format!("{} has no flow of which both data and ACKs were captured", file.display())
    } else {
        nothing_sent(file, terms)
    };
    Ok(code(answered, complete, &nothing, &flows))
}

fn nothing_sent(file: &Path, terms: &str) -> String {
    let of = if terms.is_empty() { String::new() } else { format!(" of {terms}") };
    format!("{} has no flow{of} that sent anything", file.display())
}

fn code(answered: usize, complete: Option<bool>, nothing: &str, flows: &Flows) -> ExitCode {
    if complete == Some(false) {
        return ExitCode::FAILURE;
    }
    if answered > 0 {
        return ExitCode::SUCCESS;
    }
    let (receive, empty) = flows.silent();
    let mut seen = Vec::new();
    if receive > 0 {
        seen.push(format!("{} only received", text::count(receive as u64)));
    }
    if empty > 0 {
        seen.push(format!("{} carried no data", print::connections(empty)));
    }
    let seen = if seen.is_empty() { String::new() } else { format!(" ({})", seen.join(", ")) };
    let advice = match (receive, complete) {
        (1.., _) => "; only the sender shows what limits a transfer: run `yuzuri why` there",
        (0, None) => "; run `yuzuri why` while the transfer is running",
        (0, Some(_)) => "",
    };
    yuzuri_exit::note!("yuzuri: {nothing}{seen}{advice}");
    ExitCode::from(NOTHING_SENT)
}

/// An account for programs.
fn account_json(account: &Account) -> serde_json::Value {
    serde_json::json!({
        "seen": account.seen(), "kept": account.kept(), "lost": account.lost(), "thinned": account.thinned(),
    })
}

/// Shared with the sink's thread.
type Shared = Arc<parking_lot::Mutex<Flows>>;
