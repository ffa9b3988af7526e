//! What objects say of others.

use super::oid::Oid;

/// What an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    Commit,
    Tree,
    Blob,
    Tag,
}

impl Type {
    pub(crate) fn of_word(word: &str) -> Option<Self> {
        match word {
            "commit" => Some(Self::Commit),
            "tree" => Some(Self::Tree),
            "blob" => Some(Self::Blob),
            "tag" => Some(Self::Tag),
            _ => None,
        }
    }
}

/// A commit's tree and parents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Commit {
    pub(crate) tree: Oid,
    pub(crate) parents: Vec<Oid>,
}

/// Reads a commit's first lines; None where they are not a commit's.
pub(crate) fn commit(content: &[u8]) -> Option<Commit> {
    let mut lines = content.split(|byte| *byte == b'\n');
    let tree = Oid::from_hex(lines.next()?.strip_prefix(b"tree ")?)?;
    let parents = lines.map_while(|line| Oid::from_hex(line.strip_prefix(b"parent ")?));
    let parents = parents.collect();
    Some(Commit { tree, parents })
}

/// What a tag names.
pub(crate) fn tag(content: &[u8]) -> Option<Oid> {
    let line = content.split(|byte| *byte == b'\n').next()?;
    Oid::from_hex(line.strip_prefix(b"object ")?)
}

/// An entry of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) oid: Oid,
    /// None: a submodule's commit, which lies in another repository.
    pub(crate) kind: Option<Type>,
}

/// Entries of a tree; the last is None where the rest is damaged.
pub(crate) fn tree(content: &[u8]) -> impl Iterator<Item = Option<Entry<'_>>> {
    let mut rest = content;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let entry = entry(&mut rest);
        if entry.is_none() {
            rest = &[];
        }
        Some(entry)
    })
}

fn entry<'a>(rest: &mut &'a [u8]) -> Option<Entry<'a>> {
    let space = rest.iter().position(|byte| *byte == b' ')?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    let name = rest.get(space + 1..end)?;
    let kind = match &rest[..space] {
        b"40000" | b"040000" => Some(Type::Tree),
        b"160000" => None,
        _ => Some(Type::Blob),
    };
    let oid = Oid::from_bytes(rest.get(end + 1..end + 21)?)?;
    *rest = &rest[end + 21..];
    Some(Entry { name, oid, kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_an_entry_is_no_entry() {
        let mut content = b"100644 a\0".to_vec();
        content.extend([7; 20]);
        content.extend(b"40000 b\0short");
        let entries: Vec<_> = tree(&content).collect();
        assert_eq!(entries[0].unwrap().name, b"a");
        assert_eq!(entries[1..], [None]);
        assert_eq!(tree(b"x\0y z").collect::<Vec<_>>(), [None]);
        assert_eq!(commit(b"tree 00\nparent x\n"), None);
    }
}
