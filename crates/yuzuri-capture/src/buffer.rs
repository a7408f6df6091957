//! A stream seen through a buffer that moves along it.

use std::io::{self, Read};

/// Longest packet or block that is read: 16 MiB. No capturing program writes longer ones; the buffer grows so far at most.
pub(crate) const MAX_BYTES: usize = 16 << 20;

/// Fits the second-level cache, so that what is read is still there when it is decoded.
const USUAL_BYTES: usize = 256 << 10;

/// An error of the source itself, as opposed to one of what unpacks it.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct SourceError(pub io::Error);

pub(crate) struct Buffer<S> {
    source: S,
    bytes: Vec<u8>,
    /// What is there and not taken yet: `bytes[start..end]`.
    start: usize,
    end: usize,
    /// Place of `bytes[0]` in the stream.
    offset: u64,
    /// The source gives no more.
    ended: bool,
    /// What unpacks the source found it damaged or cut.
    unsound: bool,
}

impl<S: Read> Buffer<S> {
    pub(crate) fn new(source: S) -> Buffer<S> {
        let bytes = vec![0; USUAL_BYTES];
        Buffer { source, bytes, start: 0, end: 0, offset: 0, ended: false, unsound: false }
    }

    /// Place in the stream of what comes next.
    pub(crate) fn offset(&self) -> u64 {
        self.offset + self.start as u64
    }

    /// Whether the stream ended because it could not be unpacked further.
    pub(crate) fn unsound(&self) -> bool {
        self.unsound
    }

    /// What is there already.
    #[inline]
    pub(crate) fn ready(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Whether so many bytes come next; fewer only at the end of the stream.
    #[inline]
    pub(crate) fn has(&mut self, count: usize) -> io::Result<bool> {
        if self.end - self.start >= count { Ok(true) } else { self.fill(count) }
    }

    /// Takes so many bytes, which [`has`](Buffer::has) said are there.
    #[inline]
    pub(crate) fn take(&mut self, count: usize) -> &[u8] {
        let taken = &self.bytes[self.start..self.end][..count];
        self.start += count;
        taken
    }

    #[cold]
    fn fill(&mut self, count: usize) -> io::Result<bool> {
        self.bytes.copy_within(self.start..self.end, 0);
        self.offset += self.start as u64;
        self.end -= self.start;
        self.start = 0;
        while self.end < count && !self.ended {
            // Grows with what is there, not with what is claimed.
            if self.end == self.bytes.len() {
                self.bytes.resize(2 * self.end, 0);
            }
            match self.source.read(&mut self.bytes[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(more) => self.end += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.ended = true;
                    match error.downcast::<SourceError>() {
                        Ok(SourceError(error)) => return Err(error),
                        Err(_) => self.unsound = true,
                    }
                }
            }
        }
        Ok(self.end >= count)
    }
}
