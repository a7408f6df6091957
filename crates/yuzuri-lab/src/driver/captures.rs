//! Packet captures at both ends: every frame that a terminal or the server sends or receives, with
//! the driver's timestamps.

use super::{Frame, Port};
use crate::LabError;
use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};
use yuzuri_capture::{Framing, PcapWriter};
use yuzuri_netmodel::Time;

/// A fast compression level, because the writer runs on the driver's thread.
const LEVEL: i32 = 1;

type Compressed = zstd::Encoder<'static, BufWriter<File>>;

struct CaptureFile {
    path: PathBuf,
    writer: PcapWriter<Compressed>,
    /// The first write error. It is reported at the end, so that a full disk does not disturb the
    /// run.
    failed: Option<std::io::Error>,
}

/// What to capture, and where to.
#[derive(Debug, Clone)]
pub struct CaptureConfig {
    /// The folder of the capture files.
    pub folder: PathBuf,
    /// Snapshot length: bytes stored per packet.
    pub snap_bytes: u32,
    /// The terminals' names in station order; they become the file names.
    pub terminals: Vec<String>,
}

/// The captures of a run.
pub(super) struct Captures {
    terminals: Vec<CaptureFile>,
    server: CaptureFile,
    /// Time zero of the driver, nanoseconds since the Unix epoch.
    zero_unix_ns: i64,
}

impl Captures {
    /// Creates a file for each terminal and one for the server.
    pub(super) fn start(config: &CaptureConfig) -> Result<Captures, LabError> {
        let open = |name: &str| {
            let path = config.folder.join(format!("{name}.pcap.zst"));
            let writer = File::create(&path)
                .and_then(|file| zstd::Encoder::new(BufWriter::new(file), LEVEL))
                .and_then(|file| PcapWriter::new(file, Framing::Ethernet, config.snap_bytes))
                .map_err(LabError::file(&path))?;
            Ok(CaptureFile { path, writer, failed: None })
        };
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Captures {
            terminals: config.terminals.iter().map(|name| open(name)).collect::<Result<_, LabError>>()?,
            server: open("server")?,
            zero_unix_ns: unix.as_nanos() as i64,
        })
    }

    /// Records a frame that passes `port`.
    pub(super) fn note(&mut self, port: Port, at: Time, frame: &Frame) {
        let one = match port {
            Port::Terminal(terminal) => self.terminals.get_mut(usize::from(terminal)),
            Port::Server => Some(&mut self.server),
            Port::ApCell | Port::ApWire => None,
        };
        let Some(one) = one else { return };
        if one.failed.is_none() {
            one.failed = {
                let bytes = frame.bytes();
                one.writer.write(self.zero_unix_ns + at.as_nanos() as i64, bytes, bytes.len() as u32).err()
            };
        }
    }

    /// Completes the files.
    pub(super) fn finish(self) -> Result<(), LabError> {
        for one in self.terminals.into_iter().chain([self.server]) {
            let done = match one.failed {
                Some(error) => Err(error),
                None => {
                    one.writer.into_inner().finish().and_then(|mut file| std::io::Write::flush(&mut file))
                }
            };
            done.map_err(LabError::file(&one.path))?;
        }
        Ok(())
    }
}
