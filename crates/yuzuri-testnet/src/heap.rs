//! An allocator that counts, for tests of how much memory a program holds.

#![expect(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's allocator with counters. A test program declares it with `#[global_allocator]`.
///
/// It counts what Rust code allocates; memory that C libraries allocate themselves is not counted.
#[derive(Debug)]
pub struct CountingAllocator;

static IN_USE_BYTES: AtomicUsize = AtomicUsize::new(0);
static MAX_BYTES: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static CALLS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: all calls go to the system's allocator; the counters change nothing about the results.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`, which is the same here.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above; the pointer comes from this allocator, that is, from the system's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

fn count(bytes: usize) {
    // A thread that ends allocates after its locals are gone.
    let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
    let in_use = IN_USE_BYTES.fetch_add(bytes, Ordering::Relaxed) + bytes;
    MAX_BYTES.fetch_max(in_use, Ordering::Relaxed);
}

/// Bytes that the process has allocated and not freed.
pub fn in_use_bytes() -> usize {
    IN_USE_BYTES.load(Ordering::Relaxed)
}

/// Checks that memory does not grow. `rounds` are the bytes in use after each of several equal
/// rounds, each of which made and removed `items`: less than 8 bytes may remain of each item.
///
/// # Panics
/// If more remain.
pub fn assert_steady(rounds: &[usize], items: usize) {
    let least = |rounds: &[usize]| *rounds.iter().min().expect("rounds");
    let (first, last) = rounds.split_at(rounds.len() / 2);
    let most = least(first) + items * rounds.len() / 2 * 8;
    assert!(least(last) < most, "bytes in use after each round: {rounds:?}");
}

/// The number of allocations that this thread has made.
pub fn calls_of_this_thread() -> usize {
    CALLS.get()
}

/// Runs `f`. Returns the maximum number of bytes that the process allocated in addition during the
/// call, and the result.
pub fn max_bytes_during<T>(f: impl FnOnce() -> T) -> (usize, T) {
    let before = in_use_bytes();
    MAX_BYTES.store(before, Ordering::Relaxed);
    let result = f();
    (MAX_BYTES.load(Ordering::Relaxed).saturating_sub(before), result)
}
