//! Where events go.

pub(crate) mod human;
pub(crate) mod limit;

use serde::Serialize;
use std::io::{self, Write};

/// Takes events of a sender or a receiver. Closures are reports too.
pub trait Report<E> {
    /// Takes one event.
    ///
    /// # Errors
    /// Any error ends the transfer: what cannot be reported is not worth measuring.
    fn report(&mut self, event: &E) -> io::Result<()>;
}

impl<E, F: FnMut(&E) -> io::Result<()>> Report<E> for F {
    fn report(&mut self, event: &E) -> io::Result<()> {
        self(event)
    }
}

/// Gives each event to two reports, the first one first.
pub struct Both<'a, E>(pub &'a mut dyn Report<E>, pub &'a mut dyn Report<E>);

impl<E> Report<E> for Both<'_, E> {
    fn report(&mut self, event: &E) -> io::Result<()> {
        self.0.report(event)?;
        self.1.report(event)
    }
}

/// Writes each event as one line of JSON and flushes it, so that a reader at a pipe sees it at once.
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
