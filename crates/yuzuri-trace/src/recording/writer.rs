//! Writes a recording that is valid at every moment.

use super::RecordError;
use super::columns::schema;
use super::encoder::Encoder;
use super::reserve::{RESERVE_BYTES, reserve};
use super::rows::{BATCH_ROWS, Rows};
use crate::{Account, Item, LossReason, Session};
use arrow_schema::ArrowError;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A row waits at most this long for its batch. Together with the 50 ms for which a watch gathers
/// records and the caller's interval of up to 100 ms, this is less than the second that may be
/// lost.
pub const FLUSH_AFTER: Duration = Duration::from_millis(800);

/// After an error, writing is retried at this interval.
pub const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Identities and settings kept after an error, so that later rows can be understood.
const MAX_OWED: usize = 10_000;

/// The end-of-stream marker of Arrow.
pub(super) const END_OF_STREAM: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
const PREFIX: u64 = END_OF_STREAM.len() as u64;

/// Writes a recording.
///
/// The file is a valid Arrow stream at every moment, so that neither `kill -9` nor a full disk can
/// corrupt it. A batch is first written *after* the end-of-stream marker, followed by a new marker,
/// where no reader looks; then four aligned bytes turn the old marker into the batch's beginning.
/// Behind that, the writer reserves room for the last account and the end mark, so that a recording
/// can state its losses even on a full disk.
///
/// The caller supplies the time: call [`Writer::flush_due`] at least every 100 ms while there is
/// nothing to write.
pub struct Writer {
    file: Flock<File>,
    path: PathBuf,
    encoder: Encoder,
    rows: Rows,
    /// Since when the oldest row outside the file has waited.
    oldest: Option<Instant>,
    /// A message that could not be written yet, with its end-of-stream marker, and its number of
    /// items.
    pending: Vec<u8>,
    pending_records: u64,
    pending_rows: u64,
    /// Records in `rows`: events and identities.
    records: u64,
    /// The last account taken.
    account: Option<Arc<Account>>,
    /// The offset of the end-of-stream marker.
    end: u64,
    /// The checksum of the message before it.
    checksum: u32,
    retry_at: Option<Instant>,
    /// Identities and settings that arrived while writing failed.
    owed: Vec<Item>,
    lost: u64,
    /// Why the last attempt to write failed, once the affected rows were discarded.
    failed: Option<RecordError>,
    written_rows: u64,
}

/// How a recording ended.
#[derive(Debug)]
pub struct Summary {
    /// Rows in the file.
    pub rows: u64,
    /// The file's length.
    pub bytes: u64,
    /// Events and identities missing because writing failed.
    pub lost: u64,
    /// Whether it has its end mark.
    pub finished: bool,
    /// Why writing failed at the end; the file is readable nevertheless.
    pub failed: Option<RecordError>,
}

impl Writer {
    /// Begins a recording at `path`. An existing file is replaced only if `overwrite` is set.
    ///
    /// # Errors
    /// If the file exists (and is not to be replaced), is being written by another process, is not
    /// a regular file, or cannot be created.
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
        let checksum = encoder.checksum;
        head.extend_from_slice(&END_OF_STREAM);
        let written = file
            .set_len(0)
            .and_then(|()| reserve(&file, 0, head.len() as u64 + RESERVE_BYTES))
            .and_then(|()| file.write_all_at(&head, 0));
        if let Err(source) = written {
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
            pending_records: 0,
            pending_rows: 0,
            records: 0,
            account: None,
            end,
            checksum,
            retry_at: None,
            owed: Vec::new(),
            lost: 0,
            failed: None,
            written_rows: 0,
        })
    }

    /// Takes the items and writes what is due at `now`.
    ///
    /// # Errors
    /// If the file could not be written. The recording stays usable: up to two batches are held,
    /// the rest is counted in [`Writer::lost`], and after each [`RETRY_AFTER`] one of the calls
    /// retries (and returns the error again).
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
        if let Item::Account(account) = item {
            self.account = Some(account.clone());
        }
        if self.rows.is_full() {
            self.lost += records(item);
            if matches!(item, Item::Flow(_) | Item::Setting(_)) && self.owed.len() < MAX_OWED {
                self.owed.push(item.clone());
            }
            return;
        }
        self.rows.push(item);
        self.records += records(item);
        self.oldest.get_or_insert(now);
    }

    /// When [`Writer::flush_due`] is due, if nothing more is written.
    pub fn due(&self) -> Option<Instant> {
        let due = self.oldest? + FLUSH_AFTER;
        Some(self.retry_at.map_or(due, |retry| retry.max(due)))
    }

    /// Writes what has waited long enough at `now`.
    ///
    /// # Errors
    /// As [`Writer::write`].
    pub fn flush_due(&mut self, now: Instant) -> Result<(), RecordError> {
        match self.due() {
            Some(due) if due <= now => self.flush(now),
            _ => Ok(()),
        }
    }

    /// Writes everything held, unless an error occurred less than [`RETRY_AFTER`] ago.
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
            // There is room again: first write what later rows need to be understood.
            for item in std::mem::take(&mut self.owed) {
                self.lost -= records(&item);
                self.push(&item, now);
            }
        }
    }

    /// Encodes the rows as a message.
    fn encode(&mut self) -> Result<(), RecordError> {
        let rows = self.rows.len() as u64;
        let records = std::mem::take(&mut self.records);
        let encoded =
            self.rows.take().and_then(|batch| self.encoder.batch_message(&batch, &mut self.pending));
        self.rows.reserve(BATCH_ROWS);
        if let Err(source) = encoded {
            self.pending.clear();
            self.lost += records;
            return Err(encode_error(&self.path, source));
        }
        self.pending.extend_from_slice(&END_OF_STREAM);
        self.pending_records = records;
        self.pending_rows = rows;
        Ok(())
    }

    /// Writes the pending message, if any, and reserves room for the end.
    fn commit(&mut self) -> Result<(), RecordError> {
        self.commit_with(RESERVE_BYTES)
    }

    fn commit_with(&mut self, room_behind: u64) -> Result<(), RecordError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let (prefix, rest) = self.pending.split_at(PREFIX as usize);
        // The room for the end is reserved before this takes any: on a full disk nothing is
        // written.
        let needed = self.end + self.pending.len() as u64 + room_behind;
        let written = reserve(&self.file, self.end, needed).and_then(|()| {
            let written = self.file.write_all_at(rest, self.end + PREFIX).and_then(|()| {
                // The first four bytes of a message and of the end marker are the same. These four
                // are aligned, so they lie on one page and change atomically, for other readers and
                // for a kill in between.
                self.file.write_all_at(&prefix[4..], self.end + 4)
            });
            if written.is_err() {
                // The bytes are behind the end-of-stream marker, where no reader looks. Truncating
                // them also releases the room for the end; that is reserved again.
                let _ = self.file.set_len(self.end + PREFIX);
                let _ = reserve(&self.file, self.end, self.end + PREFIX + RESERVE_BYTES);
            }
            written
        });
        if let Err(source) = written {
            return Err(RecordError::Write { path: self.path.clone(), source });
        }
        self.end += self.pending.len() as u64 - PREFIX;
        self.checksum = self.encoder.checksum;
        self.written_rows += self.pending_rows;
        self.pending.clear();
        self.pending_records = 0;
        Ok(())
    }

    /// Events and identities that are not in the file because writing failed.
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

    /// Writes everything held, or discards it: [`Writer::lost`] is final afterwards, unless more is
    /// written. Call it before the last account is made.
    pub fn settle(&mut self) -> u64 {
        if let Err(error) = self.try_flush(Instant::now()) {
            self.failed = Some(error);
            self.lost += self.pending_records + self.records;
            self.forget();
        }
        self.lost
    }

    /// Settles, writes the account with this recording's losses added, and finishes. Returns the
    /// account as in the file.
    pub fn conclude(mut self, mut account: Account) -> (Account, Summary) {
        account.lose(LossReason::Recording, self.settle());
        self.push(&Item::Account(Arc::new(account.clone())), Instant::now());
        (account, self.finish())
    }

    /// Writes the rest and the end mark, syncs the file, and reports how the recording ended.
    pub fn finish(mut self) -> Summary {
        if self.pending_records + self.records > 0 || !self.pending.is_empty() {
            let before = self.lost;
            let given_up = self.settle() - before;
            // The reserved room holds the last account, which includes what was discarded just now.
            if self.rows.is_empty()
                && self.failed.is_some()
                && let Some(last) = self.account.take()
            {
                let mut account = last.as_ref().clone();
                account.lose(LossReason::Recording, given_up);
                self.push(&Item::Account(Arc::new(account)), Instant::now());
            }
        }
        self.rows.end(self.account.as_deref());
        let ended = self.encode().and_then(|()| self.commit_with(0));
        let finished = ended.is_ok();
        if let Err(error) = ended {
            self.failed = Some(error);
        }
        // Also releases the room reserved for the end.
        let kept = self.file.set_len(self.bytes()).and_then(|()| self.file.sync_data());
        if let Err(source) = kept {
            self.failed.get_or_insert(RecordError::Write { path: self.path.clone(), source });
        }
        self.forget();
        Summary {
            rows: self.written_rows,
            bytes: self.bytes(),
            lost: self.lost,
            finished,
            failed: self.failed.take(),
        }
    }

    fn forget(&mut self) {
        self.pending.clear();
        // The next message follows the last one in the file.
        self.encoder.checksum = self.checksum;
        self.pending_records = 0;
        self.owed.clear();
        self.records = 0;
        self.oldest = None;
        let _ = self.rows.take();
        self.rows.reserve(BATCH_ROWS);
    }
}

/// The number of records in an item: accounts and settings are not records.
fn records(item: &Item) -> u64 {
    u64::from(matches!(item, Item::Event(_) | Item::Flow(_)))
}

impl Drop for Writer {
    /// Keeps what it can if the caller skips [`Writer::finish`]: a recording without end mark.
    fn drop(&mut self) {
        let _ = self.try_flush(Instant::now());
        // Releases the room for the end.
        let _ = self.file.set_len(self.bytes());
    }
}

fn encode_error(path: &Path, source: ArrowError) -> RecordError {
    RecordError::Encode { path: path.to_owned(), source }
}
