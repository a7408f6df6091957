//! Consumers of events.

pub(crate) mod human;
pub(crate) mod limit;

use crate::{FailureKind, SendError};
use serde::Serialize;
use std::io::{self, Write};

/// Consumes the events of a sender or a receiver. Closures implement it.
pub trait Report<E> {
    /// Consumes one event.
    ///
    /// # Errors
    /// Returns an error if the event cannot be reported. Any error ends the transfer, because a
    /// measurement that cannot be reported is useless.
    fn report(&mut self, event: &E) -> io::Result<()>;
}

impl<E, F: FnMut(&E) -> io::Result<()>> Report<E> for F {
    fn report(&mut self, event: &E) -> io::Result<()> {
        self(event)
    }
}

/// Reports that a transfer failed, unless the report itself failed. `event`: the message.
pub(crate) fn report_failure<T, E>(
    result: Result<T, SendError>,
    report: &mut dyn Report<E>,
    event: impl FnOnce(FailureKind, String) -> E,
) -> Result<T, SendError> {
    if let Err(error) = &result
        && !matches!(error, SendError::Report(_))
    {
        report.report(&event(error.kind(), error.to_string())).map_err(SendError::Report)?;
    }
    result
}

/// Passes each event to two reports, to the first one first.
pub struct Both<'a, E>(pub &'a mut dyn Report<E>, pub &'a mut dyn Report<E>);

impl<E> Report<E> for Both<'_, E> {
    fn report(&mut self, event: &E) -> io::Result<()> {
        self.0.report(event)?;
        self.1.report(event)
    }
}

/// Writes each event as one line of JSON and flushes it, so that a program that reads from a pipe
/// receives it immediately.
#[derive(Debug)]
pub struct JsonLines<W>(pub W);

impl<E: Serialize, W: Write> Report<E> for JsonLines<W> {
    fn report(&mut self, event: &E) -> io::Result<()> {
        let mut line = serde_json::to_vec(event).map_err(io::Error::other)?;
        line.push(b'\n');
        self.0.write_all(&line)?;
        self.0.flush()
    }
}
