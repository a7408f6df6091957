//! The reader's side of the per-CPU ring buffers.

#![expect(unsafe_code, reason = "memory shared with the kernel")]

use crate::abi::{HOOKS, Record, ring_control};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Memory of a BPF map, shared with the kernel.
pub(crate) struct Mapping {
    start: NonNull<c_void>,
    bytes: usize,
}

impl Mapping {
    /// Maps `bytes` bytes from `offset` on, which is a multiple of the page size.
    pub(crate) fn new(map: impl AsFd, offset: usize, bytes: usize, prot: ProtFlags) -> nix::Result<Mapping> {
        let bytes = bytes.next_multiple_of(page_size());
        let length = NonZeroUsize::new(bytes).ok_or(nix::errno::Errno::EINVAL)?;
        // SAFETY: a new mapping at an address chosen by the kernel touches no memory of ours.
        let start = unsafe { mmap(None, length, prot, MapFlags::MAP_SHARED, map, offset as libc::off_t)? };
        Ok(Mapping { start, bytes })
    }

    /// Its first byte.
    pub(crate) fn start(&self) -> NonNull<c_void> {
        self.start
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and whole, and no reference into it outlives us.
        let _ = unsafe { munmap(self.start, self.bytes) };
    }
}

pub(crate) fn page_size() -> usize {
    // SAFETY: sysconf has no preconditions.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// The counters of one CPU's hooks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub(crate) selected: u64,
    pub(crate) thinned: u64,
    pub(crate) lost_ring: u64,
    pub(crate) lost_memory: u64,
    pub(crate) lost_owner: u64,
    pub(crate) lost_stack: u64,
}

struct Ring {
    tail: u64,
    /// The time of the record at `tail`, once it is complete.
    next: Option<u64>,
}

/// All CPUs' ring buffers, read as one stream in order of time.
pub(crate) struct Rings {
    slots: Mapping,
    controls: Mapping,
    slots_per_cpu: u32,
    rings: Vec<Ring>,
}

// SAFETY: plain shared memory, valid from any thread; its owner is its only user in this process.
unsafe impl Send for Mapping {}

/// The number of rings: each CPU's number is the index of its own. `None`: the kernel does not
/// report it.
pub(crate) fn count() -> Option<usize> {
    rings_for(&std::fs::read_to_string("/sys/devices/system/cpu/possible").ok()?)
}

/// `possible`: the numbers of CPUs in ascending order, such as `0-3,8`.
fn rings_for(possible: &str) -> Option<usize> {
    possible.trim().rsplit([',', '-']).next()?.parse().ok().map(|last: usize| last + 1)
}

/// The number of [`ring_control`]s for so many rings: programs find theirs by a mask.
pub(crate) fn controls(rings: usize) -> u32 {
    (rings as u32).next_power_of_two()
}

/// The reader returns room after this many records, so that a long drain does not keep the ring
/// buffer full.
const RELEASE_EVERY: u64 = 256;

impl Rings {
    /// Maps the ring buffers of `cpus` CPUs, `slots_per_cpu` (a power of two) records each.
    pub(crate) fn new(
        slots: impl AsFd,
        controls: impl AsFd,
        cpus: usize,
        slots_per_cpu: u32,
    ) -> nix::Result<Rings> {
        let bytes = cpus * slots_per_cpu as usize * size_of::<Record>();
        Ok(Rings {
            slots: Mapping::new(slots, 0, bytes, ProtFlags::PROT_READ)?,
            controls: Mapping::new(
                controls,
                0,
                cpus * size_of::<ring_control>(),
                ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
            )?,
            slots_per_cpu,
            rings: (0..cpus).map(|_| Ring { tail: 0, next: None }).collect(),
        })
    }

    fn control(&self, cpu: usize) -> NonNull<ring_control> {
        assert!(cpu < self.rings.len());
        // SAFETY: the mapping holds a ring_control for each CPU.
        unsafe { self.controls.start.cast::<ring_control>().add(cpu) }
    }

    /// The slot at the ring buffer's tail.
    fn slot(&self, cpu: usize) -> *mut Record {
        let tail = self.rings[cpu].tail as usize & (self.slots_per_cpu as usize - 1);
        // SAFETY: cpu < cpus and the masked tail < slots_per_cpu: the slot lies in the mapping,
        // aligned to 8.
        unsafe { self.slots.start.cast::<Record>().add(cpu * self.slots_per_cpu as usize + tail) }.as_ptr()
    }

    /// The time of the record at the ring buffer's tail, if the kernel has published it.
    fn peek(&mut self, cpu: usize) -> Option<u64> {
        let Ring { tail, next } = self.rings[cpu];
        if next.is_some() {
            return next;
        }
        let record = self.slot(cpu);
        // SAFETY: `seq` is an aligned u32 inside the slot, written by the kernel's program only.
        let seq = unsafe { AtomicU32::from_ptr(&raw mut (*record).event.seq) };
        if seq.load(Ordering::Acquire) != (tail as u32).wrapping_add(1) {
            return None;
        }
        // SAFETY: the acquire above pairs with the program's publish: the record is complete, and
        // the program does not touch the slot again before the tail moves past it.
        let mono_ns = unsafe { (&raw const (*record).event.mono_ns).read_volatile() };
        self.rings[cpu].next = Some(mono_ns);
        self.rings[cpu].next
    }

    /// Passes the record at the ring buffer's tail to `take` and moves past it, if [`Rings::peek`]
    /// has seen it.
    fn pop(&mut self, cpu: usize, take: impl FnOnce(&Record)) {
        if self.rings[cpu].next.take().is_none() {
            return;
        }
        // SAFETY: as in `peek`: the record is complete, and nobody writes to it before
        // `release_space` publishes a tail past it, which it cannot while `take` runs.
        take(unsafe { &*self.slot(cpu) });
        self.rings[cpu].tail += 1;
    }

    fn release_space(&self, cpu: usize) {
        // SAFETY: `tail` is an aligned u64 that only we write.
        let tail = unsafe { AtomicU64::from_ptr(&raw mut (*self.control(cpu).as_ptr()).tail) };
        tail.store(self.rings[cpu].tail, Ordering::Release);
    }

    /// Takes every record up to a time, in order of time over all CPUs.
    pub(crate) fn drain(&mut self, until_ns: u64, mut take: impl FnMut(u16, &Record)) {
        let mut heap = BinaryHeap::with_capacity(self.rings.len());
        for cpu in 0..self.rings.len() {
            if let Some(at) = self.peek(cpu).filter(|at| *at <= until_ns) {
                heap.push(Reverse((at, cpu)));
            }
        }
        while let Some(Reverse((_, cpu))) = heap.pop() {
            // Runs of one CPU are common: stay with it while it is the earliest.
            let bound = heap.peek().map_or(until_ns, |Reverse((at, _))| *at);
            loop {
                self.pop(cpu, |record| take(cpu as u16, record));
                if self.rings[cpu].tail.is_multiple_of(RELEASE_EVERY) {
                    self.release_space(cpu);
                }
                match self.peek(cpu) {
                    Some(at) if at <= bound => {}
                    Some(at) if at <= until_ns => {
                        heap.push(Reverse((at, cpu)));
                        break;
                    }
                    _ => break,
                }
            }
        }
        for cpu in 0..self.rings.len() {
            self.release_space(cpu);
        }
    }

    /// The number of records in all ring buffers.
    pub(crate) fn waiting(&self) -> usize {
        (0..self.rings.len()).map(|cpu| self.head(cpu).wrapping_sub(self.rings[cpu].tail) as usize).sum()
    }

    /// The fill level of the fullest ring buffer, 0 to 1.
    pub(crate) fn max_fill(&self) -> f64 {
        let waiting =
            (0..self.rings.len()).map(|cpu| self.head(cpu).wrapping_sub(self.rings[cpu].tail)).max();
        waiting.unwrap_or(0) as f64 / f64::from(self.slots_per_cpu)
    }

    fn head(&self, cpu: usize) -> u64 {
        // SAFETY: `head` is an aligned u64, written atomically by the kernel's programs.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.control(cpu).as_ptr()).head) }.load(Ordering::Acquire)
    }

    /// Records taken from a CPU's ring buffer so far.
    pub(crate) fn kept(&self, cpu: usize) -> u64 {
        self.rings[cpu].tail
    }

    /// Number of CPUs.
    pub(crate) fn cpus(&self) -> usize {
        self.rings.len()
    }

    /// The counters of a CPU's hooks.
    pub(crate) fn counters(&self, cpu: usize) -> Counters {
        let control = self.control(cpu).as_ptr();
        // SAFETY: aligned integers inside the mapping, written atomically by the programs; a
        // volatile read is whole.
        let (lost_owner, lost_stack) = unsafe {
            (
                (&raw const (*control).lost_owner).read_volatile(),
                (&raw const (*control).lost_stack).read_volatile(),
            )
        };
        let mut sum = Counters { lost_owner, lost_stack, ..Counters::default() };
        for hook in 0..HOOKS {
            // SAFETY: the counters lie inside the mapping; each is written by one program on one
            // CPU at a time, and a volatile read of an aligned u64 is whole.
            let c = unsafe { std::ptr::read_volatile(&raw const (*control).hooks[hook]) };
            sum.selected += c.selected;
            sum.thinned += c.thinned;
            sum.lost_ring += c.lost_ring;
            sum.lost_memory += c.lost_memory;
        }
        // SAFETY: as above.
        let merged = unsafe { std::ptr::read_volatile(&raw const (*self.control(cpu).as_ptr()).merged) };
        sum.selected += merged;
        sum.thinned += merged;
        sum
    }

    /// Hook runs on all CPUs for flows that are not decided yet.
    pub(crate) fn undecided(&self) -> u64 {
        let of = |cpu| {
            let control = self.control(cpu).as_ptr();
            // SAFETY: as in `counters`.
            unsafe { (&raw const (*control).undecided).read_volatile() }
        };
        // While programs run on several CPUs, the readings are not simultaneous: a negative sum
        // counts as zero.
        (0..self.cpus()).map(of).fold(0u64, u64::wrapping_add).cast_signed().max(0).cast_unsigned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_possible_cpu_has_a_ring_and_a_control() {
        for (possible, rings, of_them) in
            [("0\n", 1, 1), ("0-1\n", 2, 2), ("0-2\n", 3, 4), ("0-3,8\n", 9, 16)]
        {
            assert_eq!(rings_for(possible), Some(rings));
            assert_eq!(controls(rings), of_them);
        }
        assert_eq!(rings_for(""), None);
        assert!(count().is_some_and(|rings| rings >= 1));
    }
}
