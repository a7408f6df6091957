//! A recording into a pipe: the same stream, for a program that reads it while it is made.

use super::columns::schema;
use super::rows::{BATCH_ROWS, Rows};
use super::writer::{END_OF_STREAM, Encoder, FLUSH_AFTER};
use crate::{Item, Session};
use arrow_schema::ArrowError;
use std::io::{self, Write};
use std::time::Instant;

/// Writes the stream of a recording to whatever takes bytes. A row waits [`FLUSH_AFTER`] at most, if
/// [`PipeWriter::flush_due`] is called.
pub struct PipeWriter<W: Write> {
    out: W,
    encoder: Encoder,
    rows: Rows,
    /// Since when the oldest row has waited.
    oldest: Option<Instant>,
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
        Ok(PipeWriter { out, encoder, rows, oldest: None })
    }

    /// Takes items, and writes what is due by `now`.
    ///
    /// # Errors
    /// If the pipe cannot be written: who read from it is gone.
    pub fn write(&mut self, items: &[Item], now: Instant) -> io::Result<()> {
        for item in items {
            if self.rows.is_full() {
                self.flush()?;
            }
            self.rows.push(item);
            self.oldest.get_or_insert(now);
        }
        self.flush_due(now)
    }

    /// Writes what has waited long enough by `now`.
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

    /// Writes the rest and the end of the stream.
    ///
    /// # Errors
    /// As [`PipeWriter::write`].
    pub fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        self.out.write_all(&END_OF_STREAM)?;
        self.out.flush()?;
        Ok(self.out)
    }
}

fn encode_error(error: ArrowError) -> io::Error {
    io::Error::other(error)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::{Reader, Tail};
    use super::*;
    use crate::{Event, Flow, FlowId};
    use std::sync::Arc;

    #[test]
    fn what_is_written_is_read_back_while_it_is_made_and_at_the_end() {
        let session = Session::default();
        let flow = Flow { id: FlowId(7), ..Flow::default() };
        let event = |mono_ns| Item::Event(Event { flow: FlowId(7), mono_ns, ..Event::default() });
        let now = Instant::now();
        let mut pipe = PipeWriter::new(Vec::new(), &session).unwrap();
        pipe.write(&[Item::Flow(Arc::new(flow)), event(1)], now).unwrap();
        let before = pipe.out.len();
        pipe.flush_due(now + FLUSH_AFTER / 2).unwrap();
        assert_eq!(pipe.out.len(), before, "it is not due yet");
        pipe.flush_due(now + FLUSH_AFTER).unwrap();
        let midway = pipe.out.clone();
        let rest: Vec<Item> = (2..20_000).map(event).collect();
        pipe.write(&rest, now + FLUSH_AFTER).unwrap();
        let whole = pipe.finish().unwrap();
        for (bytes, events, complete) in [(midway, 1, false), (whole, 19_999, true)] {
            let mut reader = Reader::new(&bytes[..], "the pipe".to_owned()).unwrap();
            let mut items = Vec::new();
            while let Some(batch) = reader.next_batch().unwrap() {
                items.extend(batch);
            }
            let found = items.iter().filter(|item| matches!(item, Item::Event(_))).count();
            assert_eq!(found, events);
            assert_eq!(reader.tail() == Some(Tail::Complete), complete);
        }
    }
}
