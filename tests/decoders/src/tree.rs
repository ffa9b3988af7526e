//! The disk form of a file tree, which is a baseline.

use innkeeper_reset::tree::{Builder, Entry, FORMAT, Kind, Tree};

use crate::Target;

/// More than any seed grows to.
const LIMIT: u64 = 1 << 20;

pub(crate) const TARGET: Target = Target {
    name: "tree",
    read,
    seeds,
};

/// Reads bytes as they are, and as what stands in an envelope whose sum is right: else none but
/// the envelope would ever be reached.
fn read(bytes: &[u8]) {
    decode(bytes);
    decode(&sealed(bytes));
}

fn decode(bytes: &[u8]) {
    let Ok(tree) = Tree::decode(bytes, LIMIT) else {
        return;
    };
    let written = tree.encode();
    assert!(written == bytes, "accepted what encode does not write");
    let again = Tree::decode(&written, LIMIT).expect("what was accepted before");
    assert_eq!(again.root(), tree.root());
    assert_eq!(tree.entries().count(), tree.len());
}

/// An envelope as the disk form has it: magic, version, length, sum.
fn sealed(payload: &[u8]) -> Vec<u8> {
    let magic = b"ik-tree\0";
    let version = FORMAT.to_le_bytes();
    let length = (payload.len() as u64).to_le_bytes();
    let mut hasher = blake3::Hasher::new();
    for part in [&magic[..], &version, &length, payload] {
        hasher.update(part);
    }
    let sum = *hasher.finalize().as_bytes();
    [&magic[..], &version, &length, &sum, payload].concat()
}

/// Whole forms, and their payloads alone.
fn seeds() -> Vec<Vec<u8>> {
    let whole = tree().encode();
    let payload = whole[innkeeper_reset::envelope::HEADER..].to_vec();
    vec![payload, whole]
}

/// A tree with an entry of every type.
fn tree() -> Tree {
    let mut builder = Builder::new(&Entry::new(Kind::Directory)).expect("a root");
    let mut add = |name: &[u8], entry: Entry| builder.add(name, &entry).expect("an entry");
    let mut file = Entry::new(Kind::File);
    file.xattrs = vec![(b"user.a".to_vec(), b"value".to_vec())];
    file.size = 7;
    let first = add(b"a-file", file.clone());
    let second = add(b"b-same-file", file);
    add(b"c-fifo", Entry::new(Kind::Fifo));
    let mut link = Entry::new(Kind::Symlink);
    link.target = b"a-file".to_vec();
    link.size = 6;
    add(b"d-link", link);
    add(b"e-directory", Entry::new(Kind::Directory));
    add(b"f-socket", Entry::new(Kind::Socket));
    builder.leave().expect("left");
    builder.link(first, second).expect("one file");
    builder.finish(vec![b"proc".to_vec()])
}
