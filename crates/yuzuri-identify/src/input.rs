//! A file before it is known what it is: its beginning is looked at, and put back.

use crate::error::IdentifyError;
use serde::Serialize;
use std::fs::File;
use std::io::{self, Chain, Cursor, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use yuzuri_capture::{Compression, Unpacked, is_capture};
use yuzuri_exit::stopped;

/// Of the file as it lies there: more than a block of any of the compressions, so that something can be unpacked.
const RAW_BYTES: usize = 256 << 10;
/// Of it unpacked: lines of a trace may come long after its beginning.
const UNPACKED_BYTES: usize = 64 << 10;
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

/// A reader that tells how much was read, and fails once a stop is wanted: whatever reads, and whatever it looks for, ends soon.
pub struct Watched<'a> {
    reader: Box<dyn Read + Send>,
    tell: &'a (dyn Fn(u64) + Sync),
    stop: &'a AtomicBool,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if stopped(self.stop) {
            return Err(io::Error::other("a stop was wanted"));
        }
        let count = self.reader.read(buffer)?;
        (self.tell)(count as u64);
        Ok(count)
    }
}

/// The file with its beginning put back.
pub type Whole<'a> = Chain<Cursor<Vec<u8>>, Watched<'a>>;

/// A regular file, as long as it was when it was opened: several that read it see the same, though it may be growing.
#[derive(Clone)]
struct Piece {
    file: Arc<File>,
    at: u64,
    end: u64,
}

impl Piece {
    /// `None` if the file is a pipe or a device, or made up by the kernel as it is read.
    fn of(file: &File) -> Option<u64> {
        let metadata = file.metadata().ok()?;
        Some(metadata.len()).filter(|length| metadata.is_file() && *length > 0)
    }
}

impl Read for Piece {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let room = buffer.len().min(left);
        let count = self.file.read_at(&mut buffer[..room], self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// An open file whose kind is known.
pub struct Input<'a> {
    /// What it is; `None`: none of those that are read.
    pub kind: Option<Kind>,
    /// All of it.
    pub whole: Whole<'a>,
    /// What `whole` reads behind the beginning, where it can be read again and is not packed.
    rest: Option<Piece>,
}

impl<'a> Input<'a> {
    /// Opens a file, standard input where the path is `-`, and looks at its beginning. `tell` learns how many bytes are read; once `stop` is set,
    /// all reading fails.
    pub fn open(
        path: &Path,
        stop: &'a AtomicBool,
        tell: &'a (dyn Fn(u64) + Sync),
    ) -> Result<Input<'a>, IdentifyError> {
        let name = name(path);
        let failed = |source| IdentifyError::Open { name: name.clone(), source };
        let (reader, piece): (Box<dyn Read + Send>, _) = match path.as_os_str().to_str() {
            Some("-") => (Box::new(io::stdin()), None),
            _ => {
                let file = File::open(path).map_err(failed)?;
                match Piece::of(&file) {
                    None => (Box::new(file), None),
                    Some(end) => {
                        let piece = Piece { file: Arc::new(file), at: 0, end };
                        (Box::new(piece.clone()), Some(piece))
                    }
                }
            }
        };
        let mut reader = Watched { reader, tell, stop };
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
            if is_capture(&beginning[..length]) {
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
        let rest = piece.filter(|_| !packed(&beginning)).map(|piece| Piece { at: length as u64, ..piece });
        Ok(Input { kind, whole: Cursor::new(beginning).chain(reader), rest })
    }

    /// The same again for so many other readers, of whom nobody is told; none where that cannot be, or is dear.
    pub fn again(&self, readers: usize) -> Vec<Whole<'a>> {
        let Some(rest) = &self.rest else { return Vec::new() };
        let again = || {
            let (beginning, watched) = self.whole.get_ref();
            let reader = Box::new(rest.clone());
            beginning.clone().chain(Watched { reader, tell: &|_| (), stop: watched.stop })
        };
        std::iter::repeat_with(again).take(readers).collect()
    }
}

/// What a path is called in errors and outputs.
pub fn name(path: &Path) -> String {
    if path.as_os_str() == "-" { "standard input".into() } else { path.display().to_string() }
}

fn packed(beginning: &[u8]) -> bool {
    Compression::of(beginning) != Compression::None
}

/// What a file with this beginning is.
fn kind(beginning: &[u8]) -> Option<Kind> {
    let mut text = Vec::new();
    if packed(beginning) {
        // The beginning ends in the midst of the stream: what came until then is enough.
        let (mut unpacked, _) = Unpacked::new(beginning).ok()?;
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
    if is_capture(&text) {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use std::io::Write;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn all(mut whole: Whole<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        whole.read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn whoever_reads_a_file_again_sees_the_same_and_is_not_told_of() {
        let bytes: Vec<u8> = (0..2 * RAW_BYTES).map(|n| (n % 251) as u8).collect();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&bytes).unwrap();
        let told = AtomicU64::new(0);
        let tell = |count: u64| {
            told.fetch_add(count, Ordering::Relaxed);
        };
        let stop = AtomicBool::new(false);
        let input = Input::open(file.path(), &stop, &tell).unwrap();
        file.write_all(b"it grows").unwrap();
        let again = input.again(2);
        assert_eq!(again.len(), 2);
        for whole in again {
            assert!(all(whole) == bytes);
        }
        assert!(all(input.whole) == bytes);
        assert_eq!(told.load(Ordering::Relaxed), bytes.len() as u64);
    }

    #[test]
    fn once_a_stop_is_wanted_all_reading_fails() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&vec![0; 2 * RAW_BYTES]).unwrap();
        let stop = AtomicBool::new(false);
        let input = Input::open(file.path(), &stop, &|_| ()).unwrap();
        let again = input.again(1);
        stop.store(true, Ordering::Relaxed);
        for mut whole in again.into_iter().chain([input.whole]) {
            assert!(io::copy(&mut whole, &mut io::sink()).is_err());
        }
        assert!(Input::open(file.path(), &stop, &|_| ()).is_err());
    }

    #[test]
    fn what_is_packed_or_a_device_is_read_once() {
        let stop = AtomicBool::new(false);
        let mut packed = tempfile::NamedTempFile::new().unwrap();
        packed.write_all(&zstd::encode_all(&b"text"[..], 1).unwrap()).unwrap();
        for path in [packed.path(), Path::new("/dev/null"), Path::new("/proc/self/status")] {
            let input = Input::open(path, &stop, &|_| ()).unwrap();
            assert!(input.again(2).is_empty(), "{}", path.display());
        }
    }
}
