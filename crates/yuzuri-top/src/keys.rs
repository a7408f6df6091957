//! Parses terminal input into keys.
//!
//! crossterm's reader is unsuitable: it registers the terminal edge-triggered and loses the edge if
//! a resize arrives together with a key, so that the key appears only with the next one. When the
//! terminal disappears, it reads in an endless loop. Only its key types are used.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Maximum length of an incomplete escape sequence.
const MAX_LENGTH: usize = 32;

/// Incremental parser from bytes to keys.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    bytes: Vec<u8>,
    background: Option<Background>,
    mouse: Vec<Mouse>,
}

/// A mouse action, and its cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mouse {
    pub(crate) what: MouseKind,
    pub(crate) x: u16,
    pub(crate) y: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MouseKind {
    /// The left button was pressed.
    Press,
    WheelUp,
    WheelDown,
}

/// Has the terminal report presses and the wheel (xterm's modes 1000 and 1006), or end that. The
/// terminal's own selection of text then needs the shift key.
pub(crate) const MOUSE_ON: &str = "\x1b[?1000h\x1b[?1006h";
pub(crate) const MOUSE_OFF: &str = "\x1b[?1006l\x1b[?1000l";

/// Background of the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Background {
    Dark,
    Light,
}

/// Queries the terminal's background colour (xterm's OSC 11). Terminals without support do not
/// answer.
pub(crate) const ASK_BACKGROUND: &str = "\x1b]11;?\x07";

enum Parsed {
    /// A key (or a sequence without meaning here), and its length in bytes.
    Done(Option<KeyEvent>, usize),
    /// The answer to a query, and its length in bytes.
    Answer(Background, usize),
    /// A mouse action (`None`: one without a meaning here), and its length in bytes.
    Mouse(Option<Mouse>, usize),
    /// Incomplete: more bytes are needed.
    Partial,
}

impl Parser {
    /// Adds bytes, and appends completed keys to `keys`.
    pub(crate) fn feed(&mut self, bytes: &[u8], keys: &mut Vec<KeyEvent>) {
        self.bytes.extend_from_slice(bytes);
        self.run(keys);
    }

    /// Whether the buffer may be the beginning of a longer sequence.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Whether the buffer starts like the answer to a query, which no user types.
    pub(crate) fn is_in_answer(&self) -> bool {
        self.bytes.starts_with(b"\x1b]1")
    }

    /// Takes the background reported by the last answer.
    pub(crate) fn take_background(&mut self) -> Option<Background> {
        self.background.take()
    }

    /// Returns the pending mouse actions.
    pub(crate) fn take_mouse(&mut self) -> Vec<Mouse> {
        std::mem::take(&mut self.mouse)
    }

    /// On timeout: interprets an incomplete sequence as it is (usually the Esc key).
    pub(crate) fn give_up(&mut self, keys: &mut Vec<KeyEvent>) {
        if self.bytes.first() == Some(&0x1b) && self.bytes.get(1) != Some(&b']') {
            keys.push(key(KeyCode::Esc));
        }
        // An incomplete sequence or character has no meaning.
        self.bytes.clear();
    }

    fn run(&mut self, keys: &mut Vec<KeyEvent>) {
        let mut at = 0;
        while at < self.bytes.len() {
            match parse(&self.bytes[at..]) {
                Parsed::Done(key, taken) => {
                    keys.extend(key);
                    at += taken.max(1);
                }
                Parsed::Answer(background, taken) => {
                    self.background = Some(background);
                    at += taken;
                }
                Parsed::Mouse(mouse, taken) => {
                    self.mouse.extend(mouse);
                    at += taken;
                }
                Parsed::Partial if self.bytes.len() - at > MAX_LENGTH => at += 1,
                Parsed::Partial => break,
            }
        }
        self.bytes.drain(..at);
    }
}

fn key(code: KeyCode) -> KeyEvent {
    KeyEvent::new(code, KeyModifiers::NONE)
}

fn parse(bytes: &[u8]) -> Parsed {
    match bytes {
        [] | [0x1b] => Parsed::Partial,
        // Esc pressed twice, or before another sequence.
        [0x1b, 0x1b, ..] => Parsed::Done(Some(key(KeyCode::Esc)), 1),
        [0x1b, b'[', rest @ ..] => sequence(rest),
        // Only the beginning of an answer matches: Alt-] is a key.
        [0x1b, b']'] => Parsed::Partial,
        [0x1b, b']', b'1', rest @ ..] => answer(rest),
        [0x1b, b'O', rest @ ..] => match rest.first() {
            Some(last) => Parsed::Done(named(*last, "").map(key), 3),
            None => Parsed::Partial,
        },
        [0x1b, rest @ ..] => match parse(rest) {
            Parsed::Done(Some(mut event), taken) => {
                event.modifiers.insert(KeyModifiers::ALT);
                Parsed::Done(Some(event), taken + 1)
            }
            Parsed::Done(None, taken) => Parsed::Done(None, taken + 1),
            Parsed::Answer(background, taken) => Parsed::Answer(background, taken + 1),
            Parsed::Mouse(mouse, taken) => Parsed::Mouse(mouse, taken + 1),
            Parsed::Partial => Parsed::Partial,
        },
        [b'\r' | b'\n', ..] => Parsed::Done(Some(key(KeyCode::Enter)), 1),
        [b'\t', ..] => Parsed::Done(Some(key(KeyCode::Tab)), 1),
        [0x7f | 0x08, ..] => Parsed::Done(Some(key(KeyCode::Backspace)), 1),
        [control @ 0x01..=0x1a, ..] => {
            let code = KeyCode::Char((control - 1 + b'a').into());
            Parsed::Done(Some(KeyEvent::new(code, KeyModifiers::CONTROL)), 1)
        }
        [0x00 | 0x1c..=0x1f, ..] => Parsed::Done(None, 1),
        [first, ..] => character(*first, bytes),
    }
}

fn character(first: u8, bytes: &[u8]) -> Parsed {
    let length = match first {
        0x20..=0x7e => 1,
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return Parsed::Done(None, 1),
    };
    let there = &bytes[..length.min(bytes.len())];
    match std::str::from_utf8(there) {
        Ok(text) => {
            let code = text.chars().next().filter(|c| !c.is_control()).map(|c| key(KeyCode::Char(c)));
            Parsed::Done(code, length)
        }
        // An incomplete but so far valid character.
        Err(error) if error.error_len().is_none() => Parsed::Partial,
        Err(_) => Parsed::Done(None, 1),
    }
}

/// Parses the bytes after `ESC [`: parameters, then a final byte.
fn sequence(rest: &[u8]) -> Parsed {
    // The Linux console's function keys: `ESC [ [ A`.
    if rest.first() == Some(&b'[') {
        return match rest.get(1) {
            Some(last) => Parsed::Done((*last == b'A').then(|| key(KeyCode::F(1))), 4),
            None => Parsed::Partial,
        };
    }
    let Some(end) = rest.iter().position(|byte| !(0x20..0x40).contains(byte)) else { return Parsed::Partial };
    let taken = end + 3;
    let Ok(parameters) = std::str::from_utf8(&rest[..end]) else { return Parsed::Done(None, taken) };
    if let Some(report) = parameters.strip_prefix('<') {
        return Parsed::Mouse(mouse(report, rest[end]), taken);
    }
    let mut numbers = parameters.split(';');
    let first = numbers.next().unwrap_or_default();
    // xterm: 1 plus one bit each for Shift, Alt, Ctrl.
    let held = numbers.next().and_then(|n| n.parse::<u8>().ok()).unwrap_or(1).wrapping_sub(1);
    let mut modifiers = KeyModifiers::NONE;
    for (bit, modifier) in [(1, KeyModifiers::SHIFT), (2, KeyModifiers::ALT), (4, KeyModifiers::CONTROL)] {
        if held & bit != 0 {
            modifiers.insert(modifier);
        }
    }
    Parsed::Done(named(rest[end], first).map(|code| KeyEvent::new(code, modifiers)), taken)
}

/// Parses xterm's report 1006: button, column, row (from 1); ends in `M` for a press, `m` for a
/// release.
fn mouse(report: &str, last: u8) -> Option<Mouse> {
    let mut numbers = report.split(';').map(|number| number.parse::<u16>().ok());
    let (button, x, y) = (numbers.next()??, numbers.next()??, numbers.next()??);
    let what = match (button, last) {
        (0, b'M') => MouseKind::Press,
        (64, b'M') => MouseKind::WheelUp,
        (65, b'M') => MouseKind::WheelDown,
        _ => return None,
    };
    Some(Mouse { what, x: x.checked_sub(1)?, y: y.checked_sub(1)? })
}

/// Parses the bytes after `ESC ] 1`: `1;rgb:RRRR/GGGG/BBBB`, terminated by BEL or `ESC \`.
fn answer(rest: &[u8]) -> Parsed {
    let Some(end) = rest.iter().position(|byte| !(0x20..0x7f).contains(byte)) else { return Parsed::Partial };
    let taken = match &rest[end..] {
        [0x07, ..] => end + 4,
        [0x1b, b'\\', ..] => end + 5,
        [0x1b] => return Parsed::Partial,
        // Aborted: parse the following bytes separately.
        _ => return Parsed::Done(None, end + 3),
    };
    match std::str::from_utf8(&rest[..end]).ok().and_then(background) {
        Some(background) => Parsed::Answer(background, taken),
        None => Parsed::Done(None, taken),
    }
}

/// Classifies a colour as dark or light by its ITU-R BT.709 luminance; each component has one to
/// four hexadecimal digits.
fn background(text: &str) -> Option<Background> {
    let colour = text.strip_prefix("1;")?;
    let parts = colour.strip_prefix("rgb:").or_else(|| colour.strip_prefix("rgba:"))?;
    let mut parts = parts.split('/').map(|part| {
        let most =
            16f64.powi(i32::try_from(part.len()).ok().filter(|digits| (1..=4).contains(digits))?) - 1.0;
        Some(f64::from(u16::from_str_radix(part, 16).ok()?) / most)
    });
    let mut next = || parts.next().flatten();
    let luminance = 0.2126 * next()? + 0.7152 * next()? + 0.0722 * next()?;
    Some(if luminance > 0.5 { Background::Light } else { Background::Dark })
}

fn named(last: u8, first: &str) -> Option<KeyCode> {
    Some(match (last, first) {
        (b'A', _) => KeyCode::Up,
        (b'B', _) => KeyCode::Down,
        (b'C', _) => KeyCode::Right,
        (b'D', _) => KeyCode::Left,
        (b'H', _) | (b'~', "1" | "7") => KeyCode::Home,
        (b'F', _) | (b'~', "4" | "8") => KeyCode::End,
        (b'M', "") => KeyCode::Enter,
        (b'P', _) | (b'~', "11") => KeyCode::F(1),
        (b'~', "3") => KeyCode::Delete,
        (b'~', "5") => KeyCode::PageUp,
        (b'~', "6") => KeyCode::PageDown,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn keys(bytes: &[u8]) -> Vec<KeyEvent> {
        let mut parser = Parser::default();
        let mut keys = Vec::new();
        parser.feed(bytes, &mut keys);
        if parser.is_waiting() {
            parser.give_up(&mut keys);
        }
        keys
    }

    #[test]
    fn terminal_sequences_are_parsed_as_keys() {
        let codes = |bytes: &[u8]| keys(bytes).iter().map(|key| key.code).collect::<Vec<_>>();
        use KeyCode::{Char, Delete, Down, End, Enter, Esc, F, Home, Left, PageDown, PageUp, Right, Up};
        assert_eq!(codes(b"\x1b[A\x1b[B\x1b[C\x1b[D"), [Up, Down, Right, Left]);
        assert_eq!(codes(b"\x1bOA\x1bOH\x1bOF\x1bOP\x1b[[A\x1b[11~"), [Up, Home, End, F(1), F(1), F(1)]);
        assert_eq!(codes(b"\x1b[5~\x1b[6~\x1b[1~\x1b[4~\x1b[3~"), [PageUp, PageDown, Home, End, Delete]);
        assert_eq!(
            codes("q\r/é漢\x7f".as_bytes()),
            [Char('q'), Enter, Char('/'), Char('é'), Char('漢'), KeyCode::Backspace]
        );
        assert_eq!(codes(b"\x1b"), [Esc]);
        assert_eq!(codes(b"\x1b\x1b[A"), [Esc, Up]);
        assert_eq!(codes(b"\x1b[200~\x1b[?1;2cx\xff\xc3("), [Char('x'), Char('(')]);
        assert_eq!(keys(b"\x03")[0], KeyEvent::new(Char('c'), KeyModifiers::CONTROL));
        assert_eq!(keys(b"\x1b[1;5C")[0], KeyEvent::new(Right, KeyModifiers::CONTROL));
        assert_eq!(keys(b"\x1bx")[0], KeyEvent::new(Char('x'), KeyModifiers::ALT));
    }

    #[test]
    fn the_background_is_distinguished_from_keys() {
        let read = |bytes: &[u8]| {
            let mut parser = Parser::default();
            let mut keys = Vec::new();
            parser.feed(bytes, &mut keys);
            let codes: Vec<KeyCode> = keys.iter().map(|key| key.code).collect();
            (parser.take_background(), codes)
        };
        use KeyCode::Char;
        let (dark, light) = (Some(Background::Dark), Some(Background::Light));
        assert_eq!(read(b"a\x1b]11;rgb:ffff/ffff/ffff\x07b"), (light, vec![Char('a'), Char('b')]));
        assert_eq!(read(b"\x1b]11;rgb:fd/f6/e3\x1b\\q"), (light, vec![Char('q')]));
        assert_eq!(read(b"\x1b]11;rgba:0000/2b2b/3636/ffff\x1b\\"), (dark, vec![]));
        assert_eq!(read(b"\x1b]11;rgb:0/0/f\x07"), (dark, vec![]));
        for broken in ["rgb:/0/0", "rgb:0/0", "rgb:00000/0/0", "#ffffff", "?", "rgb:-1/0/0"] {
            assert_eq!(
                read(format!("\x1b]11;{broken}\x07x").as_bytes()),
                (None, vec![Char('x')]),
                "{broken}"
            );
        }
        assert_eq!(read(b"\x1b]11;rgb:ff\x1b[A"), (None, vec![KeyCode::Up]));
        // An incomplete answer yields no key.
        let mut parser = Parser::default();
        let mut keys = Vec::new();
        parser.feed(b"\x1b]11;rgb:ffff/ff", &mut keys);
        assert!(parser.is_waiting() && parser.is_in_answer());
        parser.give_up(&mut keys);
        assert!(keys.is_empty() && !parser.is_waiting());
    }

    proptest! {
        #[test]
        fn bytes_in_any_pieces_give_the_same_keys(
            bytes in prop::collection::vec(
                prop_oneof![any::<u8>(), prop::sample::select(b"\x1b[O;15~ABq\xe6".to_vec())], 0..200),
            piece in 1usize..9,
        ) {
            let mut parser = Parser::default();
            let mut in_pieces = Vec::new();
            for piece in bytes.chunks(piece) {
                parser.feed(piece, &mut in_pieces);
                prop_assert!(parser.bytes.len() <= MAX_LENGTH + 8);
            }
            let mut whole = Vec::new();
            Parser::default().feed(&bytes, &mut whole);
            // An overlong sequence is cut where the parser detects it, which depends on the chunks.
            if !bytes.windows(MAX_LENGTH - 4).any(|w| w.iter().all(|b| (0x20..0x7f).contains(b))) {
                prop_assert_eq!(in_pieces, whole);
            }
        }
    }

    #[test]
    fn presses_and_the_wheel_are_reported_and_releases_are_not() {
        let mut parser = Parser::default();
        let mut keys = Vec::new();
        parser.feed(
            b"\x1b[<0;12;5Mq\x1b[<0;12;5m\x1b[<64;1;1M\x1b[<65;300;70M\x1b[<2;3;3M\x1b[<0;0;9M",
            &mut keys,
        );
        let parsed: Vec<_> =
            parser.take_mouse().into_iter().map(|mouse| (mouse.what, mouse.x, mouse.y)).collect();
        let expected =
            [(MouseKind::Press, 11, 4), (MouseKind::WheelUp, 0, 0), (MouseKind::WheelDown, 299, 69)];
        assert_eq!(parsed, expected);
        assert_eq!(keys, [key(KeyCode::Char('q'))]);
        // In two pieces.
        parser.feed(b"\x1b[<0;1", &mut keys);
        assert!(parser.is_waiting() && parser.take_mouse().is_empty());
        parser.feed(b"2;5M", &mut keys);
        assert_eq!((parser.take_mouse().len(), keys.len()), (1, 1));
    }
}
