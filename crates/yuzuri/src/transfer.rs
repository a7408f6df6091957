//! `yuzuri send` and `yuzuri receive`.

use crate::cli::{ReceiveArgs, SendArgs};
use crate::confine;
use crate::own_record::OwnRecord;
use crate::own_share::{OwnShare, Sharing};
use crate::probe::Probe;
use std::process::ExitCode;
use yuzuri_confine::{Identity, SystemCalls};
use yuzuri_exit::{in_one_line, stop_flag};
use yuzuri_transfer::{
    Both, FailureKind, Family, JsonLines, Limits, Listener, MaxLines, ReceiveEvent, ReceiveOptions,
    ReceiveText, Report, SendEvent, SendOptions, SendText, WarningKind,
};

/// What the exit code is where the transfer was made, and the recording or the sharing that was asked for beside it was not, or not wholly.
const BESIDE_FAILED: u8 = 3;

/// Says what happens beside a transfer: on standard error, and with `--json` in lines of their own, too. The lines are whole whichever
/// thread says them, since each is one write to standard output, which is locked for it.
#[derive(Clone, Copy)]
pub struct Voice {
    json: bool,
}

impl Voice {
    /// For people alone.
    pub fn say(self, what: &str) {
        eprintln!("yuzuri: {what}");
    }

    /// Something does not work, and the transfer goes on.
    pub fn warn(self, kind: WarningKind, message: &str) {
        self.say(message);
        self.tell(&SendEvent::Warning { kind, message: message.to_owned() });
    }

    /// For programs alone.
    pub fn tell(self, event: &SendEvent) {
        if self.json {
            // Where nobody reads any more the transfer finds that out itself.
            let _ = JsonLines(std::io::stdout()).report(event);
        }
    }
}

/// Sends.
pub fn send(args: SendArgs) -> anyhow::Result<ExitCode> {
    let stop = stop_flag()?;
    let voice = Voice { json: args.json };
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
    let share = OwnShare::start(&args.share, options.interface.as_deref(), voice).inspect_err(|error| {
        voice.tell(&SendEvent::Failed { kind: FailureKind::Sharing, message: in_one_line(error.as_ref()) });
    })?;
    let record = args.record.as_deref().map(|path| OwnRecord::start(path, args.overwrite, voice));
    let mut complete = !matches!(share, Sharing::Impossible) && !matches!(record, Some(None));
    let (share, record) = (share.at_work(), record.flatten());
    options.shown = match (&share, &record) {
        (Some(share), Some(record)) => Some(share.shown().and(record.shown())),
        (Some(share), None) => Some(share.shown()),
        (None, record) => record.as_ref().map(OwnRecord::shown),
    };
    let mut json = JsonLines(std::io::stdout());
    let mut text = SendText::standard();
    let report: &mut dyn Report<SendEvent> = if args.json { &mut json } else { &mut text };
    let mut probe = Probe::default();
    let sent = match args.probe {
        true => yuzuri_transfer::send(&options, &mut Both(report, &mut probe), &stop),
        false => yuzuri_transfer::send(&options, report, &stop),
    };
    probe.finish(args.json);
    // Each is ended, whatever became of the others.
    complete &= record.is_none_or(|record| record.finish(voice));
    complete &= share.is_none_or(|share| share.finish(voice));
    sent?;
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::from(BESIDE_FAILED) })
}

/// Receives.
pub fn receive(args: ReceiveArgs) -> anyhow::Result<ExitCode> {
    let identity = Identity::chosen(args.user.as_deref())?;
    let stop = stop_flag()?;
    let options = ReceiveOptions {
        bind: args.bind,
        port: args.port,
        max_connections: args.connections,
        max_bytes: args.bytes.0,
        max_total_bytes: args.total_bytes.0,
        max_time: args.time,
        once: args.once,
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
