//! Verdicts while a file is still being written: a pipe from `tcpdump -w -`, from `yuzuri watch`, from a loop around `ss`.

use crate::report::FlowReport;
use std::fmt;
use std::sync::Arc;
use yuzuri_infer::verdict::Answer;

/// Rounds before a flow is judged for the first time.
const FIRST: usize = 20;

/// Who is told of verdicts as they change.
#[derive(Clone)]
pub struct Live(Arc<dyn Fn(FlowReport) + Send + Sync>);

impl Live {
    /// Tells `listener`, on the thread that reads the file.
    pub fn new(listener: impl Fn(FlowReport) + Send + Sync + 'static) -> Live {
        Live(Arc::new(listener))
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Live")
    }
}

/// When a flow is judged anew, and what was told of it last.
#[derive(Debug)]
pub(crate) struct Pace {
    next: usize,
    told: Option<Option<String>>,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { next: FIRST, told: None }
    }
}

impl Pace {
    /// Whether there is a quarter more to judge by than last time: a verdict looks at all rounds, and must not cost more than its share however
    /// long a flow lives.
    pub(crate) fn is_due(&mut self, rounds: usize) -> bool {
        let due = rounds >= self.next;
        if due {
            self.next = rounds + rounds / 4 + 1;
        }
        due
    }

    /// Tells of a verdict where it differs from the last one. That nothing is known yet is no news.
    pub(crate) fn tell(&mut self, live: &Live, report: FlowReport) {
        let name = match &report.verdict.answer {
            Answer::Named { name, .. } => Some(name.clone()),
            Answer::Unknown { .. } => None,
        };
        let before = self.told.replace(name);
        if before.unwrap_or_default() != self.told.clone().flatten() {
            (live.0)(report);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_stays_in_proportion_to_the_rounds() {
        let mut pace = Pace::default();
        let judged: usize = (0..100_000).filter(|&rounds| pace.is_due(rounds)).sum();
        assert!(judged < 6 * 100_000, "{judged} rounds were looked at for 100,000");
    }
}
