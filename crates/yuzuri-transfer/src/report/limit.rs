//! A log that has an end: whoever reaches the receiver's port makes lines in it.

use crate::receive::ReceiveEvent;
use crate::report::Report;
use std::io;

/// Hands on so many events at most, then counts the others. When it listens, that the limit is reached, and
/// the summary are told in any case.
pub struct MaxLines<'a> {
    report: &'a mut dyn Report<ReceiveEvent>,
    /// `None`: no limit.
    limit: Option<u64>,
    progress_is_a_line: bool,
    told: u64,
    held_back: u64,
}

impl<'a> MaxLines<'a> {
    /// The limit where nothing else is said: about 10 MB.
    pub const USUAL: u64 = 100_000;

    /// Progress counts where each is a line of its own; one that a terminal writes over is always handed on.
    pub fn new(
        report: &'a mut dyn Report<ReceiveEvent>,
        limit: Option<u64>,
        progress_is_a_line: bool,
    ) -> MaxLines<'a> {
        MaxLines { report, limit, progress_is_a_line, told: 0, held_back: 0 }
    }

    fn note(&mut self, text: String) -> io::Result<()> {
        self.report.report(&ReceiveEvent::Note { text })
    }
}

impl Report<ReceiveEvent> for MaxLines<'_> {
    fn report(&mut self, event: &ReceiveEvent) -> io::Result<()> {
        let Some(limit) = self.limit else { return self.report.report(event) };
        match event {
            ReceiveEvent::Listening { .. } => {}
            ReceiveEvent::Progress { .. } if !self.progress_is_a_line => {}
            ReceiveEvent::Summary(_) => {
                if self.held_back > 0 {
                    self.note(format!("{} more lines were not written", self.held_back))?;
                }
            }
            _ if self.told >= limit => {
                self.held_back += 1;
                if self.held_back == 1 {
                    self.note(format!(
                        "the limit of {limit} lines is reached: connections are served as before, and only counted from here on; \
                         a higher limit (`--lines`) writes more"
                    ))?;
                }
                return Ok(());
            }
            _ => self.told += 1,
        }
        self.report.report(event)
    }
}
