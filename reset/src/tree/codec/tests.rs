//! The disk form against itself, and against bytes that someone made up.

use proptest::prelude::*;

use super::{ENVELOPE, Tree};
use crate::digest::Digest;
use crate::tree::{Builder, Entry, Flags, Kind, Stamp, diff};

/// A recipe for one entry: depth change, name, kind and a number that fills the attributes.
type Recipe = (u8, Vec<u8>, u8, u64);

fn recipes() -> impl Strategy<Value = Vec<Recipe>> {
    let name = prop::collection::vec(1_u8..=255, 1..12);
    prop::collection::vec((0_u8..4, name, 1_u8..=8, any::<u64>()), 0..40)
}

fn entry(kind: Kind, number: u64) -> Entry {
    let mut entry = Entry::new(kind);
    if kind == Kind::Mount {
        return entry;
    }
    entry.mode = (number % 0o10000) as u16;
    entry.uid = (number >> 12) as u32;
    entry.gid = (number >> 20) as u32;
    entry.mtime_s = number as i64;
    entry.mtime_ns = (number % 1_000_000_000) as u32;
    entry.flags = Flags((number >> 7) as u8 % 16);
    if number.is_multiple_of(3) {
        entry.xattrs = vec![
            (b"user.a".to_vec(), number.to_le_bytes().to_vec()),
            (b"user.b".to_vec(), vec![]),
        ];
    }
    match kind {
        Kind::File => {
            entry.size = number;
            entry.content = Digest::from_bytes([(number % 255) as u8 + 1; 32]);
            let stamp = Stamp {
                dev: number,
                ino: number / 2,
                ctime_s: -1,
                ctime_ns: 7,
            };
            entry.stamp = number.is_multiple_of(2).then_some(stamp);
        }
        Kind::Symlink => {
            entry.target = number.to_string().into_bytes();
            entry.size = entry.target.len() as u64;
        }
        Kind::CharDevice | Kind::BlockDevice => entry.rdev = number,
        Kind::Directory | Kind::Fifo | Kind::Socket | Kind::Mount => {}
    }
    entry
}

/// Builds what of the recipes is canonical. Every file whose number divides by five and equals in kind
/// an earlier one becomes its hard link.
fn build(recipes: &[Recipe]) -> Tree {
    let mut builder = Builder::new(&entry(Kind::Directory, 1)).expect("a root");
    let mut depth = 0;
    let mut first_file = None;
    for (up, name, kind, number) in recipes {
        for _ in 0..(*up).min(depth) {
            builder.leave().expect("not the root");
            depth -= 1;
        }
        let kind = Kind::from_number(*kind).expect("in range");
        let Ok(index) = builder.add(name, &entry(kind, *number)) else {
            continue;
        };
        depth += u8::from(kind == Kind::Directory);
        if kind == Kind::File {
            match first_file {
                Some(first) if number.is_multiple_of(5) => {
                    builder.link(first, index).expect("in order")
                }
                Some(_) => {}
                None => first_file = Some(index),
            }
        }
    }
    builder.finish(vec![b"proc".to_vec()])
}

proptest! {
    #[test]
    fn a_tree_survives_its_disk_form(recipes in recipes()) {
        let tree = build(&recipes);
        let bytes = tree.encode();
        let again = Tree::decode(&bytes, bytes.len() as u64).expect("its own bytes");
        prop_assert_eq!(again.root(), tree.root());
        prop_assert_eq!(again.encode(), bytes);
        prop_assert!(diff(&tree, &again, 10).is_empty());
        let (one, two): (Vec<_>, Vec<_>) = (tree.entries().collect(), again.entries().collect());
        prop_assert_eq!(one, two);
    }

    #[test]
    fn trees_differ_exactly_when_their_roots_do(a in recipes(), b in recipes()) {
        let (a, b) = (build(&a), build(&b));
        prop_assert_eq!(diff(&a, &b, 10).is_empty(), a.root() == b.root());
    }

    #[test]
    fn bytes_made_up_never_panic(payload in prop::collection::vec(any::<u8>(), 0..400)) {
        let sealed = ENVELOPE.seal(&payload);
        let _ = Tree::decode(&sealed, 1 << 20);
        let _ = Tree::decode(&payload, 1 << 20);
    }

    #[test]
    fn bytes_bent_never_panic(recipes in recipes(), at in any::<prop::sample::Index>(), to in any::<u8>()) {
        let sealed = build(&recipes).encode();
        let mut payload = sealed[crate::envelope::HEADER..].to_vec();
        let at = at.index(payload.len());
        payload[at] = to;
        if let Ok(tree) = Tree::decode(&ENVELOPE.seal(&payload), 1 << 20) {
            prop_assert_eq!(&tree.encode()[crate::envelope::HEADER..], &payload[..], "one form only");
        }
    }
}

#[test]
fn a_size_limit_holds_before_anything_is_read() {
    let bytes = build(&[]).encode();
    assert!(Tree::decode(&bytes, bytes.len() as u64 - 1).is_err());
}

#[test]
fn a_claimed_count_reserves_nothing() {
    let mut payload = u32::MAX.to_le_bytes().to_vec();
    payload.extend([0; 64]);
    assert!(Tree::decode(&ENVELOPE.seal(&payload), 1 << 20).is_err());
}

/// The encodings are stored and compared across versions of this program: a change of any byte needs
/// a new version number, and these digests then change with it.
#[test]
fn the_encodings_are_frozen() {
    let link = (0, b"link".to_vec(), Kind::Symlink as u8, 35);
    let recipes = [
        (0, b"dir".to_vec(), Kind::Directory as u8, 0o755),
        (0, b"file".to_vec(), Kind::File as u8, 30),
        (0, b"hard".to_vec(), Kind::File as u8, 30),
        (1, b"fifo".to_vec(), Kind::Fifo as u8, 34),
        link,
        (0, b"null".to_vec(), Kind::CharDevice as u8, 1 << 32 | 3),
        (0, b"proc".to_vec(), Kind::Mount as u8, 0),
    ];
    let tree = build(&recipes);
    assert_eq!(tree.len(), 8);
    assert_eq!(tree.hard_links(b"dir/hard").len(), 2);
    assert_eq!(
        tree.root().to_string(),
        "15befa15bd2f548f5a5f0fd93e49f6f843d13fd5b50ad01e18f009a2dd6bca6c"
    );
    let stored = blake3::hash(&tree.encode()).to_string();
    assert_eq!(
        stored,
        "b6b40c1d059e217058ab34ac84d06a50cf26d9cabdfe4e6cfd66cd27b8c2cef7"
    );
}
