//! Ids of a sandbox as the host sees them, brought back to what they are inside.

use crate::text::read;

/// A range of host ids that stands for 0 and so on inside.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ids {
    base: u32,
    count: u32,
}

impl Ids {
    /// Ids are the same on both sides.
    pub(crate) const SAME: Self = Self {
        base: 0,
        count: u32::MAX,
    };

    /// Those of a process, by the first line of its map.
    pub(crate) fn of(map: &str) -> Option<Self> {
        let text = read(map).ok()?;
        let text = String::from_utf8(text).ok()?;
        let mut words = text.lines().next()?.split_whitespace();
        let (inside, base, count) = (words.next()?, words.next()?, words.next()?);
        let base: u32 = base.parse().ok()?;
        let inside: u32 = inside.parse().ok()?;
        Some(Self {
            base: base.checked_sub(inside)?,
            count: count.parse().ok()?,
        })
    }

    /// An id in words: as inside, or as one of the host's.
    pub(crate) fn inside(self, id: u32) -> String {
        match id.checked_sub(self.base) {
            Some(inside) if inside < self.count => inside.to_string(),
            Some(_) | None => format!("host's {id}"),
        }
    }
}

/// An extended attribute whose value holds ids, with those ids as inside.
pub(crate) fn readable(name: &[u8], value: &[u8], ids: Ids) -> Option<String> {
    match name {
        b"system.posix_acl_access" | b"system.posix_acl_default" => acl(value, ids),
        b"security.capability" => capability(value, ids),
        _ => None,
    }
}

/// `linux/posix_acl_xattr.h`: a version, then entries of tag, rights and id.
fn acl(value: &[u8], ids: Ids) -> Option<String> {
    let (version, entries) = value.split_at_checked(4)?;
    let mut words = vec![format!("version {}", word(version, 0)?)];
    for entry in entries.chunks(8) {
        let both = word(entry, 0)?;
        let (tag, rights) = (both & 0xffff, both >> 16);
        let id = word(entry, 4)?;
        let id = if id == u32::MAX {
            "-".to_owned()
        } else {
            ids.inside(id)
        };
        words.push(format!("{tag:x}:{id}:{rights:o}"));
    }
    Some(words.join(" "))
}

/// `linux/capability.h`: a magic number, sets, and in version 3 the id of the namespace's root,
/// which the kernel shows outside alone.
fn capability(value: &[u8], ids: Ids) -> Option<String> {
    const VERSION_3: u32 = 0x0300_0000;
    let magic = word(value, 0)?;
    let sets: Option<Vec<_>> = (1..5)
        .map(|place| Some(format!("{:08x}", word(value, 4 * place)?)))
        .collect();
    let root = match magic & 0xff00_0000 {
        VERSION_3 => ids.inside(word(value, 20)?),
        _ => "0".to_owned(),
    };
    Some(format!(
        "{} {} root {root}",
        magic & 0xff_ffff,
        sets?.join(" ")
    ))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDS: Ids = Ids {
        base: 100_000,
        count: 65_536,
    };

    #[test]
    fn ids_are_as_inside() {
        assert_eq!(IDS.inside(100_005), "5");
        assert_eq!(IDS.inside(7), "host's 7");
        assert_eq!(IDS.inside(165_536), "host's 165536");
    }

    #[test]
    fn lists_and_capabilities_read_the_same_from_both_sides() {
        let list = |id: u32| {
            [
                2u32.to_le_bytes(),
                (2u32 | 6 << 16).to_le_bytes(),
                id.to_le_bytes(),
            ]
            .concat()
        };
        let name = b"system.posix_acl_access";
        let inside = readable(name, &list(5), Ids::SAME);
        assert_eq!(inside, readable(name, &list(100_005), IDS));
        assert_eq!(inside.as_deref(), Some("version 2 2:5:6"));
        let sets = [0x2000u32, 0, 0, 0].map(u32::to_le_bytes).concat();
        let two = [&0x0200_0001u32.to_le_bytes()[..], &sets].concat();
        let three = [
            &0x0300_0001u32.to_le_bytes()[..],
            &sets,
            &100_000u32.to_le_bytes(),
        ]
        .concat();
        let name = b"security.capability";
        assert_eq!(readable(name, &two, Ids::SAME), readable(name, &three, IDS));
    }
}
