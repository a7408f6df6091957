//! The flows of a capture on several threads, each of which reads all of it and follows a share of
//! its own. To look again at a packet costs less than to hand it from one core to another, and
//! nobody waits for anybody.

use super::spread::{Part, feed};
use std::io::Read;
use std::panic;
use std::thread;
use yuzuri_capture::{Capture, ReadError};

/// More readers gain little: to look at a packet takes a fifth of the time that it takes to read
/// and follow it.
pub const MAX_READERS: usize = 4;

/// Reads the same capture by each of `captures` to its end: by the first on this thread, by the
/// others on threads of their own. The flows that each gives
/// ([`Partition`](yuzuri_capture::Partition)) go to the part of its place. The parts have finished,
/// whatever the outcome.
///
/// What is dear to read twice or cannot be is for [`spread`](super::spread()).
///
/// # Panics
/// If there are not as many captures as parts.
pub fn read_each<R: Read + Send, P: Part>(
    captures: &mut [Capture<R>],
    parts: &mut [P],
) -> Result<(), ReadError> {
    assert_eq!(captures.len(), parts.len(), "a part for each reader");
    thread::scope(|scope| {
        let mut pairs = captures.iter_mut().zip(parts);
        let own = pairs.next();
        let others: Vec<_> = pairs.map(|(capture, part)| scope.spawn(move || feed(capture, part))).collect();
        let read = own.map_or(Ok(()), |(capture, part)| feed(capture, part));
        let joined =
            others.into_iter().map(|other| other.join().unwrap_or_else(|fault| panic::resume_unwind(fault)));
        joined.fold(read, Result::and)
    })
}
