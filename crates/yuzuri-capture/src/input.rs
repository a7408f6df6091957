//! The source of a capture's bytes: a file, standard input or any reader, decompressed on the way.

use crate::buffer::SourceError;
use crate::facts::Compression;
use flate2::bufread::MultiGzDecoder;
use std::io::{self, BufReader, Read};

/// The memory limit for decompressing xz; `xz -9` needs half of it.
const MAX_XZ_KIB: u32 = 128 << 10;
const MAX_ZSTD_WINDOW_LOG: u32 = 27;

/// A reader with its beginning put back. Its errors carry [`SourceError`], so that they keep their
/// identity through a decoder.
struct Source<R> {
    beginning: [u8; 6],
    given: usize,
    length: usize,
    reader: R,
}

impl<R: Read> Read for Source<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.given < self.length {
            let count = (&self.beginning[self.given..self.length]).read(buffer)?;
            self.given += count;
            return Ok(count);
        }
        loop {
            match self.reader.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result.map_err(|error| io::Error::other(SourceError(error))),
            }
        }
    }
}

/// A stream, decompressed according to its first bytes. A decoder may use at most 128 MiB.
pub struct Unpacked<R: Read>(Decoder<R>);

enum Decoder<R: Read> {
    Plain(Source<R>),
    Gzip(Box<MultiGzDecoder<BufReader<Source<R>>>>),
    Zstd(Box<zstd::Decoder<'static, BufReader<Source<R>>>>),
    Xz(Box<lzma_rust2::XzReader<BufReader<Source<R>>>>),
}

impl Compression {
    /// How a stream with this beginning is compressed; 6 bytes are enough.
    pub fn of(beginning: &[u8]) -> Compression {
        match beginning {
            [0x1f, 0x8b, ..] => Compression::Gzip,
            // A frame, or a skippable frame (RFC 8878 section 3.1.2).
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Compression::Zstd,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Compression::Xz,
            _ => Compression::None,
        }
    }
}

impl<R: Read> Unpacked<R> {
    /// Recognises by its first bytes how a stream is compressed.
    ///
    /// # Errors
    /// If these bytes cannot be read.
    pub fn new(reader: R) -> io::Result<(Unpacked<R>, Compression)> {
        let mut source = Source { beginning: [0; 6], given: 0, length: 0, reader };
        while source.length < source.beginning.len() {
            match source.reader.read(&mut source.beginning[source.length..]) {
                Ok(0) => break,
                Ok(count) => source.length += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let compression = Compression::of(&source.beginning[..source.length]);
        let decoder = match compression {
            Compression::None => Decoder::Plain(source),
            Compression::Gzip => Decoder::Gzip(Box::new(MultiGzDecoder::new(BufReader::new(source)))),
            Compression::Zstd => {
                let mut decoder = zstd::Decoder::new(source)?;
                decoder.window_log_max(MAX_ZSTD_WINDOW_LOG)?;
                Decoder::Zstd(Box::new(decoder))
            }
            Compression::Xz => {
                let reader = BufReader::new(source);
                Decoder::Xz(Box::new(lzma_rust2::XzReader::new_mem_limit(reader, true, MAX_XZ_KIB)))
            }
        };
        Ok((Unpacked(decoder), compression))
    }
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            Decoder::Plain(source) => source.read(buffer),
            Decoder::Gzip(decoder) => decoder.read(buffer),
            Decoder::Zstd(decoder) => decoder.read(buffer),
            Decoder::Xz(decoder) => decoder.read(buffer),
        }
    }
}
