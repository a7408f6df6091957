//! Divides the flows of a capture among several threads, each of which reads the whole capture and
//! tracks a part of the flows. Decoding a packet again costs less than passing it from one core to
//! another, and no thread waits for another.

use super::spread::{Part, feed};
use std::io::Read;
use std::panic;
use std::thread;
use yuzuri_capture::{Capture, ReadError};

/// More readers gain little: decoding a packet takes a fifth of the time of reading and tracking
/// it.
pub const MAX_READERS: usize = 4;

/// Reads the same capture with each of `captures` to its end: with the first on this thread, with
/// the others on their own threads. The flows of each ([`Partition`](yuzuri_capture::Partition)) go
/// to the part with the same index. All parts have finished on return, whatever the result.
///
/// For captures that are expensive or impossible to read twice, use [`spread`](super::spread()).
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
