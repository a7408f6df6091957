//! Writing a recording so that it is whole at every moment.

use super::RecordError;
use super::columns::schema;
use super::rows::{BATCH_ROWS, Rows};
use crate::{Item, Session};
use arrow_ipc::writer::{
    DictionaryTracker, EncodedData, IpcDataGenerator, IpcWriteContext, IpcWriteOptions, write_message,
};
use arrow_ipc::{CompressionType, MetadataVersion};
use arrow_schema::{ArrowError, SchemaRef};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A row waits at most this long for its batch: with the caller's own beat of up to 100 ms well below the
/// second that may be lost.
pub const FLUSH_AFTER: Duration = Duration::from_millis(800);

/// After an error, writing is tried again this often.
pub const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Identities and settings kept for the time after an error, so that what follows can be understood.
const MOST_OWED: usize = 10_000;

/// Fast enough for 600,000 rows a second on a part of a core; higher levels gain little on these columns.
const ZSTD_LEVEL: i32 = 1;

/// What ends an Arrow stream.
pub(super) const END_OF_STREAM: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
const PREFIX: u64 = END_OF_STREAM.len() as u64;

/// Writes a recording.
///
/// The file is a whole Arrow stream at every moment, so that neither `kill -9` nor a full disk can spoil it: a
/// batch is first written *behind* the end-of-stream marker, with a new marker after it, where no reader
/// looks; then four aligned bytes turn the old marker into the batch's beginning.
///
/// The clock is handed in: call [`Writer::flush_due`] at least each 100 ms while nothing comes to be written.
pub struct Writer {
    file: Flock<File>,
    path: PathBuf,
    encoder: Encoder,
    rows: Rows,
    /// Since when the oldest row that is not in the file has waited.
    oldest: Option<Instant>,
    /// A message that could not be written yet, with its end-of-stream marker, and how many items it holds.
    pending: Vec<u8>,
    pending_items: u64,
    pending_rows: u64,
    /// Items in `rows`.
    items: u64,
    /// Where the end-of-stream marker lies.
    end: u64,
    retry_at: Option<Instant>,
    /// Identities and settings that came while nothing could be written.
    owed: Vec<Item>,
    lost: u64,
    written_rows: u64,
}

/// What became of a recording.
#[derive(Debug)]
pub struct Summary {
    /// Rows in the file.
    pub rows: u64,
    /// The file's length.
    pub bytes: u64,
    /// Items that are not in it because it could not be written.
    pub lost: u64,
    /// Why the last of them could not be written; the file is readable all the same.
    pub failed: Option<RecordError>,
}

impl Writer {
    /// Begins a recording at `path`. A file that is there is replaced only if `overwrite` is set.
    ///
    /// # Errors
    /// If the file exists (and is not to be replaced), is being written by another process, is not a regular
    /// file, or cannot be made.
    pub fn create(path: &Path, session: &Session, overwrite: bool) -> Result<Writer, RecordError> {
        let failed = |source: io::Error| RecordError::Create { path: path.to_owned(), source };
        let existed = path.exists();
        if existed && !path.is_file() {
            return Err(RecordError::NotAFile { path: path.to_owned() });
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        // Not truncated on opening: another writer may hold it.
        let opened =
            if overwrite { options.create(true).open(path) } else { options.create_new(true).open(path) };
        let file = opened.map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => RecordError::Exists { path: path.to_owned() },
            _ => failed(source),
        })?;
        let file = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| match errno {
            Errno::EWOULDBLOCK => RecordError::Busy { path: path.to_owned() },
            other => failed(other.into()),
        })?;

        let mut encoder = Encoder::new(schema(session)).map_err(|source| encode_error(path, source))?;
        let mut head = encoder.schema_message().map_err(|source| encode_error(path, source))?;
        let end = head.len() as u64;
        head.extend_from_slice(&END_OF_STREAM);
        if let Err(source) = file.set_len(0).and_then(|()| file.write_all_at(&head, 0)) {
            if !existed {
                let _ = std::fs::remove_file(path);
            }
            return Err(failed(source));
        }
        let mut rows = Rows::new(encoder.schema.clone(), session);
        rows.reserve(BATCH_ROWS);
        Ok(Writer {
            file,
            path: path.to_owned(),
            encoder,
            rows,
            oldest: None,
            pending: Vec::new(),
            pending_items: 0,
            pending_rows: 0,
            items: 0,
            end,
            retry_at: None,
            owed: Vec::new(),
            lost: 0,
            written_rows: 0,
        })
    }

    /// Takes the items and writes what is due by `now`.
    ///
    /// # Errors
    /// If the file could not be written. The recording stays usable: up to two batches are held back, what does
    /// not fit is counted in [`Writer::lost`], and one of the calls after each [`RETRY_AFTER`] tries again (and
    /// gives the error again).
    pub fn write(&mut self, items: &[Item], now: Instant) -> Result<(), RecordError> {
        let mut result = Ok(());
        for item in items {
            if self.rows.is_full() {
                result = result.and(self.flush(now));
            }
            self.push(item, now);
        }
        result.and(self.flush_due(now))
    }

    fn push(&mut self, item: &Item, now: Instant) {
        if self.rows.is_full() {
            self.lost += 1;
            if matches!(item, Item::Flow(_) | Item::Setting(_)) && self.owed.len() < MOST_OWED {
                self.owed.push(item.clone());
            }
            return;
        }
        self.rows.push(item);
        self.items += 1;
        self.oldest.get_or_insert(now);
    }

    /// When [`Writer::flush_due`] has something to do, if nothing more is written.
    pub fn due(&self) -> Option<Instant> {
        let due = self.oldest? + FLUSH_AFTER;
        Some(self.retry_at.map_or(due, |retry| retry.max(due)))
    }

    /// Writes what has waited long enough by `now`.
    ///
    /// # Errors
    /// As [`Writer::write`].
    pub fn flush_due(&mut self, now: Instant) -> Result<(), RecordError> {
        match self.due() {
            Some(due) if due <= now => self.flush(now),
            _ => Ok(()),
        }
    }

    /// Writes all that is held, unless an error lies back less than [`RETRY_AFTER`].
    ///
    /// # Errors
    /// As [`Writer::write`].
    pub fn flush(&mut self, now: Instant) -> Result<(), RecordError> {
        if self.retry_at.is_some_and(|retry| now < retry) {
            return Ok(());
        }
        let result = self.try_flush(now);
        match &result {
            Ok(()) => self.retry_at = None,
            Err(_) => self.retry_at = Some(now + RETRY_AFTER),
        }
        result
    }

    fn try_flush(&mut self, now: Instant) -> Result<(), RecordError> {
        self.commit()?;
        loop {
            if !self.rows.is_empty() {
                self.encode()?;
                self.commit()?;
            }
            self.oldest = None;
            if self.owed.is_empty() {
                return Ok(());
            }
            // There is room again: first what the coming rows cannot be understood without.
            for item in std::mem::take(&mut self.owed) {
                self.lost -= 1;
                self.push(&item, now);
            }
        }
    }

    /// Puts the rows into a message.
    fn encode(&mut self) -> Result<(), RecordError> {
        let rows = self.rows.len() as u64;
        let items = std::mem::take(&mut self.items);
        let encoded =
            self.rows.take().and_then(|batch| self.encoder.batch_message(&batch, &mut self.pending));
        self.rows.reserve(BATCH_ROWS);
        if let Err(source) = encoded {
            self.pending.clear();
            self.lost += items;
            return Err(encode_error(&self.path, source));
        }
        self.pending.extend_from_slice(&END_OF_STREAM);
        self.pending_items = items;
        self.pending_rows = rows;
        Ok(())
    }

    /// Writes the message that is pending, if there is one.
    fn commit(&mut self) -> Result<(), RecordError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let (prefix, rest) = self.pending.split_at(PREFIX as usize);
        let written = self.file.write_all_at(rest, self.end + PREFIX).and_then(|()| {
            // The first four bytes of a message and of the end marker are the same. These four are aligned, so
            // they are on one page and change at once, for other readers and for a kill in between.
            self.file.write_all_at(&prefix[4..], self.end + 4)
        });
        if let Err(source) = written {
            // Gives back what the message had taken; if that fails, too, no reader looks there.
            let _ = self.file.set_len(self.end + PREFIX);
            return Err(RecordError::Write { path: self.path.clone(), source });
        }
        self.end += self.pending.len() as u64 - PREFIX;
        self.written_rows += self.pending_rows;
        self.pending.clear();
        self.pending_items = 0;
        Ok(())
    }

    /// Items that did not get into the file because it could not be written.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Whether the last attempt to write failed.
    pub fn is_failing(&self) -> bool {
        self.retry_at.is_some()
    }

    /// Rows in the file.
    pub fn rows(&self) -> u64 {
        self.written_rows
    }

    /// Bytes of the file.
    pub fn bytes(&self) -> u64 {
        self.end + PREFIX
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the rest, asks the disk to keep it, and says what became of the recording.
    pub fn finish(mut self) -> Summary {
        let now = Instant::now();
        let failed = self.try_flush(now).err().or_else(|| {
            self.file.sync_data().err().map(|source| RecordError::Write { path: self.path.clone(), source })
        });
        let lost = self.lost + self.pending_items + self.items;
        // Not tried once more on drop.
        self.forget();
        Summary { rows: self.written_rows, bytes: self.bytes(), lost, failed }
    }

    fn forget(&mut self) {
        self.pending.clear();
        self.owed.clear();
        self.items = 0;
        let _ = self.rows.take();
    }
}

impl Drop for Writer {
    /// Keeps what can be kept where a caller goes without [`Writer::finish`].
    fn drop(&mut self) {
        let _ = self.try_flush(Instant::now());
    }
}

fn encode_error(path: &Path, source: ArrowError) -> RecordError {
    RecordError::Encode { path: path.to_owned(), source }
}

/// Turns batches into the bytes of Arrow messages.
pub(super) struct Encoder {
    pub(super) schema: SchemaRef,
    generator: IpcDataGenerator,
    tracker: DictionaryTracker,
    options: IpcWriteOptions,
    context: IpcWriteContext,
}

impl Encoder {
    pub(super) fn new(schema: arrow_schema::Schema) -> Result<Encoder, ArrowError> {
        // Buffers begin at multiples of 8, not 64: batches of few rows stay small.
        let options = IpcWriteOptions::try_new(8, false, MetadataVersion::V5)?
            .try_with_compression(Some(CompressionType::ZSTD))?
            .try_with_compression_level(Some(ZSTD_LEVEL))?;
        let mut context = IpcWriteContext::default();
        context.set_reserve_scratch(true);
        Ok(Encoder {
            schema: Arc::new(schema),
            generator: IpcDataGenerator::default(),
            tracker: DictionaryTracker::new(true),
            options,
            context,
        })
    }

    pub(super) fn schema_message(&mut self) -> Result<Vec<u8>, ArrowError> {
        let encoded: EncodedData = self.generator.schema_to_bytes_with_dictionary_tracker(
            &self.schema,
            &mut self.tracker,
            &self.options,
        );
        let mut message = Vec::new();
        write_message(&mut message, encoded, &self.options)?;
        Ok(message)
    }

    /// Appends the batch's message to `out`.
    pub(super) fn batch_message(
        &mut self,
        batch: &arrow_array::RecordBatch,
        out: &mut Vec<u8>,
    ) -> Result<(), ArrowError> {
        let (_, encoded) =
            self.generator.encode(batch, &mut self.tracker, &self.options, &mut self.context)?;
        write_message(out, encoded, &self.options)?;
        Ok(())
    }
}
