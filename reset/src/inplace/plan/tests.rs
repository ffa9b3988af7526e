use super::*;
use crate::tree::{Builder, Entry};

fn entry(kind: Kind, content: &str) -> Entry {
    let mut entry = Entry::new(kind);
    if kind == Kind::File {
        entry.size = content.len() as u64;
        entry.content = Digest::from_bytes(*blake3::hash(content.as_bytes()).as_bytes());
        entry.link_count = 1;
    }
    entry
}

/// Entries of one directory, which is the root.
fn flat(entries: &[(&str, Entry)]) -> Tree {
    let mut builder = Builder::new(&entry(Kind::Directory, "")).expect("root");
    for (name, entry) in entries {
        builder.add(name.as_bytes(), entry).expect("entry");
        if entry.kind == Kind::Directory {
            builder.leave().expect("leave");
        }
    }
    builder.finish(Vec::new())
}

fn words(plan: &Plan) -> Vec<String> {
    let word = |step: &Step| {
        let path = step.path.escape_ascii();
        let change = match &step.change {
            Change::Unlock { .. } => "unlock",
            Change::Remove { .. } => "remove",
            Change::Make { .. } | Change::Symlink { .. } => "make",
            Change::Link { .. } => "link",
            Change::Write { .. } => "write",
            Change::Owner { .. } => "owner",
            Change::Xattrs { .. } => "xattrs",
            Change::Mode { .. } => "mode",
            Change::Time { .. } => "time",
            Change::Flags { .. } => "flags",
        };
        format!("{path} {change}")
    };
    plan.steps.iter().map(word).collect()
}

#[test]
fn equal_trees_need_nothing() {
    let tree = flat(&[("a", entry(Kind::File, "x"))]);
    assert!(plan(&tree, &tree, |_| false).expect("possible").is_empty());
}

/// Writing and a change of owner clear what is set after them.
#[test]
fn attributes_come_in_the_order_in_which_none_undoes_another() {
    let mut was = entry(Kind::File, "was");
    was.mode = 0o4755;
    let mut is = entry(Kind::File, "is");
    is.mode = 0o4755;
    is.uid = 7;
    is.flags = Flags(Flags::IMMUTABLE);
    let planned = plan(&flat(&[("a", was)]), &flat(&[("a", is)]), |_| true).expect("possible");
    let order = [
        "a unlock", "a write", "a owner", "a xattrs", "a mode", "a time", "a flags",
    ];
    assert_eq!(words(&planned), order);
}

#[test]
fn additions_go_before_anything_is_made_and_directories_get_their_times_last() {
    let was = flat(&[
        ("a", entry(Kind::Directory, "")),
        ("b", entry(Kind::File, "")),
    ]);
    let is = flat(&[
        ("a", entry(Kind::File, "")),
        ("c", entry(Kind::Directory, "")),
    ]);
    let planned = plan(&was, &is, |_| false).expect("nothing to copy");
    let words = words(&planned);
    let at = |word: &str| words.iter().position(|w| w == word).expect(word);
    assert!(at("c remove") < at("a make") && at("a remove") < at("a make"));
    assert!(at("b make") < at("b time"));
    assert_eq!(words.last().map(String::as_str), Some(" time"));
}

#[test]
fn contents_that_nobody_holds_are_refused() {
    let was = flat(&[
        ("a", entry(Kind::File, "was")),
        ("b", entry(Kind::File, "b")),
    ]);
    let is = flat(&[("a", entry(Kind::File, "is"))]);
    let refused = plan(&was, &is, |_| false).expect_err("no copy");
    let paths: Vec<_> = refused.iter().map(|r| r.path.as_slice()).collect();
    assert_eq!(paths, [b"a", b"b"]);
}

#[test]
fn a_mount_that_comes_or_goes_is_refused() {
    let with = flat(&[("m", entry(Kind::Mount, ""))]);
    let without = flat(&[("m", entry(Kind::Directory, ""))]);
    for (was, is) in [(&with, &without), (&without, &with)] {
        let refused = plan(was, is, |_| true).expect_err("a mount");
        assert_eq!(refused[0].why, Why::Mount);
    }
    assert!(plan(&with, &with, |_| true).expect("equal").is_empty());
}
