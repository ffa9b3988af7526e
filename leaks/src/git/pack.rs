//! Packs: objects one after the other, many as differences to others.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::oid::Oid;
use super::parse::Type;
use super::zlib;

/// Bytes of an entry's header: at most 10 of size, and 20 of a name.
const HEADER: usize = 32;

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// An object by itself.
    Whole(Type),
    /// A difference to the entry at this offset of the same pack.
    Offset(u64),
    /// A difference to an object of any pack.
    Named(Oid),
}

/// An entry's header, and where its stream begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) form: Form,
    pub(crate) size: u64,
    pub(crate) stream: u64,
}

/// Reads the header of the entry at an offset; None: damaged.
pub(crate) fn head(file: &File, at: u64) -> Option<Head> {
    let mut bytes = [0; HEADER];
    let mut filled = 0;
    while filled < HEADER {
        match file
            .read_at(&mut bytes[filled..], at + filled as u64)
            .ok()?
        {
            0 => break,
            read => filled += read,
        }
    }
    let mut rest = bytes[..filled].iter().copied();
    let first = rest.next()?;
    let mut size = u64::from(first & 0x0f);
    let (mut shift, mut byte) = (4, first);
    while byte & 0x80 != 0 {
        byte = rest.next()?;
        size |= u64::from(byte & 0x7f).checked_shl(shift)?;
        shift += 7;
    }
    let form = match first >> 4 & 7 {
        1 => Form::Whole(Type::Commit),
        2 => Form::Whole(Type::Tree),
        3 => Form::Whole(Type::Blob),
        4 => Form::Whole(Type::Tag),
        6 => {
            let mut byte = rest.next()?;
            let mut back = u64::from(byte & 0x7f);
            while byte & 0x80 != 0 {
                byte = rest.next()?;
                back = (back.checked_add(1)?).checked_mul(128)? | u64::from(byte & 0x7f);
            }
            Form::Offset(at.checked_sub(back).filter(|base| *base < at)?)
        }
        7 => {
            let name: Vec<u8> = rest.by_ref().take(20).collect();
            Form::Named(Oid::from_bytes(&name)?)
        }
        _ => return None,
    };
    let stream = at + (filled - rest.count()) as u64;
    Some(Head { form, size, stream })
}

/// The unpacked bytes of an entry: an object, or a difference.
pub(crate) fn stream(file: &File, head: &Head) -> Option<Vec<u8>> {
    zlib::unpack(zlib::decoder(file, head.stream), head.size)
}

/// Applies a difference to its base; None where the two do not fit.
pub(crate) fn apply(base: &[u8], delta: &[u8]) -> Option<Vec<u8>> {
    let mut rest = delta.iter().copied();
    let length = |rest: &mut dyn Iterator<Item = u8>| -> Option<u64> {
        let (mut value, mut shift) = (0_u64, 0);
        loop {
            let byte = rest.next()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift)?;
            shift += 7;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
    };
    if length(&mut rest)? != base.len() as u64 {
        return None;
    }
    let size = length(&mut rest)?;
    if size > zlib::LARGEST {
        return None;
    }
    let mut out = Vec::with_capacity(size.min(1 << 16) as usize);
    while let Some(order) = rest.next() {
        if order & 0x80 != 0 {
            let mut part = |bits: std::ops::Range<u8>| -> Option<usize> {
                let mut value = 0;
                for (place, bit) in bits.enumerate() {
                    if order & 1 << bit != 0 {
                        value |= usize::from(rest.next()?) << (8 * place);
                    }
                }
                Some(value)
            };
            let from = part(0..4)?;
            let count = match part(4..7)? {
                0 => 0x10000,
                count => count,
            };
            out.extend_from_slice(base.get(from..from.checked_add(count)?)?);
        } else if order != 0 {
            let before = out.len();
            out.extend(rest.by_ref().take(usize::from(order)));
            if out.len() - before != usize::from(order) {
                return None;
            }
        } else {
            return None;
        }
        if out.len() as u64 > size {
            return None;
        }
    }
    (out.len() as u64 == size).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_apply_or_fail_and_never_reach_out_of_their_base() {
        let base = b"hello world";
        // Copy 6 bytes from 0, insert "you".
        let delta = [11, 9, 0x90, 6, 3, b'y', b'o', b'u'];
        assert_eq!(apply(base, &delta).unwrap(), b"hello you");
        for wrong in [
            &[10, 9, 0x90, 6][..],
            &[11, 9, 0x91, 8, 6],
            &[11, 9, 0],
            &[11, 9, 3, b'y'],
            &[11, 2, 0x90, 6],
            &[
                11, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1,
            ],
            &[],
        ] {
            assert_eq!(apply(base, wrong), None, "{wrong:?}");
        }
    }
}
