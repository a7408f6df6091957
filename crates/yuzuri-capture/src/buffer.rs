//! A sliding buffer over a stream.

use std::io::{self, Read};

/// The longest packet or block that is read: 16 MiB. No capturing program writes longer ones. The
/// buffer grows to this size at most.
pub(crate) const MAX_BYTES: usize = 16 << 20;

/// Fits the second-level cache beside what else is used, so that bytes are still cached when they
/// are decoded.
const USUAL_BYTES: usize = 128 << 10;

/// An error of the source itself, as opposed to an error of its decompressor.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct SourceError(pub io::Error);

pub(crate) struct Buffer<S> {
    source: S,
    bytes: Vec<u8>,
    /// The unread bytes: `bytes[start..end]`.
    start: usize,
    end: usize,
    /// The offset of `bytes[0]` in the stream.
    offset: u64,
    /// The source has ended.
    ended: bool,
    /// The decompressor found the source damaged or truncated.
    unsound: bool,
}

impl<S: Read> Buffer<S> {
    pub(crate) fn new(source: S) -> Buffer<S> {
        let bytes = vec![0; USUAL_BYTES];
        Buffer { source, bytes, start: 0, end: 0, offset: 0, ended: false, unsound: false }
    }

    /// The offset in the stream of the next byte.
    pub(crate) fn offset(&self) -> u64 {
        self.offset + self.start as u64
    }

    /// Whether the stream ended because it could not be decompressed further.
    pub(crate) fn unsound(&self) -> bool {
        self.unsound
    }

    /// The bytes that are buffered.
    #[inline]
    pub(crate) fn ready(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Whether `count` more bytes are available, reading them if needed; fewer are left only at the
    /// end of the stream.
    #[inline]
    pub(crate) fn has(&mut self, count: usize) -> io::Result<bool> {
        if self.end - self.start >= count { Ok(true) } else { self.fill(count) }
    }

    /// Consumes `count` bytes. The caller has checked with [`has`](Buffer::has) that they are
    /// available.
    #[inline]
    pub(crate) fn take(&mut self, count: usize) -> &[u8] {
        debug_assert!(self.start + count <= self.end, "more than is available");
        let taken = &self.bytes[self.start..][..count];
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
            // The buffer grows with the bytes that arrive, not with a claimed length.
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
