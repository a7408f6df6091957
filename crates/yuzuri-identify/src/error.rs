//! The errors; each message says what to do.

use std::io;
use yuzuri_capture::{OpenError, ReadError};
use yuzuri_stats::counted;
use yuzuri_trace::recording;

/// Why a file could not be read, or an output could not be written.
#[derive(Debug, thiserror::Error)]
pub enum IdentifyError {
    /// It could not be opened, or its beginning could not be read.
    #[error("opening {name}: {source}; {}", open_hint(source))]
    Open {
        /// The file's name (`standard input` for `-`).
        name: String,
        /// The cause.
        source: io::Error,
    },
    /// A folder could not be read.
    #[error("reading the folder {name}: {source}; check that it exists and is readable")]
    Folder {
        /// The file or folder.
        name: String,
        /// The cause.
        source: io::Error,
    },
    /// A folder contains no file with a supported format.
    #[error(
        "the folder {name} contains no capture, recording or window log ({others} other files); it needs files from tcpdump, \
         `yuzuri watch --record`, the tracepoint tcp_probe or `ss -ti`"
    )]
    EmptyFolder {
        /// The file or folder.
        name: String,
        /// Files of other kinds in it.
        others: u64,
    },
    /// It has no supported format.
    #[error(
        "{0}. A recording of yuzuri (*.arrows), rows of the tracepoint tcp_probe and the output of `ss -ti` are read as well"
    )]
    NotOurs(OpenError),
    /// A capture could not be read to its end.
    #[error(transparent)]
    Capture(#[from] ReadError),
    /// A recording could not be read.
    #[error(transparent)]
    Recording(#[from] recording::ReadError),
    /// A log could not be read to its end.
    #[error("reading the log {name}: {source} (after {}); everything before that was read", counted(*rows, "row"))]
    Log {
        /// The file or folder.
        name: String,
        /// Rows that had been read.
        rows: u64,
        /// The cause.
        source: io::Error,
    },
    /// A log has no times.
    #[error(
        "{name} is output of `ss` without timestamps, so windows cannot be traced over time. Print the time before each call, as in \
         `while sleep 0.1; do date +%s.%N; ss -tin; done`"
    )]
    NoTimes {
        /// The file or folder.
        name: String,
    },
    /// An internal error.
    #[error(
        "analysing {name} failed because of a bug in yuzuri (the lines above show where); please report it, with the file if you can share it"
    )]
    Fault {
        /// The file or folder.
        name: String,
    },
    /// Flows could not be written to the temporary file.
    #[error(
        "keeping flows in a temporary file in {}: {source}; check free space and permissions there, or set TMPDIR to another folder",
        std::env::temp_dir().display()
    )]
    Spill {
        /// The cause.
        source: io::Error,
    },
    /// The reader of the output has closed it.
    #[error(transparent)]
    Closed(io::Error),
    /// A chart of the page could not be drawn.
    #[error("drawing a chart for {page}: {source}; please report this with the input")]
    Draw {
        /// The page.
        page: String,
        /// The cause.
        source: crate::html::DrawError,
    },
    /// An output could not be written.
    #[error("writing {name}: {why}; check free space and permissions")]
    Write {
        /// The file or folder.
        name: String,
        /// The cause.
        why: String,
    },
}

impl IdentifyError {
    /// For `map_err` on outputs.
    pub(crate) fn write<E: std::fmt::Display>(name: &std::path::Path) -> impl FnOnce(E) -> IdentifyError {
        let name = name.display().to_string();
        move |why| IdentifyError::Write { name, why: why.to_string() }
    }
}

fn open_hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::NotFound => "check its name",
        io::ErrorKind::PermissionDenied => "ask for the right to read it",
        _ => "check that it is a file and may be read",
    }
}
