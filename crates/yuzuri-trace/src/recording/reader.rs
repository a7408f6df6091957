//! Reading a recording, whoever wrote it.

use super::columns::{COLUMNS, FORMAT, FORMAT_VERSION};
use super::frames::{Columns, Frames, Tail};
use super::{ReadError, decode};
use crate::{Item, Session};
use arrow_schema::Schema;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

/// Reads a recording batch by batch; its memory is bounded by [`super::MOST_BATCH_ROWS`] and
/// [`super::MOST_BATCH_BYTES`], whatever the file holds.
///
/// A recording that is still being written reads as whole, up to the last batch.
pub struct Reader<R> {
    frames: Frames<R>,
    session: Session,
    columns: Columns,
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
    /// Reads the recording's head; `name` stands for the input in errors.
    ///
    /// # Errors
    /// If it is not a recording, or has a newer format.
    pub fn new(read: R, name: impl Into<String>) -> Result<Self, ReadError> {
        let mut frames = Frames::new(read, name.into());
        let schema = frames.schema()?;
        let session = session(&schema, &frames.name)?;
        let columns = columns(schema, &frames.name)?;
        Ok(Reader { frames, session, columns, unknown_rows: 0, failed: false })
    }

    /// Where and how the recording was taken.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The items of the next batch, in the order in which they were written; `None` at the end.
    ///
    /// # Errors
    /// If the file cannot be read or is damaged; what came before is good. After an error there is nothing more.
    pub fn next_batch(&mut self) -> Result<Option<Vec<Item>>, ReadError> {
        if self.failed {
            return Ok(None);
        }
        match self.frames.batch(&self.columns) {
            Ok(Some(batch)) => {
                let (items, unknown) = decode::items(&batch);
                self.unknown_rows += unknown;
                Ok(Some(items))
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
        self.frames.tail()
    }

    /// Bytes read so far.
    pub fn bytes_read(&self) -> u64 {
        self.frames.at()
    }

    /// Rows left out because a later version of Yuzuri wrote them and this one does not know their kind.
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

/// The columns we know; others come from a later version and do not matter to this one.
fn columns(schema: Schema, name: &str) -> Result<Columns, ReadError> {
    let not = |why: String| ReadError::NotARecording { name: name.to_owned(), why };
    let mut projection = Vec::with_capacity(COLUMNS.len());
    for column in COLUMNS {
        let required = matches!(column.name, "kind" | "mono_ns");
        match schema.column_with_name(column.name) {
            Some((index, field)) if *field.data_type() == column.kind.arrow() => projection.push(index),
            Some((_, field)) => {
                return Err(not(format!("its column {} is {}", column.name, field.data_type())));
            }
            None if required => return Err(not(format!("it has no column {}", column.name))),
            None => {}
        }
    }
    Columns::new(schema, projection).map_err(not)
}
