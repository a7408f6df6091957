//! How a recording ended.

/// How a recording ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// With its end mark, a row of kind `end`: its writer finished it, and it is complete.
    Complete,
    /// After a complete batch, but without the end mark: the writer was killed or lost power, could
    /// not write to the end, or is still running.
    Unfinished,
    /// Within a message: the file was truncated after it was written, or the power failed. A killed
    /// writer or a full disk does not cause this.
    Truncated {
        /// Where the first incomplete message begins.
        at: u64,
    },
    /// After a complete batch, written by a Yuzuri without end marks: it may be complete, or not.
    Unknown,
}

impl Tail {
    /// Whether the recording is complete; `None` if that is unknown.
    pub fn complete(self) -> Option<bool> {
        match self {
            Tail::Complete => Some(true),
            Tail::Unfinished | Tail::Truncated { .. } => Some(false),
            Tail::Unknown => None,
        }
    }

    /// Its name in machine-readable output.
    pub fn name(self) -> &'static str {
        match self {
            Tail::Complete => "finished",
            Tail::Unfinished => "unfinished",
            Tail::Truncated { .. } => "cut",
            Tail::Unknown => "unknown",
        }
    }
}

impl std::fmt::Display for Tail {
    /// The predicate of a sentence about the recording.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Tail::Complete => f.write_str("is complete"),
            Tail::Unfinished => f.write_str(
                "was never finished: its writer was killed, lost power, could not write its end, or is still running; \
                 every whole batch in it was read",
            ),
            Tail::Truncated { at } => {
                write!(f, "is cut: it ends within the message that begins at byte {at}; every whole batch before that was read")
            }
            Tail::Unknown => f.write_str(
                "has an older format without an end mark: it is not known whether it is complete",
            ),
        }
    }
}
