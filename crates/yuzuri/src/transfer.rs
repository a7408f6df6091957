//! `yuzuri send` and `yuzuri receive`.

use crate::cli::{ReceiveArgs, SendArgs};
use crate::own_record::OwnRecord;
use crate::own_share::OwnShare;
use std::process::ExitCode;
use yuzuri_signals::stop_flag;
use yuzuri_transfer::{
    Family, JsonLines, Limits, ReceiveEvent, ReceiveOptions, ReceiveText, Report, SendEvent, SendOptions,
    SendText,
};

/// Sends.
pub fn send(args: SendArgs) -> anyhow::Result<ExitCode> {
    let stop = stop_flag()?;
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
    let share = OwnShare::start(&args.share, options.interface.as_deref())?;
    let record = args.record.as_deref().map(|path| OwnRecord::start(path, args.overwrite)).transpose()?;
    options.shown = match (&share, &record) {
        (Some(share), Some(record)) => Some(share.shown().and(record.shown())),
        (Some(share), None) => Some(share.shown()),
        (None, record) => record.as_ref().map(OwnRecord::shown),
    };
    let mut json = JsonLines(std::io::stdout());
    let mut text = SendText::standard();
    let report: &mut dyn Report<SendEvent> = if args.json { &mut json } else { &mut text };
    let sent = yuzuri_transfer::send(&options, report, &stop);
    // Each is ended, whatever became of the others.
    let recorded = record.map_or(Ok(()), OwnRecord::finish);
    let shared = share.map_or(Ok(()), OwnShare::finish);
    sent?;
    recorded?;
    shared?;
    Ok(ExitCode::SUCCESS)
}

/// Receives.
pub fn receive(args: ReceiveArgs) -> anyhow::Result<ExitCode> {
    let stop = stop_flag()?;
    let options = ReceiveOptions {
        bind: args.bind,
        port: args.port,
        max_connections: args.connections,
        max_bytes: args.bytes,
        max_time: args.time,
        once: args.once,
        ..ReceiveOptions::default()
    };
    let mut json = JsonLines(std::io::stdout());
    let mut text = ReceiveText::standard();
    let report: &mut dyn Report<ReceiveEvent> = if args.json { &mut json } else { &mut text };
    yuzuri_transfer::receive(&options, report, &stop)?;
    Ok(ExitCode::SUCCESS)
}
