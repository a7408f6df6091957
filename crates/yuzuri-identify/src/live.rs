//! Verdicts while a file is still being written, such as a pipe from `tcpdump -w -`, from `yuzuri
//! watch` or from a loop around `ss`.

use crate::report::FlowReport;
use std::fmt;
use std::sync::Arc;
use yuzuri_infer::verdict::Answer;

/// Rounds before a flow is judged for the first time.
const FIRST: usize = 20;

/// The receiver of verdicts as they change.
#[derive(Clone)]
pub struct Live(Arc<dyn Fn(FlowReport) + Send + Sync>);

impl Live {
    /// Calls `listener` on the thread that reads the file.
    pub fn new(listener: impl Fn(FlowReport) + Send + Sync + 'static) -> Live {
        Live(Arc::new(listener))
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Live")
    }
}

/// When a flow is judged again, and the last report about it.
#[derive(Debug)]
pub(crate) struct VerdictSchedule {
    next: usize,
    reported: Option<Option<String>>,
}

impl Default for VerdictSchedule {
    fn default() -> VerdictSchedule {
        VerdictSchedule { next: FIRST, reported: None }
    }
}

impl VerdictSchedule {
    /// Whether a quarter more evidence has arrived than last time: a verdict evaluates all rounds,
    /// and its total cost must stay proportional however long a flow lives.
    pub(crate) fn is_due(&mut self, rounds: usize) -> bool {
        let due = rounds >= self.next;
        if due {
            self.next = rounds + rounds / 4 + 1;
        }
        due
    }

    /// Reports a verdict if its name differs from the last one. Before the first name, unknown
    /// verdicts are not reported.
    pub(crate) fn report_change(&mut self, live: &Live, report: FlowReport) {
        let name = match &report.verdict.answer {
            Answer::Named { name, .. } => Some(name.clone()),
            Answer::Unknown { .. } => None,
        };
        let before = self.reported.replace(name);
        if before.unwrap_or_default() != self.reported.clone().flatten() {
            (live.0)(report);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn analysis_time_is_linear_in_the_rounds() {
        let mut pace = VerdictSchedule::default();
        let judged: usize = (0..100_000).filter(|&rounds| pace.is_due(rounds)).sum();
        assert!(judged < 6 * 100_000, "{judged} rounds were looked at for 100,000");
    }
}
