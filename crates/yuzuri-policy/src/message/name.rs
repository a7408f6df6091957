//! The name of a terminal, as other members show it.

use std::fmt;
use std::str::FromStr;

/// A name that a terminal chooses: 1 to 63 printable ASCII characters, without a space at either
/// end. It can therefore be shown as it is: it contains neither control characters nor letters of
/// other scripts that look alike. It proves nothing: any member may choose any name.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TerminalName {
    bytes: [u8; TerminalName::MAX_BYTES],
    length: u8,
}

impl TerminalName {
    /// The longest label of the domain name system (RFC 1035 section 2.3.4).
    pub const MAX_BYTES: usize = 63;

    /// The name in these bytes; `None`: they are not a valid name.
    pub(super) fn of(text: &[u8]) -> Option<TerminalName> {
        let ends = [text.first()?, text.last()?];
        if text.len() > TerminalName::MAX_BYTES
            || ends.contains(&&b' ')
            || !text.iter().all(|byte| matches!(byte, b' '..=b'~'))
        {
            return None;
        }
        let mut bytes = [0; TerminalName::MAX_BYTES];
        bytes[..text.len()].copy_from_slice(text);
        Some(TerminalName { bytes, length: text.len() as u8 })
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        // ASCII is UTF-8.
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }
}

impl fmt::Display for TerminalName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for TerminalName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TerminalName({:?})", self.as_str())
    }
}

/// A text that is not a valid [`TerminalName`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a terminal's name has 1 to 63 printable ASCII characters, and no blank at either end")]
pub struct NoTerminalName;

impl FromStr for TerminalName {
    type Err = NoTerminalName;

    fn from_str(text: &str) -> Result<TerminalName, NoTerminalName> {
        TerminalName::of(text.as_bytes()).ok_or(NoTerminalName)
    }
}
