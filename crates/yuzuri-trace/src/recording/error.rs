//! Errors of recordings, worded for the user.

use std::io;
use std::path::PathBuf;

/// A recording could not be written.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file exists and overwriting was not requested.
    #[error("{} exists already: choose another name, remove it, or allow overwriting it", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// Another writer holds the file's lock.
    #[error("{} is being written by another yuzuri: choose another name or stop that one", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The path names a folder, a pipe or a device: the format needs a file that can be written in
    /// place.
    #[error("cannot record to {}: it is not a regular file; choose the name of a file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The file could not be created.
    #[error("cannot create the recording {}: {source}; {}", path.display(), advice(source))]
    Create {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file could not be extended. Everything written before is complete and readable.
    #[error("cannot add to the recording {}: {source}; its content so far is readable; {}", path.display(), advice(source))]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Rows could not be converted to Arrow: a bug in Yuzuri.
    #[error("cannot encode rows for {}: {source}; this is a bug in yuzuri; please report it", path.display())]
    Encode {
        /// The file.
        path: PathBuf,
        /// Arrow's error.
        source: arrow_schema::ArrowError,
    },
}

fn advice(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free some space there: recording continues by itself as soon as there is space"
        }
        io::ErrorKind::FileTooLarge => {
            "the limit on file sizes is reached (ulimit -f, or the file system's own)"
        }
        io::ErrorKind::NotFound => "make the folder first",
        io::ErrorKind::PermissionDenied => "choose a folder you may write to",
        io::ErrorKind::ReadOnlyFilesystem => "choose a folder on a writable file system",
        _ => "check the disk (dmesg), or record to another one",
    }
}

fn open_advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "check its name",
        io::ErrorKind::PermissionDenied => "check its permissions",
        _ => "check that it is a readable file",
    }
}

/// A recording could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file could not be opened.
    #[error("cannot open {name}: {source}; {}", open_advice(source))]
    Open {
        /// The file.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// The file could not be read.
    #[error("cannot read the recording {name} at byte {at}: {source}")]
    Io {
        /// The file.
        name: String,
        /// How far reading got.
        at: u64,
        /// Why.
        source: io::Error,
    },
    /// The file is not a recording.
    #[error("{name} is not a yuzuri recording: {why}")]
    NotARecording {
        /// The file.
        name: String,
        /// The apparent format.
        why: String,
    },
    /// A later Yuzuri wrote it in a format unknown to this one.
    #[error(
        "{name} has recording format {found}, written by yuzuri {by}; this yuzuri reads up to {}: update yuzuri, \
         or open the file with any tool that reads Arrow streams",
        super::FORMAT_VERSION
    )]
    Newer {
        /// The file.
        name: String,
        /// The format version it states.
        found: String,
        /// The version of Yuzuri that wrote it.
        by: String,
    },
    /// The bytes contradict each other. Everything before that position was read.
    #[error("{name} is damaged at byte {at}: {why}; everything before that position is readable")]
    Damaged {
        /// The file.
        name: String,
        /// Where the invalid message begins.
        at: u64,
        /// What is wrong with it.
        why: String,
    },
}

/// A recording could not be converted.
#[derive(Debug, thiserror::Error)]
pub enum ConvertError {
    /// The recording could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The result could not be written.
    #[error(
        "cannot write the converted recording: {0}; check the space left and the permission to write there"
    )]
    Write(#[source] Box<dyn std::error::Error + Send + Sync>),
}

#[cfg(feature = "convert")]
impl ConvertError {
    /// The result could not be written, by Arrow's, Parquet's or the system's error.
    pub(super) fn write(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ConvertError {
        ConvertError::Write(error.into())
    }
}
