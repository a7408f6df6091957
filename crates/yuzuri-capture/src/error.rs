//! Why a capture could not be opened or read.

/// Why a capture could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file could not be opened or its beginning not read.
    #[error("opening the capture {name}: {source}; check that the file exists and is readable")]
    File {
        /// Which (`standard input` for `-`).
        name: String,
        /// Why.
        source: std::io::Error,
    },
    /// What was opened is not a capture.
    #[error(
        "{name} is not a packet capture: it {looks}. Readable are pcap and pcapng, plain or compressed with gzip, zstd or xz; \
         tcpdump and Wireshark write them"
    )]
    NotACapture {
        /// Which.
        name: String,
        /// What it looks like, such as `is an ELF program`.
        looks: String,
    },
    /// Limits that cannot be.
    #[error("{field} is {value}: {allowed}")]
    Options {
        /// The field of [`Options`](crate::Options).
        field: &'static str,
        /// The value it has.
        value: String,
        /// What is allowed there.
        allowed: &'static str,
    },
}

/// Why reading had to end before the end of the file. A capture that is cut or damaged is none of these: see
/// [`Ending`](crate::Ending).
#[derive(Debug, thiserror::Error)]
#[error("reading the capture {name}: {source} (after {packets} packets); everything before that was read")]
pub struct ReadError {
    /// Which (`standard input` for `-`).
    pub name: String,
    /// Packets that had been read.
    pub packets: u64,
    /// Why.
    pub source: std::io::Error,
}
