//! Parser of a guest's console: the output of its program with embedded messages (frames) from its
//! init (`guest/init.sh`).

/// A frame, in which the guest's init reports progress. Times are seconds of the guest's clock
/// since it started.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Frame {
    /// The program is about to start.
    Booted(f64),
    /// Another second has passed.
    Time(f64),
    /// The program ended with this exit code.
    Ended(f64, i32),
    /// The results have been copied to the host.
    Copied,
    /// A required step failed.
    Failed(String),
}

/// The kernel's message when it panics.
pub(crate) const PANIC: &str = "Kernel panic";

const START: char = '\u{1e}';
const END: char = '\u{1f}';

/// Separates frames and text. The input may be split at any byte.
#[derive(Debug, Default)]
pub(crate) struct Console {
    /// Bytes of an incomplete UTF-8 character.
    rest: Vec<u8>,
    /// The frame being received.
    frame: Option<String>,
    /// Whether the program is running.
    running: bool,
    /// All text so far, from the kernel and the program.
    pub(crate) text: String,
    /// Text printed while the program was running.
    pub(crate) program: String,
}

impl Console {
    /// Processes input and returns the frames it completes. Text is appended to `text` and, while
    /// the program runs, to `program`.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<Frame> {
        self.rest.extend(bytes);
        let mut frames = Vec::new();
        let whole = match std::str::from_utf8(&self.rest) {
            Ok(_) => self.rest.len(),
            // `None` means that the character is incomplete. Otherwise the bytes are invalid and
            // are replaced.
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => self.rest.len(),
        };
        let taken: Vec<u8> = self.rest.drain(..whole).collect();
        for character in String::from_utf8_lossy(&taken).chars() {
            match (&mut self.frame, character) {
                (_, START) => self.frame = Some(String::new()),
                (Some(frame), END) => {
                    let frame = read(frame);
                    match frame {
                        Some(Frame::Booted(_)) => self.running = true,
                        Some(Frame::Ended(..)) => self.running = false,
                        _ => {}
                    }
                    frames.extend(frame);
                    self.frame = None;
                }
                (Some(frame), _) => frame.push(character),
                // The terminal adds a carriage return to each line.
                (None, '\r') => {}
                (None, _) => {
                    self.text.push(character);
                    if self.running {
                        self.program.push(character);
                    }
                }
            }
        }
        frames
    }

    /// The last 15 non-empty lines. After a kernel panic, the lines up to the panic without the
    /// stack trace.
    pub(crate) fn tail(&self) -> String {
        let end = self.text.find(PANIC).map(|at| at + self.text[at..].find('\n').unwrap_or(0));
        let text = &self.text[..end.unwrap_or(self.text.len())];
        let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }

    /// The first line that contains `mark`.
    pub(crate) fn line_with(&self, mark: &str) -> Option<&str> {
        self.text.lines().find(|l| l.contains(mark)).map(str::trim)
    }
}

fn read(frame: &str) -> Option<Frame> {
    let (word, value) = frame.split_once(' ')?;
    match word {
        "booted" => value.parse().ok().map(Frame::Booted),
        "time" => value.parse().ok().map(Frame::Time),
        "ended" => {
            let (time, code) = value.split_once(' ')?;
            Some(Frame::Ended(time.parse().ok()?, code.parse().ok()?))
        }
        "copied" => Some(Frame::Copied),
        "failed" => Some(Frame::Failed(value.to_owned())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const STREAM: &str = "PCI\r\n\u{1e}booted 1.25\u{1f}a ... \u{1e}time 2.5\u{1f}ök\r\n\u{1e}ended 3.0 101\u{1f}\u{1e}copied 0\u{1f}[down]";

    #[test]
    fn text_and_frames_are_distinguished_wherever_the_pieces_break() {
        let bytes = STREAM.as_bytes();
        for cut in 0..bytes.len() {
            let mut console = Console::default();
            let mut frames = console.feed(&bytes[..cut]);
            frames.extend(console.feed(&bytes[cut..]));
            assert_eq!(console.program, "a ... ök\n", "cut at {cut}");
            assert_eq!(console.text, "PCI\na ... ök\n[down]", "cut at {cut}");
            let expected = [Frame::Booted(1.25), Frame::Time(2.5), Frame::Ended(3.0, 101), Frame::Copied];
            assert_eq!(frames, expected, "cut at {cut}");
        }
    }

    #[test]
    fn invalid_utf8_delays_nothing() {
        let mut console = Console::default();
        assert!(console.feed(b"a\xff\xfeb\n").is_empty());
        assert!(console.text.starts_with('a') && console.text.ends_with("b\n"));
        console.feed(b"Kernel panic - not syncing: x\nend\n");
        assert_eq!(console.line_with(PANIC), Some("Kernel panic - not syncing: x"));
        assert!(console.tail().ends_with("b\nKernel panic - not syncing: x"));
    }
}
