//! Untrusted text on a terminal.

use std::borrow::Cow;

/// The text with `?` in place of each control character but the newline. Others choose the names of
/// processes and namespaces, and all text in a recording. They may contain control sequences
/// (ECMA-48) that a terminal interprets, so none of it is printed as it is.
pub fn visible(text: &str) -> Cow<'_, str> {
    let is_bad = |c: char| c.is_control() && c != '\n';
    if text.contains(is_bad) {
        text.chars().map(|c| if is_bad(c) { '?' } else { c }).collect::<String>().into()
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(visible("\x1b]0;root\x07\u{9b}2J\r譲り\tit\n"), "?]0;root??2J?譲り?it\n");
        assert!(matches!(visible("sshd"), Cow::Borrowed("sshd")));
    }
}
