//! The sender: opens the connections, runs each in its own thread and reports from the calling
//! thread.

use crate::connect::{connect, resolve};
use crate::connection::{Connection, Failure, Message, Opened, Outcome, Shared, throughput_spread};
use crate::events::{Note, Progress, SendEvent, SendSummary, rate_bps};
use crate::options::Budget;
use crate::report::{Report, report_failure};
use crate::throughput_histogram::RateHistogram;
use crate::{SendError, SendOptions};
use parking_lot::Mutex;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

/// Number of events that may queue up for a slow report before the connections block.
const MAX_QUEUED_MESSAGES: usize = 4096;

/// Sends buffers according to `options` and passes events to `report`. Ends early, within
/// [`linger`](SendOptions::linger), once `stop` is set. A stop is not an error;
/// [`SendSummary::stopped`] reports it.
///
/// # Errors
/// Returns a [`SendError`] if the transfer did not take place or ended before its limit. Everything
/// sent until then has been reported.
pub fn send(
    options: &SendOptions,
    report: &mut dyn Report<SendEvent>,
    stop: &AtomicBool,
) -> Result<SendSummary, SendError> {
    report_failure(run(options, report, stop), report, |kind, message| SendEvent::Failed { kind, message })
}

fn run(
    options: &SendOptions,
    report: &mut dyn Report<SendEvent>,
    stop: &AtomicBool,
) -> Result<SendSummary, SendError> {
    options.check()?;
    let addresses = resolve(&options.target, options)?;
    let mut opened = Vec::new();
    for number in 0..options.connections {
        let (socket, peer) = connect(&addresses, options, stop)?;
        let connection = Opened::new(number, socket, peer, options).map_err(|source| SendError::Socket {
            doing: format!("configure the connection to {peer}"),
            source,
        })?;
        report.report(&SendEvent::Connected(connection.connected.clone())).map_err(SendError::Report)?;
        opened.push(connection);
    }
    let started = Instant::now();
    let shared = Shared {
        options,
        budget: Mutex::new(Budget::new(options)),
        stop,
        cancelled: AtomicBool::new(false),
        deadline: options.limits.deadline().and_then(|time| started.checked_add(time)),
        acked: AtomicU64::new(0),
    };
    let (sender, messages) = sync_channel::<Message>(MAX_QUEUED_MESSAGES);
    std::thread::scope(|scope| {
        for opened in opened {
            let (sender, shared) = (sender.clone(), &shared);
            scope.spawn(move || {
                // The reporting thread receives until every connection has sent `Finished`, so
                // sending cannot fail.
                let report = |message| drop(sender.send(message));
                let outcome = Connection::new(opened, shared, &report).run();
                report(Message::Finished(Box::new(outcome)));
            });
        }
        drop(sender);
        Reporter::new(&shared, report, started).run(&messages)
    })
}

struct Reporter<'a> {
    shared: &'a Shared<'a>,
    report: &'a mut dyn Report<SendEvent>,
    started: Instant,
    next_progress: Instant,
    last_progress: (Instant, u64),
    throughput_histogram: RateHistogram,
    outcomes: Vec<Outcome>,
    report_error: Option<io::Error>,
}

impl<'a> Reporter<'a> {
    fn new(shared: &'a Shared<'a>, report: &'a mut dyn Report<SendEvent>, started: Instant) -> Self {
        Reporter {
            shared,
            report,
            started,
            next_progress: started + shared.options.progress_interval,
            last_progress: (started, 0),
            throughput_histogram: RateHistogram::default(),
            outcomes: Vec::new(),
            report_error: None,
        }
    }

    fn run(mut self, messages: &Receiver<Message>) -> Result<SendSummary, SendError> {
        loop {
            let wait = self.next_progress.saturating_duration_since(Instant::now());
            match messages.recv_timeout(wait) {
                Ok(Message::Buffer(buffer)) => {
                    if buffer.complete {
                        self.throughput_histogram.add(buffer.throughput_bps);
                    }
                    self.pass_on(&SendEvent::Buffer(*buffer));
                }
                Ok(Message::Note(connection, text)) => {
                    self.pass_on(&SendEvent::Note(Note { connection, text }))
                }
                Ok(Message::Finished(outcome)) => self.outcomes.push(*outcome),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if Instant::now() >= self.next_progress {
                let progress = self.progress();
                self.pass_on(&SendEvent::Progress(progress));
                self.next_progress = Instant::now() + self.shared.options.progress_interval;
            }
        }
        self.end()
    }

    /// Passes an event to the report. After a failed report nothing more is passed on, and the
    /// transfer ends.
    fn pass_on(&mut self, event: &SendEvent) {
        if self.report_error.is_none()
            && let Err(error) = self.report.report(event)
        {
            self.report_error = Some(error);
            self.shared.cancelled.store(true, Ordering::Relaxed);
        }
    }

    fn progress(&mut self) -> Progress {
        let now = Instant::now();
        let acked = self.shared.acked.load(Ordering::Relaxed);
        let (then, acked_then) = std::mem::replace(&mut self.last_progress, (now, acked));
        let elapsed = now - self.started;
        let options = self.shared.options;
        let total_bytes = options.limits.total_bytes(options.buffer_bytes);
        let time_left = self.shared.deadline.map(|deadline| deadline.saturating_duration_since(now));
        let bytes_time = total_bytes
            .filter(|_| acked > 0)
            .map(|total| elapsed.mul_f64((total.saturating_sub(acked) as f64 / acked as f64).min(1e9)));
        let remaining = [time_left, bytes_time].into_iter().flatten().min();
        Progress {
            elapsed_ns: nanos(elapsed),
            bytes_acked: acked,
            rate_bps: rate_bps(acked - acked_then, nanos(now - then)),
            total_bytes,
            left_ns: remaining.map(nanos),
        }
    }

    fn end(mut self) -> Result<SendSummary, SendError> {
        self.outcomes.sort_by_key(|outcome| outcome.summary.connection);
        let summary = self.summary();
        self.pass_on(&SendEvent::Summary(summary.clone()));
        if let Some(error) = self.report_error {
            return Err(SendError::Report(error));
        }
        let failed = self.outcomes.into_iter().find_map(|outcome| {
            let Outcome { summary, failure, .. } = outcome;
            failure.map(|failure| (summary, failure))
        });
        let Some((connection, failure)) = failed else { return Ok(summary) };
        let (connection, peer, acked_bytes) =
            (connection.connection, connection.peer, connection.bytes_acked);
        let summary = Box::new(summary);
        Err(match failure {
            Failure::Closed { source, peer_text } => {
                SendError::Closed { connection, peer, acked_bytes, peer_text, source, summary }
            }
            Failure::Stalled { silent_for, window_closed } => {
                SendError::Stalled { connection, peer, acked_bytes, silent_for, window_closed, summary }
            }
            Failure::Network(source) => SendError::Network { connection, peer, acked_bytes, source, summary },
        })
    }

    fn summary(&self) -> SendSummary {
        let all = || self.outcomes.iter().map(|outcome| &outcome.summary);
        let first = self.outcomes.iter().filter_map(|outcome| outcome.first_write_mono_ns).min();
        let last = self.outcomes.iter().filter_map(|outcome| outcome.last_ack_mono_ns).max();
        let duration_ns = first.zip(last).map_or(0, |(first, last)| last.saturating_sub(first));
        let bytes_acked = all().map(|connection| connection.bytes_acked).sum();
        SendSummary {
            bytes_acked,
            bytes_unacknowledged: all().map(|connection| connection.bytes_unacknowledged).sum(),
            buffers: all().map(|connection| connection.buffers).sum(),
            duration_ns,
            throughput_bps: rate_bps(bytes_acked, duration_ns),
            per_buffer: throughput_spread(&self.throughput_histogram),
            total_retrans: all().map(|connection| connection.total_retrans).sum(),
            stopped: self.shared.stop.load(Ordering::Relaxed),
            connections: all().cloned().collect(),
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
