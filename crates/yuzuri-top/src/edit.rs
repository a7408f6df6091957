//! A text input line.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use yuzuri_trace::Filter;

/// The text and its cursor position.
#[derive(Debug, Clone, Default)]
pub(crate) struct Edit {
    chars: Vec<char>,
    cursor: usize,
}

impl Edit {
    /// Starts with a text, with the cursor at its end.
    pub(crate) fn new(text: &str) -> Edit {
        let chars: Vec<char> = text.chars().filter(|c| !c.is_control()).collect();
        Edit { cursor: chars.len(), chars }
    }

    /// The text.
    pub(crate) fn text(&self) -> String {
        self.chars.iter().collect()
    }

    /// The text before, at and after the cursor.
    pub(crate) fn parts(&self) -> (String, Option<char>, String) {
        let (before, rest) = self.chars.split_at(self.cursor);
        (before.iter().collect(), rest.first().copied(), rest.iter().skip(1).collect())
    }

    /// Handles a key; returns false if the key has no effect here.
    pub(crate) fn key(&mut self, key: KeyEvent) -> bool {
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('a') if ctrl => self.cursor = 0,
            KeyCode::Char('e') if ctrl => self.cursor = self.chars.len(),
            KeyCode::Char('u') if ctrl => {
                self.chars.drain(..self.cursor);
                self.cursor = 0;
            }
            KeyCode::Char('w') if ctrl => {
                let word = self.chars[..self.cursor].iter().rposition(|c| *c != ' ').unwrap_or(0);
                let start = self.chars[..word].iter().rposition(|c| *c == ' ').map_or(0, |at| at + 1);
                self.chars.drain(start..self.cursor);
                self.cursor = start;
            }
            KeyCode::Char(c) if !ctrl && !c.is_control() => {
                if self.chars.len() < Filter::MAX_LENGTH / 4 {
                    self.chars.insert(self.cursor, c);
                    self.cursor += 1;
                }
            }
            KeyCode::Backspace if self.cursor > 0 => {
                self.cursor -= 1;
                self.chars.remove(self.cursor);
            }
            KeyCode::Delete if self.cursor < self.chars.len() => {
                self.chars.remove(self.cursor);
            }
            KeyCode::Left => self.cursor = self.cursor.saturating_sub(1),
            KeyCode::Right => self.cursor = (self.cursor + 1).min(self.chars.len()),
            KeyCode::Home => self.cursor = 0,
            KeyCode::End => self.cursor = self.chars.len(),
            _ => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_edited_as_in_a_shell() {
        let mut edit = Edit::new("port:80 pid:12");
        let plain = |code| KeyEvent::new(code, KeyModifiers::NONE);
        let ctrl = |c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL);
        edit.key(ctrl('w'));
        assert_eq!(edit.text(), "port:80 ");
        edit.key(plain(KeyCode::Backspace));
        edit.key(plain(KeyCode::Left));
        edit.key(plain(KeyCode::Char('4')));
        assert_eq!(edit.parts(), ("port:84".into(), Some('0'), String::new()));
        edit.key(ctrl('u'));
        assert_eq!(edit.text(), "0");
        edit.key(plain(KeyCode::Delete));
        edit.key(ctrl('w'));
        assert_eq!(edit.parts(), (String::new(), None, String::new()));
        assert!(!edit.key(plain(KeyCode::F(3))));
    }
}
