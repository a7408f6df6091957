//! A limit on the length of the receiver's log, since anyone who can reach its port adds lines to
//! it.

use crate::receive::ReceiveEvent;
use crate::report::Report;
use std::io;

/// Passes on a limited number of events and counts the rest. The listening event, the note that the
/// limit was reached and the summary are always passed on.
pub struct MaxLines<'a> {
    report: &'a mut dyn Report<ReceiveEvent>,
    /// Maximum number of events; `None`: no limit.
    limit: Option<u64>,
    progress_is_a_line: bool,
    told: u64,
    held_back: u64,
}

impl<'a> MaxLines<'a> {
    /// Default limit: about 10 MB.
    pub const USUAL: u64 = 100_000;

    /// Creates the filter. Progress events count towards the limit if each is a line of its own. On
    /// a terminal, where they overwrite each other, they are always passed on.
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
