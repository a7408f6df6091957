//! A processor of its own for a guest in virtual time.
//!
//! QEMU's threads take turns then, and none gains by running beside another. On one processor a turn needs no interrupt to another
//! one and finds its caches warm: a run costs a quarter less (`docs/virtual-time.md`).

use crate::VmError;
use crate::cache::Cache;
use nix::fcntl::Flock;
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use std::fs::File;

/// A processor that no other guest of this cache has; free again when dropped, and when its holder dies.
pub(crate) struct Processor {
    number: usize,
    _lock: Flock<File>,
}

impl Processor {
    /// One of those that we may use; none where guests have them all: then the kernel places one guest more as it likes.
    pub(crate) fn claim(cache: &Cache) -> Result<Option<Processor>, VmError> {
        let Ok(allowed) = sched_getaffinity(Pid::from_raw(0)) else { return Ok(None) };
        for number in (0..CpuSet::count()).filter(|number| allowed.is_set(*number).unwrap_or(false)) {
            if let Some(lock) = cache.try_lock(&format!("runs/processor-{number}"))? {
                return Ok(Some(Processor { number, _lock: lock }));
            }
        }
        Ok(None)
    }

    /// The set that holds only it.
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
    fn each_guest_has_its_own_and_the_last_ones_have_none() {
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
