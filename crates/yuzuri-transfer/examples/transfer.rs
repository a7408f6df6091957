//! Command-line example for the transfer library. Options follow the address:
//!
//! ```text
//! transfer receive [PORT] [once] [json]
//! transfer send HOST:PORT [SECONDS] [xCONNECTIONS] [wait] [poll] [json] [cc=NAME] [buffers=N] [size=BYTES]
//! ```

use std::io::stdout;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use yuzuri_transfer::{
    JsonLines, ReceiveOptions, ReceiveText, Report, SendEvent, SendOptions, SendText, receive, send,
};

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn sender(args: &[String]) -> Outcome {
    let (target, args) = args.split_first().ok_or("give HOST:PORT")?;
    let mut options = SendOptions::new(target.parse()?);
    let mut json = false;
    for arg in args {
        if let Some(count) = arg.strip_prefix('x') {
            options.connections = count.parse()?;
        } else if let Some(name) = arg.strip_prefix("cc=") {
            options.congestion_control = Some(name.to_owned());
        } else if let Some(count) = arg.strip_prefix("buffers=") {
            options.limits.buffers = Some(count.parse()?);
        } else if let Some(bytes) = arg.strip_prefix("size=") {
            options.buffer_bytes = bytes.parse()?;
        } else {
            match arg.as_str() {
                "wait" => options.wait_ack = true,
                "poll" => options.stamps = false,
                "json" => json = true,
                seconds => options.limits.time = Some(Duration::from_secs_f64(seconds.parse()?)),
            }
        }
    }
    let report: &mut dyn Report<SendEvent> =
        if json { &mut JsonLines(stdout()) } else { &mut SendText::standard() };
    send(&options, report, &AtomicBool::new(false))?;
    Ok(())
}

fn receiver(args: &[String]) -> Outcome {
    let mut options = ReceiveOptions::default();
    let mut json = false;
    for arg in args {
        match arg.as_str() {
            "once" => options.once = true,
            "json" => json = true,
            port => options.port = port.parse()?,
        }
    }
    let stop = AtomicBool::new(false);
    if json {
        receive(&options, &mut JsonLines(stdout()), &stop)?;
    } else {
        receive(&options, &mut ReceiveText::standard(), &stop)?;
    }
    Ok(())
}

fn main() -> Outcome {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.split_first() {
        Some((arg, rest)) if arg == "send" => sender(rest),
        Some((arg, rest)) if arg == "receive" => receiver(rest),
        _ => Err("give send or receive".into()),
    }
}
