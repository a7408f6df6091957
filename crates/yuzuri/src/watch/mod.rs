//! `yuzuri watch` and `yuzuri top`: a live source, and the destinations of its items.

mod identify;
pub mod print;
mod recorder;
mod rows;
mod summary;

use crate::cli::{SourceArgs, TopArgs, WatchArgs};
use crate::{confine, memory};
use anyhow::Context;
use identify::Identify;
use print::{Printer, Style, or_all};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use summary::Summary;
use yuzuri_confine::{Identity, SystemCalls};
use yuzuri_exit::stop_flag;
use yuzuri_kernel::{Options, Watch, helper};
use yuzuri_share::DaemonFiles;
use yuzuri_trace::{Account, Filter, HookState, Session, Source};
use yuzuri_view::Control;
use yuzuri_watch::{Live, Pump, Remote, Requests, SinkPurpose, Sinks, model, source};
use yuzuri_web::{Bound, DaemonConnector, Page, Server};

/// Watches until Ctrl-C or the time is over.
pub fn run(args: WatchArgs) -> anyhow::Result<ExitCode> {
    memory::release_after_bursts();
    let filter = args.source.filter("watch");
    let identity =
        args.web.web.and_then(|_| Identity::chosen(args.web.user.as_deref()).transpose()).transpose()?;
    // The network namespace determines the path, as in the daemon.
    let share_socket = args.share_socket.unwrap_or_else(sharing_socket);
    if args.web.web.is_some() {
        // The helper forks: no other thread may exist yet.
        helper::start(Some(share_socket.clone()), identity.is_some())
            .context("starting the processes that keep privileges")?;
    }
    let stop = stop_flag()?;
    let watch = open(&args.source, &filter)?;
    let session = watch.session().clone();
    let recorder = recorder(&args.source, &session)?;
    let page = args.web.web.map(|address| {
        let share_reach = helper::is_used().then(|| DaemonConnector::by(helper::share_connection));
        let share_socket = Some(share_socket);
        Bound::at(yuzuri_web::Options { share_socket, share_reach, ..yuzuri_web::Options::new(address) })
    });
    let page = page.transpose()?;
    let identify = args.identify.then(|| Identify::start(&session, args.json, args.quiet)).transpose()?;
    if page.is_some() {
        // Everything is open, attached and started. Drop privileges before the first connection is
        // accepted.
        confine::to(identity, &SystemCalls::of_a_page())?;
    }
    let mut sinks = Sinks::default();
    if let Some(recorder) = recorder {
        sinks.add(recorder, SinkPurpose::Recording);
    }
    let (remote, requests) = Remote::new();
    let server = page.map(|page| serve(&mut sinks, &session, Arc::new(remote), page)).transpose()?;
    let style = match (args.json, args.all, args.quiet || server.is_some()) {
        (true, ..) => Some(Style::Json),
        (_, true, _) => Some(Style::All),
        (_, _, false) => Some(Style::Events),
        _ => None,
    };
    if let Some(style) = style {
        sinks.add(Printer::new(style, &session)?, SinkPurpose::View("standard output"));
    }
    if !args.json {
        sinks.add_direct(Summary::default());
    }
    if let Some(identify) = identify {
        sinks.add(identify, SinkPurpose::View("identification"));
    }
    announce(&session);
    if let Some(server) = &server {
        yuzuri_exit::note!("yuzuri: the page is at {}", args.web.view.of(server.url()));
    }
    yuzuri_exit::note!("yuzuri: watching {}; Ctrl-C ends it", or_all(&session.filter));
    // A line rewritten each second would interrupt the printed ones.
    let status = style.is_none() && !args.quiet && std::io::stderr().is_terminal();
    let gather = if server.is_some() { Duration::ZERO } else { GATHER };
    let account = pump(watch, &sinks, requests, &stop, args.source.time, status, gather);
    if let Some(server) = server {
        server.stop();
    }
    let flows = sinks.flows();
    let finished = sinks.finish();
    yuzuri_exit::note!("yuzuri: {account}");
    warn_without_match(&session.filter, flows);
    finished?;
    Ok(ExitCode::SUCCESS)
}

/// The sharing daemon's socket; on an access point without one, the access point daemon's.
fn sharing_socket() -> PathBuf {
    let (terminal, access_point) =
        (DaemonFiles::new(None).socket(), DaemonFiles::of_access_point(None).socket());
    if !terminal.exists() && access_point.exists() { access_point } else { terminal }
}

/// Watches on the terminal screen.
pub fn top(args: TopArgs) -> anyhow::Result<ExitCode> {
    let filter = args.source.filter("top");
    let stop = stop_flag()?;
    let watch = open(&args.source, &filter)?;
    let session = watch.session().clone();
    let model = model(&session);
    let mut sinks = Sinks::default();
    if let Some(recorder) = recorder(&args.source, &session)? {
        sinks.add(recorder, SinkPurpose::Recording);
    }
    sinks.add(Live::now(model.clone()), SinkPurpose::View("the screen"));
    let (remote, requests) = Remote::new();
    let (shown, account) = std::thread::scope(|scope| {
        let (stop, sinks) = (&stop, &sinks);
        let pumping =
            scope.spawn(move || pump(watch, sinks, requests, stop, args.source.time, false, Duration::ZERO));
        let shown = yuzuri_top::run(model, &remote, args.theme.of(), stop);
        stop.store(true, Ordering::Relaxed);
        (shown, pumping.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    let finished = sinks.finish();
    shown?;
    announce(&session);
    yuzuri_exit::note!("yuzuri: {account}");
    finished?;
    Ok(ExitCode::SUCCESS)
}

fn open(args: &SourceArgs, filter: &Filter) -> anyhow::Result<Box<dyn Watch>> {
    let ring_bytes = args.ring.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    source(&Options { filter: filter.clone(), density: args.density, ring_bytes }, args.poll)
}

/// Reports that no flow matched the filter, which otherwise looks like a quiet host.
fn warn_without_match(filter: &str, flows: u64) {
    if !filter.is_empty() && flows == 0 {
        yuzuri_exit::note!(
            "yuzuri: no flow matched {filter}; without a filter, `yuzuri watch` shows all flows"
        );
    }
}

fn recorder(args: &SourceArgs, session: &Session) -> anyhow::Result<Option<recorder::Recorder>> {
    let recorder = args.record.as_ref().map(|path| recorder::create(path, session, args.overwrite));
    Ok(recorder.transpose()?)
}

/// Serves a page with its own model, which becomes one of the sinks.
fn serve(
    sinks: &mut Sinks,
    session: &Arc<Session>,
    control: Arc<dyn Control>,
    bound: Bound,
) -> anyhow::Result<Server> {
    let model = model(session);
    let page = Page::new(model.clone(), control);
    let server = bound.serve(page.clone())?;
    sinks.add(Live::now(model).feeding(Some(Box::new(page))), SinkPurpose::View("the page"));
    Ok(server)
}

/// Reports the limitations of this session.
pub fn announce(session: &Session) {
    if session.source == Source::Sampled {
        yuzuri_exit::note!(
            "yuzuri: SAMPLED: polling sock_diag; changes between two polls appear only as a difference"
        );
    }
    for hook in &session.hooks {
        if let HookState::Missing { why, instead } = &hook.state {
            yuzuri_exit::note!("yuzuri: without {} ({why}): {instead}", hook.name);
        }
    }
}

/// Batching interval when no page is served. Lines and recordings tolerate this delay, and every
/// batch wakes one thread for each sink.
const GATHER: Duration = Duration::from_millis(50);

/// Reads the source and feeds the sinks until it is stopped, the time is over, or a sink fails.
/// `status`: the last line of the terminal shows the account so far.
fn pump(
    watch: Box<dyn Watch>,
    sinks: &Sinks,
    requests: Requests,
    stop: &AtomicBool,
    time: Option<Duration>,
    status: bool,
    gather: Duration,
) -> Account {
    let pump = Pump::new(sinks, stop).for_time(time).with_requests(requests).gathering(gather);
    if !status {
        return pump.run(watch);
    }
    let account = pump.reporting(|account| eprint!("\r\x1b[K{account} ")).run(watch);
    eprint!("\r\x1b[K");
    account
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    /// The page is tested with this document: it must equal the daemon's, with all fields and no
    /// others.
    #[test]
    fn the_page_is_tested_with_a_status_that_the_daemon_could_give() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../yuzuri-web/tests/data/share-status.json");
        let text = std::fs::read_to_string(file).unwrap();
        let status: yuzuri_share::Status = serde_json::from_str(&text).unwrap();
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_value(&status).unwrap(), document);
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../yuzuri-web/tests/data/ap-status.json");
        let text = std::fs::read_to_string(file).unwrap();
        let status: yuzuri_share::ApStatus = serde_json::from_str(&text).unwrap();
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_value(&status).unwrap(), document);
    }
}
