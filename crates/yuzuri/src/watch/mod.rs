//! `yuzuri watch` and `yuzuri top`: a live source, and where its items go.

pub mod faces;
mod identify;
pub mod print;
pub mod recorder;
mod remote;
mod rows;
pub mod sinks;
mod summary;

use crate::cli::{SourceArgs, TopArgs, WatchArgs};
use crate::{confine, memory};
use anyhow::Context;
use faces::{Faces, Time};
use identify::Identify;
use print::{Printer, Style, or_all};
use recorder::Recorder;
use remote::{Remote, Wish};
use sinks::{For, Sinks};
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use summary::Summary;
use yuzuri_confine::{Identity, SystemCalls};
use yuzuri_exit::{stop_flag, stopped};
use yuzuri_kernel::{Monitor, MonitorError, Options, Poller, Watch, helper};
use yuzuri_trace::{Account, Filter, HookState, Session, Source};
use yuzuri_view::Control;
use yuzuri_web::{Bound, Page, Reach, Server};

/// Watches until Ctrl-C or the time is over.
pub fn run(args: WatchArgs) -> anyhow::Result<ExitCode> {
    memory::release_after_bursts();
    let filter = args.source.filter();
    let identity =
        args.web.web.and_then(|_| Identity::chosen(args.web.user.as_deref()).transpose()).transpose()?;
    // As the daemon chooses it: by the network namespace.
    let share_socket = args.share_socket.unwrap_or_else(|| yuzuri_share::Places::new(None).socket());
    if args.web.web.is_some() {
        // Before any other thread is started.
        helper::start(Some(share_socket.clone()), identity.is_some())
            .context("starting the processes that keep privileges")?;
    }
    let stop = stop_flag()?;
    let watch = open(&args.source, &filter)?;
    let session = watch.session().clone();
    let recorder = recorder(&args.source, &session)?;
    let page = args.web.web.map(|address| {
        let share_reach = helper::is_used().then(|| Reach::by(helper::share_connection));
        let share_socket = Some(share_socket);
        Bound::at(yuzuri_web::Options { share_socket, share_reach, ..yuzuri_web::Options::new(address) })
    });
    let page = page.transpose()?;
    let identify = args.identify.then(|| Identify::start(&session, args.json, args.quiet)).transpose()?;
    if page.is_some() {
        // All is open, attached and started: from here on strangers may be heard.
        confine::to(identity, &SystemCalls::of_a_page())?;
    }
    let mut sinks = Sinks::default();
    if let Some(recorder) = recorder {
        sinks.add(recorder, For::Recording);
    }
    let (wishes, asked) = channel();
    let remote = Arc::new(Remote::new(wishes));
    let server = page.map(|page| serve(&mut sinks, &session, remote, page)).transpose()?;
    let style = match (args.json, args.all, args.quiet || server.is_some()) {
        (true, ..) => Some(Style::Json),
        (_, true, _) => Some(Style::All),
        (_, _, false) => Some(Style::Events),
        _ => None,
    };
    if let Some(style) = style {
        sinks.add(Printer::new(style, &session)?, For::Face("what is printed"));
    }
    if !args.json {
        sinks.add(Summary::default(), For::Face("the closing table"));
    }
    if let Some(identify) = identify {
        sinks.add(identify, For::Face("identification"));
    }
    announce(&session);
    if let Some(server) = &server {
        eprintln!("yuzuri: the page is at {}", args.web.view.of(server.url()));
    }
    eprintln!("yuzuri: watching {}; Ctrl-C ends it", or_all(&session.filter));
    // A line that is written anew each second would tear the printed ones apart.
    let status = style.is_none() && !args.quiet && std::io::stderr().is_terminal();
    let account = pump(watch, &sinks, &asked, &stop, args.source.time, status);
    if let Some(server) = server {
        server.stop();
    }
    let flows = sinks.flows();
    let finished = sinks.finish();
    eprintln!("yuzuri: {account}");
    tell_of_no_match(&session.filter, flows);
    finished?;
    Ok(ExitCode::SUCCESS)
}

/// Watches on the terminal screen.
pub fn top(args: TopArgs) -> anyhow::Result<ExitCode> {
    let filter = args.source.filter();
    let stop = stop_flag()?;
    let watch = open(&args.source, &filter)?;
    let session = watch.session().clone();
    let model = faces::model(&session);
    let mut sinks = Sinks::default();
    if let Some(recorder) = recorder(&args.source, &session)? {
        sinks.add(recorder, For::Recording);
    }
    sinks.add(Faces { model: model.clone(), page: None, time: Time::Live }, For::Face("the screen"));
    let (wishes, asked) = channel();
    let remote = Remote::new(wishes);
    let (shown, account) = std::thread::scope(|scope| {
        let (stop, sinks) = (&stop, &sinks);
        let pumping = scope.spawn(move || pump(watch, sinks, &asked, stop, args.source.time, false));
        let shown = yuzuri_top::run(model, &remote, stop);
        stop.store(true, Ordering::Relaxed);
        (shown, pumping.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    let finished = sinks.finish();
    shown?;
    announce(&session);
    eprintln!("yuzuri: {account}");
    finished?;
    Ok(ExitCode::SUCCESS)
}

fn open(args: &SourceArgs, filter: &Filter) -> anyhow::Result<Box<dyn Watch>> {
    let ring_bytes = args.ring.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    source(&Options { filter: filter.clone(), density: args.density, ring_bytes }, args.poll)
}

/// The best source there is: the kernel monitor; without privilege or BTF polling, and that is said.
pub fn source(options: &Options, polls: bool) -> anyhow::Result<Box<dyn Watch>> {
    let poll = |why: &str| -> anyhow::Result<Box<dyn Watch>> {
        let poller = Poller::start(&options.filter, options.density, why)?;
        Ok(Box::new(poller))
    };
    if polls {
        return poll("--poll was asked for");
    }
    match Monitor::start(options) {
        Ok(monitor) => Ok(Box::new(monitor)),
        // A filter that names what does not exist is no better with polling.
        Err(error @ MonitorError::Filter(_)) => Err(error.into()),
        // The session's hooks say why, to the user and in the recording.
        Err(error) => poll(&error.to_string()).context("stepping down to polling sock_diag"),
    }
}

/// Says that a filter chose nothing, which otherwise looks like a quiet host.
fn tell_of_no_match(filter: &str, flows: u64) {
    if !filter.is_empty() && flows == 0 {
        eprintln!("yuzuri: no flow matched {filter}; without a filter, `yuzuri watch` shows all flows");
    }
}

fn recorder(args: &SourceArgs, session: &Session) -> anyhow::Result<Option<Recorder>> {
    let recorder = args.record.as_ref().map(|path| Recorder::create(path, session, args.overwrite));
    Ok(recorder.transpose()?)
}

/// Serves a page with a model of its own, which becomes one of the sinks.
fn serve(
    sinks: &mut Sinks,
    session: &Arc<Session>,
    control: Arc<dyn Control>,
    bound: Bound,
) -> anyhow::Result<Server> {
    let model = faces::model(session);
    let page = Page::new(model.clone(), control);
    let server = bound.serve(page.clone())?;
    sinks.add(Faces { model, page: Some(page), time: Time::Live }, For::Face("the page"));
    Ok(server)
}

/// Says what is not as it could be.
pub fn announce(session: &Session) {
    if session.source == Source::Sampled {
        eprintln!(
            "yuzuri: SAMPLED: polling sock_diag; what happens between two polls shows only as a difference"
        );
    }
    for hook in &session.hooks {
        if let HookState::Missing { why, instead } = &hook.state {
            eprintln!("yuzuri: without {} ({why}): {instead}", hook.name);
        }
    }
}

/// Reads the source and feeds the sinks until told to stop, or the time is over, or a sink fails.
pub fn pump(
    mut watch: Box<dyn Watch>,
    sinks: &Sinks,
    asked: &Receiver<Wish>,
    stop: &AtomicBool,
    time: Option<Duration>,
    status: bool,
) -> Account {
    let until = time.and_then(|time| Instant::now().checked_add(time));
    let mut next_status = Instant::now();
    while !stopped(stop) && !sinks.failed() && until.is_none_or(|until| Instant::now() < until) {
        let mut items = Vec::new();
        watch.read(&mut items);
        if !items.is_empty() {
            sinks.give(&Arc::new(items));
        }
        if status && Instant::now() >= next_status {
            next_status = Instant::now() + Duration::from_secs(1);
            eprint!("\r\x1b[K{} ", sinks.with_losses(watch.account()));
        }
        // A wish ends the rest early.
        match asked.recv_timeout(watch.rest()) {
            Ok(wish) => {
                let filter = wish.filter.unwrap_or_else(|| watch.filter().clone());
                let result = watch.set(&filter, wish.density.unwrap_or(watch.density()));
                let _ = wish.answer.send(result.map_err(|error| error.to_string()));
            }
            Err(RecvTimeoutError::Timeout) => {}
            // Nobody can wish any more.
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(watch.rest()),
        }
    }
    if status {
        eprint!("\r\x1b[K");
    }
    let mut items = Vec::new();
    let account = watch.finish(&mut items);
    sinks.conclude(items, account)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    /// The page is tested with this document: it must be what the daemon says, with all that it has and nothing else.
    #[test]
    fn the_page_is_tested_with_a_status_that_the_daemon_could_give() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../yuzuri-web/tests/data/share-status.json");
        let text = std::fs::read_to_string(file).unwrap();
        let status: yuzuri_share::Status = serde_json::from_str(&text).unwrap();
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_value(&status).unwrap(), document);
    }
}
