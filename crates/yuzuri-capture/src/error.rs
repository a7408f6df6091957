//! Why a capture could not be opened or read.

/// Why a capture could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file could not be opened, or its beginning could not be read.
    #[error("opening the capture {name}: {source}; check that the file exists and is readable")]
    File {
        /// The file's name (`standard input` for `-`).
        name: String,
        /// The error.
        source: std::io::Error,
    },
    /// The file is not a capture.
    #[error(
        "{name} is not a packet capture: it {looks}. Yuzuri reads pcap, pcapng, snoop and ERF, plain or compressed with gzip, zstd or xz; \
         tcpdump and Wireshark write them"
    )]
    NotACapture {
        /// The file's name.
        name: String,
        /// What the file looks like, such as `is an ELF program`.
        looks: String,
    },
    /// An option is out of range.
    #[error("{field} is {value}: {allowed}")]
    Options {
        /// The field of [`Options`](crate::Options).
        field: &'static str,
        /// Its value.
        value: String,
        /// The values allowed.
        allowed: &'static str,
    },
}

/// Why reading stopped before the end of the file. A truncated or damaged capture is not an error:
/// see [`Ending`](crate::Ending).
#[derive(Debug, thiserror::Error)]
#[error("reading the capture {name}: {source} (after {packets} packets); everything before that was read")]
pub struct ReadError {
    /// The file's name (`standard input` for `-`).
    pub name: String,
    /// Packets read before the error.
    pub packets: u64,
    /// The error.
    pub source: std::io::Error,
}
