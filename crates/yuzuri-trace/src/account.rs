//! Accounts of the records seen, kept and lost: no record disappears uncounted.

use serde::{Deserialize, Serialize};

/// Why a record was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LossReason {
    /// The CPU's ring buffer was full: the reader did not keep up.
    RingFull,
    /// The hook was entered on a CPU that was already inside it (the kernel skips it:
    /// `recursion_misses`).
    Nested,
    /// The kernel had no memory for the flow's state.
    NoMemory,
    /// The recording could not be written (disk full) or did not keep up.
    Recording,
    /// A user interface (page, screen) did not keep up. Only in older recordings: records that an
    /// interface does not show are now counted separately, because all consumers share one account.
    #[serde(rename = "face")]
    UserInterface,
    /// The filter selects by process, and the flow's owner was unknown, or not known yet. Records
    /// of flows that turn out not to be selected are subtracted again.
    OwnerUnknown,
    /// The kernel's table had no room for a stack: the record is kept, with the tracepoint as its
    /// place.
    StackTable,
}

impl LossReason {
    /// Every reason.
    pub const ALL: [LossReason; 7] = [
        LossReason::RingFull,
        LossReason::Nested,
        LossReason::NoMemory,
        LossReason::Recording,
        LossReason::UserInterface,
        LossReason::OwnerUnknown,
        LossReason::StackTable,
    ];

    /// The word used in recordings and on screens.
    pub fn name(self) -> &'static str {
        match self {
            LossReason::RingFull => "ring-full",
            LossReason::Nested => "nested",
            LossReason::NoMemory => "no-memory",
            LossReason::Recording => "recording",
            LossReason::UserInterface => "face",
            LossReason::OwnerUnknown => "owner-unknown",
            LossReason::StackTable => "stack-table",
        }
    }

    /// The reason of that name.
    pub fn from_name(name: &str) -> Option<LossReason> {
        LossReason::ALL.into_iter().find(|reason| reason.name() == name)
    }
}

/// One CPU's account since the start. `seen == kept + lost` once the source is quiet. While it
/// runs, records in the ring buffer are seen and not yet kept.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CpuAccount {
    /// The CPU; `None` for events that the kernel counts for all CPUs together.
    pub cpu: Option<u16>,
    /// Records due: hook runs for selected flows, less those merged into a later sample by the
    /// density.
    pub seen: u64,
    /// Records that reached user space.
    pub kept: u64,
    /// Records that did not reach it, by reason; reasons with 0 may be omitted.
    pub lost: Vec<(LossReason, u64)>,
    /// Hook runs merged into a later sample by the density: not lost, their counts are in that
    /// sample.
    pub thinned: u64,
}

impl CpuAccount {
    /// All lost records.
    pub fn lost_total(&self) -> u64 {
        self.lost.iter().map(|(_, n)| *n).fold(0, u64::saturating_add)
    }
}

/// The account of a source since its start.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Account {
    /// When it was made, `CLOCK_MONOTONIC`, nanoseconds.
    pub mono_ns: u64,
    /// Wall time minus monotonic time at that moment, nanoseconds (Unix epoch).
    pub wall_offset_ns: i64,
    /// By CPU.
    pub cpus: Vec<CpuAccount>,
}

impl Account {
    /// Saturating: a file may hold any numbers.
    fn sum(&self, of: impl Fn(&CpuAccount) -> u64) -> u64 {
        self.cpus.iter().map(of).fold(0, u64::saturating_add)
    }

    /// Records due.
    pub fn seen(&self) -> u64 {
        self.sum(|c| c.seen)
    }

    /// Records that reached user space.
    pub fn kept(&self) -> u64 {
        self.sum(|c| c.kept)
    }

    /// Records that did not reach user space.
    pub fn lost(&self) -> u64 {
        self.sum(CpuAccount::lost_total)
    }

    /// Records lost for that reason.
    pub fn lost_to(&self, reason: LossReason) -> u64 {
        let lost = self.cpus.iter().flat_map(|c| &c.lost).filter(|(r, _)| *r == reason);
        lost.map(|(_, n)| *n).fold(0, u64::saturating_add)
    }

    /// Hook runs merged by the density.
    pub fn thinned(&self) -> u64 {
        self.sum(|c| c.thinned)
    }

    /// Moves records from kept to lost, because a consumer behind the reader could not keep them.
    pub fn lose(&mut self, reason: LossReason, records: u64) {
        let mut left = records;
        for cpu in &mut self.cpus {
            let part = left.min(cpu.kept);
            if part > 0 {
                cpu.kept -= part;
                cpu.lost.push((reason, part));
                left -= part;
            }
        }
    }

    /// Losses by reason over all CPUs, without zeros.
    pub fn lost_by_reason(&self) -> Vec<(LossReason, u64)> {
        LossReason::ALL
            .into_iter()
            .map(|reason| (reason, self.lost_to(reason)))
            .filter(|(_, n)| *n > 0)
            .collect()
    }
}

impl std::fmt::Display for Account {
    /// `seen 1204 = kept 1200 + lost 4 (ring-full 4); 51200 more merged by density`
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "seen {} = kept {} + lost {}", self.seen(), self.kept(), self.lost())?;
        let lost = self.lost_by_reason();
        if !lost.is_empty() {
            let words: Vec<String> = lost.iter().map(|(r, n)| format!("{} {n}", r.name())).collect();
            write!(f, " ({})", words.join(", "))?;
        }
        if self.thinned() > 0 {
            write!(f, "; {} more merged by density", self.thinned())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_printed_as_a_sum() {
        let cpu = |cpu, seen, kept, lost| CpuAccount {
            cpu: Some(cpu),
            seen,
            kept,
            lost: vec![(LossReason::RingFull, lost)],
            thinned: 5,
        };
        let account = Account { cpus: vec![cpu(0, 10, 8, 2), cpu(1, 5, 5, 0)], ..Default::default() };
        assert_eq!(
            account.to_string(),
            "seen 15 = kept 13 + lost 2 (ring-full 2); 10 more merged by density"
        );
    }
}
