//! What a guest says on its console: the text of its program, and between it the frames of its init (`guest/init.sh`).

/// A frame: the guest's init tells how far it is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Frame {
    /// The program is about to start, at this time of the guest's clock (seconds since it started).
    Booted(f64),
    /// A second has passed.
    Time(f64),
    /// The program ended, with this code.
    Ended(f64, i32),
    /// The results are out.
    Copied,
    /// Something that had to be done was not.
    Failed(String),
}

/// What a kernel says when it gives up.
pub(crate) const PANIC: &str = "Kernel panic";

const START: char = '\u{1e}';
const END: char = '\u{1f}';

/// Takes the console apart, however it comes in pieces.
#[derive(Debug, Default)]
pub(crate) struct Console {
    /// Bytes that may be part of a character still to come.
    rest: Vec<u8>,
    /// A frame that is not whole yet.
    frame: Option<String>,
    /// Whether the program runs.
    running: bool,
    /// All text so far: the kernel's and the program's.
    pub(crate) text: String,
    /// What was printed while the program ran.
    pub(crate) program: String,
}

impl Console {
    /// Gives the frames that are whole now; text goes to the end of the texts.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<Frame> {
        self.rest.extend(bytes);
        let mut frames = Vec::new();
        let whole = match std::str::from_utf8(&self.rest) {
            Ok(_) => self.rest.len(),
            // None: more is needed to tell; else it is wrong, now and later.
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
                // The terminal adds it to each line's end.
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

    /// The last lines; of a guest whose kernel panicked those up to the panic, not the stack after it.
    pub(crate) fn tail(&self) -> String {
        let end = self.text.find(PANIC).map(|at| at + self.text[at..].find('\n').unwrap_or(0));
        let text = &self.text[..end.unwrap_or(self.text.len())];
        let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }

    /// The first line that has this in it.
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
    fn text_and_frames_are_told_apart_wherever_the_pieces_break() {
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
    fn bytes_that_are_no_text_hold_nothing_up() {
        let mut console = Console::default();
        assert!(console.feed(b"a\xff\xfeb\n").is_empty());
        assert!(console.text.starts_with('a') && console.text.ends_with("b\n"));
        console.feed(b"Kernel panic - not syncing: x\nend\n");
        assert_eq!(console.line_with(PANIC), Some("Kernel panic - not syncing: x"));
        assert!(console.tail().ends_with("b\nKernel panic - not syncing: x"));
    }
}
