//! A limit on the length of the receiver's log, since anyone who can reach its port can add lines
//! to it.

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
    passed_on: u64,
    suppressed: u64,
}

impl<'a> MaxLines<'a> {
    /// Default limit: about 10 MB.
    pub const DEFAULT: u64 = 100_000;

    /// Creates the filter. Progress events count towards the limit if each is a line of its own. On
    /// a terminal, where they overwrite each other, they are always passed on.
    pub fn new(
        report: &'a mut dyn Report<ReceiveEvent>,
        limit: Option<u64>,
        progress_is_a_line: bool,
    ) -> MaxLines<'a> {
        MaxLines { report, limit, progress_is_a_line, passed_on: 0, suppressed: 0 }
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
                if self.suppressed > 0 {
                    self.note(format!("{} further lines were not written", self.suppressed))?;
                }
            }
            _ if self.passed_on >= limit => {
                self.suppressed += 1;
                if self.suppressed == 1 {
                    self.note(format!(
                        "the limit of {limit} lines is reached: further connections are served but only counted; \
                         a higher limit (`--lines`) writes more"
                    ))?;
                }
                return Ok(());
            }
            _ => self.passed_on += 1,
        }
        self.report.report(event)
    }
}
