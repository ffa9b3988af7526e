//! Unpacking zlib streams of a length that is known before.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;

use flate2::read::ZlibDecoder;

/// The largest object that is unpacked: commits, trees and tags are far smaller.
pub(crate) const LARGEST: u64 = 256 << 20;

/// Reads a file from a place on, without moving anything that others see.
struct From<'a> {
    file: &'a File,
    at: u64,
}

impl Read for From<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// A decoder of the stream that begins at a place of a file.
pub(crate) fn decoder(file: &File, at: u64) -> impl Read {
    ZlibDecoder::new(BufReader::with_capacity(4096, From { file, at }))
}

/// The `size` bytes that a stream holds; None where it holds fewer or is no stream.
pub(crate) fn unpack(stream: impl Read, size: u64) -> Option<Vec<u8>> {
    if size > LARGEST {
        return None;
    }
    // Not trusted with memory before the bytes are there.
    let mut bytes = Vec::with_capacity(size.min(1 << 16) as usize);
    stream.take(size).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 == size).then_some(bytes)
}
