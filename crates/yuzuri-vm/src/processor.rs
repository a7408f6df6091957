//! Assigns a host processor to each guest in virtual time.
//!
//! QEMU's threads take turns in virtual time and gain nothing from running in parallel. On a single
//! processor a turn needs no inter-processor interrupt and finds warm caches, which makes a run a
//! quarter cheaper (`docs/virtual-time.md`).

use crate::VmError;
use crate::cache::Cache;
use nix::fcntl::Flock;
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use std::fs::File;

/// A processor that no other guest of this cache uses. It is released on drop and when the process
/// dies.
pub(crate) struct Processor {
    number: usize,
    _lock: Flock<File>,
}

impl Processor {
    /// Claims one of the processors that this process may use. Returns `None` if other guests hold
    /// all of them; the kernel then schedules the guest freely.
    pub(crate) fn claim(cache: &Cache) -> Result<Option<Processor>, VmError> {
        let Ok(allowed) = sched_getaffinity(Pid::from_raw(0)) else { return Ok(None) };
        for number in (0..CpuSet::count()).filter(|number| allowed.is_set(*number).unwrap_or(false)) {
            if let Some(lock) = cache.try_lock(&format!("runs/processor-{number}"))? {
                return Ok(Some(Processor { number, _lock: lock }));
            }
        }
        Ok(None)
    }

    /// A CPU set that contains only this processor.
    pub(crate) fn set(&self) -> Option<CpuSet> {
        let mut set = CpuSet::new();
        set.set(self.number).ok().map(|()| set)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_guest_has_its_own_processor_until_none_is_left() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::at(root.path()).unwrap();
        let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap();
        let count = (0..CpuSet::count()).filter(|n| allowed.is_set(*n).unwrap()).count();
        let mut held: Vec<Processor> =
            std::iter::from_fn(|| Processor::claim(&cache).unwrap()).take(count + 1).collect();
        let mut numbers: Vec<usize> = held.iter().map(|p| p.number).collect();
        assert!(numbers.is_sorted() && numbers.iter().all(|n| allowed.is_set(*n).unwrap()));
        numbers.dedup();
        assert_eq!(numbers.len(), count);
        let given_back = held.swap_remove(0).number;
        assert_eq!(Processor::claim(&cache).unwrap().map(|p| p.number), Some(given_back));
    }
}
