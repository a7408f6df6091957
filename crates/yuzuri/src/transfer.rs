//! `yuzuri send` and `yuzuri receive`.

use crate::cli::{ReceiveArgs, SendArgs};
use crate::confine;
use crate::own_record::OwnRecord;
use crate::own_share::{OwnShare, Sharing};
use crate::probe::Probe;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use yuzuri_confine::{Identity, SystemCalls};
use yuzuri_exit::{in_one_line, stop_flag};
use yuzuri_transfer::{
    Both, FailureKind, Family, FetchEvent, FetchText, JsonLines, Limits, Listener, MaxLines, ReceiveEvent,
    ReceiveOptions, ReceiveText, Report, SendError, SendEvent, SendOptions, SendText, WarningKind,
};

/// The exit code if the transfer succeeded, but a requested recording or sharing failed or was
/// incomplete.
const RECORDING_OR_SHARING_FAILED: u8 = 3;

/// Reports events of the recording or sharing: on standard error, and with `--json` also as
/// separate lines. Lines are never mixed, whichever thread writes them, since each is one write to
/// standard output, which is locked for it.
#[derive(Clone, Copy)]
pub struct EventReporter {
    json: bool,
}

impl EventReporter {
    /// Prints text only for people.
    pub fn note(self, what: &str) {
        yuzuri_exit::note!("yuzuri: {what}");
    }

    /// Reports a problem that does not stop the transfer.
    pub fn warn(self, kind: WarningKind, message: &str) {
        self.note(message);
        self.emit(&SendEvent::Warning { kind, message: message.to_owned() });
    }

    /// Prints an event only for programs.
    pub fn emit(self, event: &SendEvent) {
        if self.json {
            // If the reader is gone, the transfer finds that out itself.
            let _ = JsonLines(std::io::stdout()).report(event);
        }
    }
}

/// Sends.
pub fn send(args: SendArgs) -> anyhow::Result<ExitCode> {
    let stop = stop_flag()?;
    let reporter = EventReporter { json: args.json };
    let mut options = SendOptions::new(args.target);
    options.family = match (args.v4, args.v6) {
        (true, _) => Family::V4,
        (_, true) => Family::V6,
        _ => Family::Any,
    };
    options.bind = args.bind;
    options.interface = args.interface;
    options.connections = args.connections;
    options.buffer_bytes = args.buffer;
    options.limits = Limits { buffers: args.buffers, bytes: args.bytes, time: args.time };
    options.wait_ack = args.wait_ack;
    options.congestion_control = args.control;
    if args.reverse {
        fetch(&options, args.json, &stop)?;
        return Ok(ExitCode::SUCCESS);
    }
    let share =
        OwnShare::start(&args.share, options.interface.as_deref(), reporter).inspect_err(|error| {
            reporter.emit(&SendEvent::Failed {
                kind: FailureKind::Sharing,
                message: in_one_line(error.as_ref()),
            });
        })?;
    let record = args.record.as_deref().map(|path| OwnRecord::start(path, args.overwrite, reporter));
    let mut complete = !matches!(share, Sharing::Unsupported) && !matches!(record, Some(None));
    let (share, record) = (share.active(), record.flatten());
    options.shown = match (&share, &record) {
        (Some(share), Some(record)) => Some(share.shown().and(record.shown())),
        (Some(share), None) => Some(share.shown()),
        (None, record) => record.as_ref().map(OwnRecord::shown),
    };
    let mut json = JsonLines(std::io::stdout());
    let mut text = SendText::standard();
    let report: &mut dyn Report<SendEvent> = if args.json { &mut json } else { &mut text };
    let mut probe = Probe::default();
    let mut send = || match args.probe {
        true => yuzuri_transfer::send(&options, &mut Both(report, &mut probe), &stop),
        false => yuzuri_transfer::send(&options, report, &stop),
    };
    let sent = if args.two_way { both_ways(&options, args.json, &stop, send) } else { send() };
    probe.finish(args.json);
    // End each of them, whatever the others return.
    complete &= record.is_none_or(|record| record.finish(reporter));
    complete &= share.is_none_or(|share| share.finish(reporter));
    sent?;
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::from(RECORDING_OR_SHARING_FAILED) })
}

/// Receives: asks the other end to send.
fn fetch(options: &SendOptions, json: bool, stop: &AtomicBool) -> Result<(), SendError> {
    let mut lines = JsonLines(std::io::stdout());
    let mut text = FetchText::standard();
    let report: &mut dyn Report<FetchEvent> = if json { &mut lines } else { &mut text };
    yuzuri_transfer::fetch(options, report, stop).map(drop)
}

/// Sends, while the other end sends on other connections. If one direction fails, the other ends,
/// too.
fn both_ways<T>(
    options: &SendOptions,
    json: bool,
    stop: &AtomicBool,
    send: impl FnOnce() -> Result<T, SendError>,
) -> Result<T, SendError> {
    let mut options = options.clone();
    // These belong to the sending side.
    (options.shown, options.congestion_control) = (None, None);
    std::thread::scope(|scope| {
        let fetching = scope.spawn(|| {
            let mut lines = JsonLines(std::io::stdout());
            // The terminal has one progress line: that of the sending direction.
            let mut text = FetchText::new(std::io::stdout(), None::<std::io::Sink>);
            let report: &mut dyn Report<FetchEvent> = if json { &mut lines } else { &mut text };
            let fetched = yuzuri_transfer::fetch(&options, report, stop);
            stop.fetch_or(fetched.is_err(), Ordering::Relaxed);
            fetched
        });
        let sent = send();
        stop.fetch_or(sent.is_err(), Ordering::Relaxed);
        let fetched = fetching.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        match (sent, fetched) {
            // One direction was stopped because the other failed.
            (Err(SendError::Stopped), Err(error)) | (Ok(_), Err(error)) => Err(error),
            (sent, _) => sent,
        }
    })
}

/// Receives.
pub fn receive(args: ReceiveArgs) -> anyhow::Result<ExitCode> {
    let identity = Identity::chosen(args.user.as_deref())?;
    let stop = stop_flag()?;
    let options = ReceiveOptions {
        bind: args.bind,
        port: args.port,
        max_connections: args.connections as usize,
        max_bytes: args.bytes.0,
        max_total_bytes: args.total_bytes.0,
        max_time: args.time,
        once: args.once,
        reverse: args.reverse,
        ..ReceiveOptions::default()
    };
    let mut json = JsonLines(std::io::stdout());
    let mut text = ReceiveText::standard();
    let report: &mut dyn Report<ReceiveEvent> = if args.json { &mut json } else { &mut text };
    let mut report = MaxLines::new(report, args.lines.0, args.json);
    let listener = Listener::bind(options)?;
    confine::to(identity, &SystemCalls::of_open_sockets())?;
    listener.run(&mut report, &stop)?;
    Ok(ExitCode::SUCCESS)
}
