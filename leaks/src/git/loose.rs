//! Loose objects: one file each, `objects/ab/cdef...`.

use std::fs::File;
use std::io::Read;

use super::parse::Type;
use super::zlib;

/// Bytes of a header: a word, a number of 20 digits, and NUL.
const HEADER: usize = 32;

/// Type and size of the object, with its content behind it when that is wanted. None: damaged.
pub(crate) fn read(file: &File, content: bool) -> Option<(Type, Vec<u8>)> {
    let mut stream = zlib::decoder(file, 0);
    let mut header = Vec::new();
    loop {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        match byte[0] {
            0 => break,
            _ if header.len() >= HEADER => return None,
            byte => header.push(byte),
        }
    }
    let header = std::str::from_utf8(&header).ok()?;
    let (word, size) = header.split_once(' ')?;
    let kind = Type::of_word(word)?;
    let size = size.parse().ok()?;
    if content {
        Some((kind, zlib::unpack(stream, size)?))
    } else {
        Some((kind, Vec::new()))
    }
}
