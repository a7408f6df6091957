//! How a recording ended.

/// How a recording ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// With its end mark, a row of kind `end`: whoever wrote it finished it, and all of it is there.
    Complete,
    /// With a whole batch, but without the end mark: the writer was killed or lost power, could not write to the
    /// end, or is still at work.
    Unfinished,
    /// In the midst of things: the file was cut off after it was written, or the power failed. A killed writer or a
    /// full disk does not do that.
    Truncated {
        /// Where the first message begins that is not whole.
        at: u64,
    },
    /// With a whole batch, and a Yuzuri wrote it that knew no end mark: it may be all there was, or not.
    Unknown,
}

impl Tail {
    /// Whether all of the recording is there; `None` where that is not known.
    pub fn complete(self) -> Option<bool> {
        match self {
            Tail::Complete => Some(true),
            Tail::Unfinished | Tail::Truncated { .. } => Some(false),
            Tail::Unknown => None,
        }
    }

    /// What it is called where programs read it.
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
                "was never finished: its writer was killed, lost power, could not write its end, or is still at work; \
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
