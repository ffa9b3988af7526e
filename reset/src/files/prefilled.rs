//! The upper of a sandbox that starts with a copy of one directory of its image.

use std::collections::HashMap;

use crate::tree::{BuildError, Builder, Kind, NO_GROUP, Tree};

/// By which an overlay that was mounted in a user namespace hides what lies below a directory.
const OPAQUE: (&[u8], &[u8]) = (b"user.overlay.opaque", b"y");

/// The raw upper over which a merged tree was captured, when the directory `path` had been copied
/// into it, opaque, with the directories above it. None where the tree has no such directory, or
/// where a file in it has a name outside: then it was not copied.
///
/// # Errors
/// When the tree is not canonical.
pub fn prefilled(merged: &Tree, path: &[u8]) -> Result<Option<Tree>, BuildError> {
    let mut builder = Builder::new(&merged.entry(0))?;
    let mut at = 0;
    let mut names = path
        .split(|byte| *byte == b'/')
        .filter(|name| !name.is_empty())
        .peekable();
    if names.peek().is_none() {
        return Ok(None);
    }
    while let Some(name) = names.next() {
        let Some(child) = merged.child(at, name) else {
            return Ok(None);
        };
        let mut entry = merged.entry(child);
        if entry.kind != Kind::Directory {
            return Ok(None);
        }
        if names.peek().is_none() {
            entry.xattrs.push((OPAQUE.0.to_vec(), OPAQUE.1.to_vec()));
            entry.xattrs.sort();
        }
        builder.add(name, &entry)?;
        at = child;
    }
    Ok(below(merged, at, &mut builder)?.then(|| builder.finish(Vec::new())))
}

/// Adds all that lies below an entry; false where a hard link leads out of it.
fn below(merged: &Tree, top: u32, builder: &mut Builder) -> Result<bool, BuildError> {
    let end = merged.node(top).end_index();
    let mut open: Vec<u32> = Vec::new();
    let mut first: HashMap<u32, u32> = HashMap::new();
    for index in top + 1..end {
        while open.pop_if(|end| *end == index).is_some() {
            builder.leave()?;
        }
        let entry = merged.entry(index);
        let added = builder.add(merged.name(index), &entry)?;
        let group = merged.node(index).group_index();
        if group != NO_GROUP {
            match first.get(&group) {
                Some(first) => builder.link(*first, added)?,
                None if group == index => _ = first.insert(group, added),
                None => return Ok(false),
            }
        }
        if entry.kind == Kind::Directory {
            open.push(merged.node(index).end_index());
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Entry;

    fn file(mode: u16) -> Entry {
        Entry {
            mode,
            ..Entry::new(Kind::File)
        }
    }

    fn directory(mode: u16) -> Entry {
        Entry {
            mode,
            ..Entry::new(Kind::Directory)
        }
    }

    fn merged(link_out: bool) -> Tree {
        let mut builder = Builder::new(&directory(0o755)).unwrap();
        let outside = builder.add(b"a", &file(0o644)).unwrap();
        builder.add(b"srv", &directory(0o750)).unwrap();
        builder.add(b"repo", &directory(0o700)).unwrap();
        builder.add(b"deep", &directory(0o711)).unwrap();
        let first = builder.add(b"one", &file(0o600)).unwrap();
        builder.leave().unwrap();
        let later = builder.add(b"two", &file(0o600)).unwrap();
        builder
            .link(if link_out { outside } else { first }, later)
            .unwrap();
        builder.leave().unwrap();
        builder.add(b"x", &file(0o640)).unwrap();
        builder.finish(Vec::new())
    }

    #[test]
    fn holds_the_directory_and_those_above_it() {
        let upper = prefilled(&merged(false), b"srv/repo").unwrap().unwrap();
        let paths: Vec<_> = upper.entries().map(|(path, _)| path).collect();
        let expected: [&[u8]; 6] = [
            b"",
            b"srv",
            b"srv/repo",
            b"srv/repo/deep",
            b"srv/repo/deep/one",
            b"srv/repo/two",
        ];
        assert_eq!(paths, expected);
        let opaque = |path: &[u8]| !upper.get(path).unwrap().xattrs.is_empty();
        assert!(opaque(b"srv/repo"));
        assert!(!opaque(b"srv") && !opaque(b"srv/repo/deep"));
        assert_eq!(upper.get(b"srv").unwrap().mode, 0o750);
        assert_eq!(upper.hard_links(b"srv/repo/two").len(), 2);
    }

    #[test]
    fn what_cannot_have_been_copied_gives_none() {
        assert!(prefilled(&merged(true), b"srv/repo").unwrap().is_none());
        for path in [&b""[..], b"x", b"srv/none"] {
            assert!(prefilled(&merged(false), path).unwrap().is_none());
        }
    }
}
