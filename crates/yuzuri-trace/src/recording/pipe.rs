//! Writes a recording into a pipe: the same stream, for a program that reads it while it is
//! written.

use super::columns::schema;
use super::encoder::Encoder;
use super::rows::{BATCH_ROWS, Rows};
use super::writer::{END_OF_STREAM, FLUSH_AFTER};
use crate::{Account, Item, Session};
use arrow_schema::ArrowError;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Instant;

/// Writes the stream of a recording to any writer. A row waits [`FLUSH_AFTER`] at most, if
/// [`PipeWriter::flush_due`] is called.
pub struct PipeWriter<W: Write> {
    out: W,
    encoder: Encoder,
    rows: Rows,
    /// Since when the oldest row has waited.
    oldest: Option<Instant>,
    /// The last account written.
    account: Option<Arc<Account>>,
}

impl<W: Write> PipeWriter<W> {
    /// Begins the stream.
    ///
    /// # Errors
    /// If the pipe cannot be written.
    pub fn new(mut out: W, session: &Session) -> io::Result<PipeWriter<W>> {
        let mut encoder = Encoder::new(schema(session)).map_err(encode_error)?;
        out.write_all(&encoder.schema_message().map_err(encode_error)?)?;
        let mut rows = Rows::new(encoder.schema.clone(), session);
        rows.reserve(BATCH_ROWS);
        Ok(PipeWriter { out, encoder, rows, oldest: None, account: None })
    }

    /// Takes items, and writes what is due at `now`.
    ///
    /// # Errors
    /// If the pipe cannot be written: its reader is gone.
    pub fn write(&mut self, items: &[Item], now: Instant) -> io::Result<()> {
        for item in items {
            if self.rows.is_full() {
                self.flush()?;
            }
            if let Item::Account(account) = item {
                self.account = Some(account.clone());
            }
            self.rows.push(item);
            self.oldest.get_or_insert(now);
        }
        self.flush_due(now)
    }

    /// Writes what has waited long enough at `now`.
    ///
    /// # Errors
    /// As [`PipeWriter::write`].
    pub fn flush_due(&mut self, now: Instant) -> io::Result<()> {
        if self.oldest.is_some_and(|oldest| now.duration_since(oldest) >= FLUSH_AFTER) {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.oldest = None;
        if self.rows.is_empty() {
            return Ok(());
        }
        let mut message = Vec::new();
        let batch = self.rows.take().map_err(encode_error)?;
        self.encoder.batch_message(&batch, &mut message).map_err(encode_error)?;
        self.rows.reserve(BATCH_ROWS);
        self.out.write_all(&message)?;
        self.out.flush()
    }

    /// Writes the rest, the end mark and the end of the stream.
    ///
    /// # Errors
    /// As [`PipeWriter::write`].
    pub fn finish(mut self) -> io::Result<W> {
        self.rows.end(self.account.as_deref());
        self.flush()?;
        self.out.write_all(&END_OF_STREAM)?;
        self.out.flush()?;
        Ok(self.out)
    }
}

fn encode_error(error: ArrowError) -> io::Error {
    io::Error::other(error)
}
