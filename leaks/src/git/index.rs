//! Pack indexes: which objects a pack holds, and where.

use super::oid::Oid;
use super::{Error, damaged};

/// Bytes of an index that is read: some 20 million objects.
pub(crate) const LONGEST: u64 = 640 << 20;

/// Objects of a pack with their offsets.
pub(crate) fn read(file: &str, bytes: &[u8]) -> Result<Vec<(Oid, u64)>, Error> {
    if bytes.starts_with(b"\xfftOc") {
        if number(bytes, 4) != Some(2) {
            return Err(Error::Unknown(format!("the version of {file}")));
        }
        second(file, bytes)
    } else {
        first(file, bytes)
    }
}

/// Version 1: a fan-out table, then offset and name of each object.
fn first(file: &str, bytes: &[u8]) -> Result<Vec<(Oid, u64)>, Error> {
    let short = || damaged(file, "it is too short");
    let count = number(bytes, 255 * 4).ok_or_else(short)? as usize;
    let entries = bytes.get(1024..).ok_or_else(short)?;
    let entries = entries.chunks_exact(24).take(count);
    if entries.len() != count {
        return Err(short());
    }
    let entry = |entry: &[u8]| Some((Oid::from_bytes(&entry[4..])?, u64::from(number(entry, 0)?)));
    entries.map(entry).collect::<Option<_>>().ok_or_else(short)
}

/// Version 2: fan-out, names, checksums, offsets, long offsets.
fn second(file: &str, bytes: &[u8]) -> Result<Vec<(Oid, u64)>, Error> {
    let short = || damaged(file, "it is too short");
    let count = number(bytes, 8 + 255 * 4).ok_or_else(short)? as usize;
    let names = 8 + 1024;
    let offsets = count
        .checked_mul(24)
        .and_then(|skip| skip.checked_add(names));
    let offsets = offsets.ok_or_else(short)?;
    let long = count
        .checked_mul(4)
        .and_then(|skip| skip.checked_add(offsets));
    let long = long.ok_or_else(short)?;
    if bytes.len() < long {
        return Err(short());
    }
    let entry = |place: usize| {
        let name = bytes.get(names + place * 20..names + place * 20 + 20)?;
        let offset = number(bytes, offsets + place * 4)?;
        let offset = if offset & 1 << 31 == 0 {
            u64::from(offset)
        } else {
            let at = long + (offset & !(1 << 31)) as usize * 8;
            u64::from(number(bytes, at)?) << 32 | u64::from(number(bytes, at + 4)?)
        };
        Some((Oid::from_bytes(name)?, offset))
    };
    (0..count)
        .map(entry)
        .collect::<Option<_>>()
        .ok_or_else(short)
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_be_bytes(four.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_that_promises_more_than_it_holds_is_damaged() {
        let mut bytes = b"\xfftOc\0\0\0\x02".to_vec();
        bytes.extend([0xff; 1024]);
        assert!(matches!(read("f", &bytes), Err(Error::Damaged { .. })));
        assert!(matches!(
            read("f", &[0xff; 1024]),
            Err(Error::Damaged { .. })
        ));
        assert!(matches!(read("f", b""), Err(Error::Damaged { .. })));
        bytes[7] = 3;
        assert!(matches!(read("f", &bytes), Err(Error::Unknown(_))));
    }
}
