//! A file before it is known what it is: its beginning is looked at, and put back.

use crate::error::IdentifyError;
use flate2::read::MultiGzDecoder;
use serde::Serialize;
use std::fs::File;
use std::io::{self, Chain, Cursor, Read};
use std::path::Path;

/// Of the file as it lies there: more than a block of any of the compressions, so that something can be unpacked.
const RAW_BYTES: usize = 256 << 10;
/// Of it unpacked: lines of a trace may come long after its beginning.
const UNPACKED_BYTES: usize = 64 << 10;
/// What a stream that is to be unpacked may claim in memory.
const MOST_XZ_KIB: u32 = 128 << 10;
const MOST_ZSTD_WINDOW_LOG: u32 = 27;

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Packets.
    Capture,
    /// A recording of this project.
    Recording,
    /// Rows of the kernel's tracepoint `tcp:tcp_probe` as CSV.
    ProbeCsv,
    /// The same as the kernel prints them (`trace_pipe`).
    ProbeTrace,
    /// Output of `ss -ti`, again and again.
    Ss,
}

impl Kind {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Kind::Capture => "capture",
            Kind::Recording => "recording",
            Kind::ProbeCsv => "rows of tcp_probe",
            Kind::ProbeTrace => "trace of tcp_probe",
            Kind::Ss => "output of ss",
        }
    }
}

/// A reader that tells how much was read.
pub struct Counted<'a> {
    reader: Box<dyn Read + Send>,
    tell: &'a (dyn Fn(u64) + Sync),
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        (self.tell)(count as u64);
        Ok(count)
    }
}

/// The file with its beginning put back.
pub type Whole<'a> = Chain<Cursor<Vec<u8>>, Counted<'a>>;

/// An open file whose kind is known.
pub struct Input<'a> {
    /// What it is; `None`: none of those that are read.
    pub kind: Option<Kind>,
    /// All of it.
    pub whole: Whole<'a>,
}

impl<'a> Input<'a> {
    /// Opens a file, standard input where the path is `-`, and looks at its beginning. `tell` learns how many bytes are read.
    pub fn open(path: &Path, tell: &'a (dyn Fn(u64) + Sync)) -> Result<Input<'a>, IdentifyError> {
        let name = name(path);
        let failed = |source| IdentifyError::Open { name: name.clone(), source };
        let reader: Box<dyn Read + Send> = match path.as_os_str().to_str() {
            Some("-") => Box::new(io::stdin()),
            _ => Box::new(File::open(path).map_err(failed)?),
        };
        let mut reader = Counted { reader, tell };
        let mut beginning = vec![0; RAW_BYTES];
        let mut length = 0;
        // A pipe gives what it has: enough to tell is enough, so that a live capture need not fill this first.
        while length < 4096 {
            match reader.read(&mut beginning[length..]) {
                Ok(0) => break,
                Ok(count) => length += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(failed(source)),
            }
            if looks_like_capture(&beginning[..length]) {
                break;
            }
        }
        while length < RAW_BYTES && packed(&beginning[..length]) {
            match reader.read(&mut beginning[length..]) {
                Ok(0) => break,
                Ok(count) => length += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(failed(source)),
            }
        }
        beginning.truncate(length);
        let kind = kind(&beginning);
        Ok(Input { kind, whole: Cursor::new(beginning).chain(reader) })
    }
}

/// What a path is called in errors and outputs.
pub fn name(path: &Path) -> String {
    if path.as_os_str() == "-" { "standard input".into() } else { path.display().to_string() }
}

fn packed(beginning: &[u8]) -> bool {
    beginning.starts_with(&[0x1f, 0x8b])
        || beginning.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
        || beginning.starts_with(b"\xfd7zXZ\0")
}

/// Unpacks by what the first bytes say; they stay in the stream.
pub fn unpacked<'a>(mut reader: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let mut magic = [0; 6];
    let mut length = 0;
    while length < magic.len() {
        match reader.read(&mut magic[length..]) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let whole = Cursor::new(magic[..length].to_vec()).chain(reader);
    Ok(match &magic[..length] {
        [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(whole)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            let mut decoder = zstd::Decoder::new(whole)?;
            decoder.window_log_max(MOST_ZSTD_WINDOW_LOG)?;
            Box::new(decoder)
        }
        [0xfd, b'7', b'z', b'X', b'Z', 0] => {
            Box::new(lzma_rust2::XzReader::new_mem_limit(whole, true, MOST_XZ_KIB))
        }
        _ => Box::new(whole),
    })
}

fn looks_like_capture(bytes: &[u8]) -> bool {
    const MAGICS: [u32; 3] = [0xa1b2_c3d4, 0xa1b2_3c4d, 0xa1b2_cd34];
    let Some(&first) = bytes.first_chunk() else { return false };
    let magic = u32::from_le_bytes(first);
    MAGICS.into_iter().any(|known| magic == known || magic.swap_bytes() == known) || magic == 0x0a0d_0d0a
}

/// What a file with this beginning is.
fn kind(beginning: &[u8]) -> Option<Kind> {
    let mut text = Vec::new();
    if packed(beginning) {
        // The beginning ends in the midst of the stream: what came until then is enough.
        let mut unpacked = unpacked(beginning).ok()?;
        let mut piece = [0; 4096];
        while text.len() < UNPACKED_BYTES {
            match unpacked.read(&mut piece) {
                Ok(0) | Err(_) => break,
                Ok(count) => text.extend_from_slice(&piece[..count]),
            }
        }
    } else {
        text.extend_from_slice(&beginning[..beginning.len().min(UNPACKED_BYTES)]);
    }
    if looks_like_capture(&text) {
        return Some(Kind::Capture);
    }
    // The continuation marker of an Arrow IPC stream, before its schema.
    if text.starts_with(&[0xff; 4]) && contains(&text, b"yuzuri-recording") {
        return Some(Kind::Recording);
    }
    let text = String::from_utf8_lossy(&text);
    if text.lines().next().is_some_and(crate::known::probe_csv::is_header) {
        return Some(Kind::ProbeCsv);
    }
    if text.lines().any(|line| line.contains("tcp_probe: ") && line.contains(" snd_una=")) {
        return Some(Kind::ProbeTrace);
    }
    // Both stand in every socket's line.
    let ss = text.lines().any(|line| line.contains(" cwnd:") && line.contains("rtt:"));
    ss.then_some(Kind::Ss)
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}
