//! Reads recordings, including untrusted ones.

use super::columns::{CHECKSUM, COLUMNS, END_ROW, FORMAT, FORMAT_VERSION, INTEGRITY};
use super::frames::{BytesEnd, Columns, Frames};
use super::{ReadError, Tail, decode};
use crate::{Item, Session};
use arrow_schema::Schema;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

/// Reads a recording batch by batch. Its memory is bounded by [`super::MAX_BATCH_ROWS`] and
/// [`super::MAX_BATCH_BYTES`], whatever the file holds.
///
/// A recording that is still being written reads as unfinished, up to the last batch.
pub struct Reader<R> {
    frames: Frames<R>,
    session: Session,
    columns: Columns,
    missing_columns: Vec<&'static str>,
    /// Whether a finished recording in this format has an end mark.
    has_end_mark: bool,
    /// Whether the last row read is the end mark.
    ended: bool,
    unknown_rows: u64,
    failed: bool,
}

impl Reader<BufReader<File>> {
    /// Opens the file.
    ///
    /// # Errors
    /// If it cannot be opened, is not a recording, or has a newer format.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let name = path.display().to_string();
        match File::open(path) {
            Ok(file) => Reader::new(BufReader::with_capacity(256 << 10, file), name),
            Err(source) => Err(ReadError::Open { name, source }),
        }
    }
}

impl<R: Read> Reader<R> {
    /// Reads the recording's head; `name` is the input's name in errors.
    ///
    /// # Errors
    /// If it is not a recording, or has a newer format.
    pub fn new(read: R, name: impl Into<String>) -> Result<Self, ReadError> {
        let mut frames = Frames::new(read, name.into());
        let schema = frames.schema()?;
        let session = session(&schema, &frames.name)?;
        let integrity = schema.metadata.get(INTEGRITY).cloned().unwrap_or_default();
        let has = |word: &str| integrity.split_ascii_whitespace().any(|other| other == word);
        let (columns, missing_columns) = columns(schema, has(CHECKSUM), &frames.name)?;
        let has_end_mark = has(END_ROW);
        Ok(Reader {
            frames,
            session,
            columns,
            missing_columns,
            has_end_mark,
            ended: false,
            unknown_rows: 0,
            failed: false,
        })
    }

    /// Where and how the recording was made.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The columns of this version's recordings that this one lacks, because an older version made
    /// it. Their values are unknown.
    pub fn missing_columns(&self) -> &[&'static str] {
        &self.missing_columns
    }

    /// The items of the next batch, in the order in which they were written; `None` at the end.
    ///
    /// # Errors
    /// If the file cannot be read or is damaged; earlier batches are valid. After an error there
    /// are no more.
    pub fn next_batch(&mut self) -> Result<Option<Vec<Item>>, ReadError> {
        if self.failed {
            return Ok(None);
        }
        match self.frames.batch(&self.columns) {
            Ok(Some(batch)) => {
                let decoded = decode::batch(&batch);
                self.unknown_rows += decoded.unknown_rows;
                // Nothing follows the end mark; an empty batch changes nothing.
                if batch.num_rows() > 0 {
                    self.ended = decoded.ends;
                }
                Ok(Some(decoded.items))
            }
            Ok(None) => Ok(None),
            Err(error) => {
                self.failed = true;
                Err(error)
            }
        }
    }

    /// How the recording ended; `None` while there may be more, and after an error.
    pub fn tail(&self) -> Option<Tail> {
        Some(match self.frames.end()? {
            BytesEnd::Cut { at } => Tail::Truncated { at },
            BytesEnd::Marker if self.ended => Tail::Complete,
            BytesEnd::Marker if self.has_end_mark => Tail::Unfinished,
            BytesEnd::Marker => Tail::Unknown,
        })
    }

    /// Whether the recording is complete, once its end or a damaged position is reached; `None`
    /// also if the recording has an older format without end mark.
    pub fn complete(&self) -> Option<bool> {
        if self.failed { Some(false) } else { self.tail().and_then(Tail::complete) }
    }

    /// Bytes read so far.
    pub fn bytes_read(&self) -> u64 {
        self.frames.at()
    }

    /// Rows skipped because a later version of Yuzuri wrote them and this one does not know their
    /// kind.
    pub fn unknown_rows(&self) -> u64 {
        self.unknown_rows
    }

    /// All items, one after the other.
    pub fn items(mut self) -> impl Iterator<Item = Result<Item, ReadError>> {
        let mut batch = Vec::new().into_iter();
        std::iter::from_fn(move || {
            loop {
                if let Some(item) = batch.next() {
                    return Some(Ok(item));
                }
                match self.next_batch() {
                    Ok(Some(items)) => batch = items.into_iter(),
                    Ok(None) => return None,
                    Err(error) => return Some(Err(error)),
                }
            }
        })
    }
}

/// Whether a writer holds the file: a recording without an end mark may then still get one.
pub fn is_being_written(path: &Path) -> bool {
    // The writer's lock is exclusive. A shared lock that succeeds is released immediately.
    File::open(path).is_ok_and(|file| {
        Flock::lock(file, FlockArg::LockSharedNonblock).is_err_and(|(_, errno)| errno == Errno::EWOULDBLOCK)
    })
}

/// Checks that it is a recording of a format we know, and reads its session.
fn session(schema: &Schema, name: &str) -> Result<Session, ReadError> {
    let not = |why: String| ReadError::NotARecording { name: name.to_owned(), why };
    let get = |key: &str| schema.metadata.get(key).map(String::as_str);
    if get("format") != Some(FORMAT) {
        return Err(not("it is an Arrow stream of another kind".into()));
    }
    let version = get("format_version").unwrap_or("(none)");
    let number: u32 = version.parse().map_err(|_| not(format!("its format version is {version}")))?;
    if number > FORMAT_VERSION {
        return Err(ReadError::Newer {
            name: name.to_owned(),
            found: version.to_owned(),
            by: get("yuzuri").unwrap_or("(unknown)").to_owned(),
        });
    }
    let session = get("session").ok_or_else(|| not("it has no session".into()))?;
    serde_json::from_str(session).map_err(|e| not(format!("its session cannot be read ({e})")))
}

/// The columns we know; others come from a later version and are ignored.
fn columns(schema: Schema, checksums: bool, name: &str) -> Result<(Columns, Vec<&'static str>), ReadError> {
    let not = |why: String| ReadError::NotARecording { name: name.to_owned(), why };
    let (mut projection, mut missing) = (Vec::with_capacity(COLUMNS.len()), Vec::new());
    for column in COLUMNS {
        let required = matches!(column.name, "kind" | "mono_ns");
        match schema.column_with_name(column.name) {
            Some((index, field)) if *field.data_type() == column.kind.arrow() => projection.push(index),
            Some((_, field)) => {
                return Err(not(format!("its column {} is {}", column.name, field.data_type())));
            }
            None if required => return Err(not(format!("it has no column {}", column.name))),
            None => missing.push(column.name),
        }
    }
    let columns = Columns::new(schema, projection, checksums).map_err(|why| not(why.to_string()))?;
    Ok((columns, missing))
}
