//! Every single change of an attribute changes the root, and exactly the changed path is named.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::Path;

use innkeeper_reset::capture::Trust;
use innkeeper_reset::files;
use rustix::fs::{FileType, IFlags, makedev};

use crate::scratch::{
    Flagged, Mounted, access_list, as_root, differing, file_capability, make_node,
    one_of_everything, options, remove_xattr, set_mtime, set_xattr, settled, tree,
};

/// Keeps the time of the root, which making and removing entries would change too.
fn in_root(root: &Path, change: impl FnOnce()) {
    change();
    set_mtime(root, 1_600_000_000, 987_654_321);
}

/// Writes without a trace in the times that are compared.
fn rewrite(path: &Path, contents: &str) {
    fs::write(path, contents).expect("write");
    set_mtime(path, 1_700_000_000 + 8, 123_456_789);
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("chmod");
}

type Change = (&'static str, &'static [&'static str], fn(&Path));

/// A change: the path that must be named, the attributes, and how it is made.
const CHANGES: &[Change] = &[
    ("file", &["mode"], |root| chmod(&root.join("file"), 0o600)),
    ("file", &["mode"], |root| chmod(&root.join("file"), 0o4644)),
    ("dir", &["mode"], |root| chmod(&root.join("dir"), 0o1755)),
    ("", &["mode"], |root| chmod(root, 0o700)),
    ("file", &["uid"], |root| {
        lchown(root.join("file"), Some(7), None).expect("chown")
    }),
    ("link", &["gid"], |root| {
        lchown(root.join("link"), None, Some(7)).expect("chown")
    }),
    ("char", &["uid"], |root| {
        lchown(root.join("char"), Some(65534), None).expect("chown")
    }),
    ("file", &["mtime"], |root| {
        set_mtime(&root.join("file"), 1_700_000_008, 123_456_788)
    }),
    ("dir/deep", &["mtime"], |root| {
        set_mtime(&root.join("dir/deep"), -1, 987_654_321)
    }),
    ("link", &["mtime"], |root| {
        set_mtime(&root.join("link"), 0, 0)
    }),
    ("fifo", &["mtime"], |root| {
        set_mtime(&root.join("fifo"), 0, 0)
    }),
    ("file", &["content"], |root| {
        rewrite(&root.join("file"), "c0ntents")
    }),
    ("file", &["size", "content"], |root| {
        rewrite(&root.join("file"), "content")
    }),
    ("file", &["xattr user.new"], |root| {
        set_xattr(&root.join("file"), "user.new", b"")
    }),
    ("dir", &["xattr trusted.new"], |root| {
        set_xattr(&root.join("dir"), "trusted.new", b"1")
    }),
    ("link", &["xattr trusted.new"], |root| {
        set_xattr(&root.join("link"), "trusted.new", b"1")
    }),
    ("fifo", &["xattr trusted.new"], |root| {
        set_xattr(&root.join("fifo"), "trusted.new", b"1")
    }),
    ("noted", &["xattr user.note"], |root| {
        set_xattr(&root.join("noted"), "user.note", b"two")
    }),
    ("noted", &["xattr trusted.note"], |root| {
        remove_xattr(&root.join("noted"), "trusted.note")
    }),
    ("listed", &["xattr system.posix_acl_access"], |root| {
        set_xattr(
            &root.join("listed"),
            "system.posix_acl_access",
            &access_list(1001),
        );
    }),
    ("dir", &["xattr system.posix_acl_default"], |root| {
        set_xattr(
            &root.join("dir"),
            "system.posix_acl_default",
            &access_list(1001),
        );
    }),
    ("capable", &["xattr security.capability"], |root| {
        remove_xattr(&root.join("capable"), "security.capability");
    }),
    ("file", &["xattr security.capability"], |root| {
        set_xattr(
            &root.join("file"),
            "security.capability",
            &file_capability(),
        );
    }),
    ("link", &["target"], |root| {
        in_root(root, || {
            fs::remove_file(root.join("link")).expect("remove");
            symlink("no/there", root.join("link")).expect("link");
            set_mtime(&root.join("link"), 1_700_000_008, 123_456_789);
        });
    }),
    ("char", &["device"], |root| {
        in_root(root, || {
            fs::remove_file(root.join("char")).expect("remove");
            make_node(&root.join("char"), FileType::CharacterDevice, makedev(1, 5));
            set_mtime(&root.join("char"), 1_700_000_000, 123_456_789);
        });
    }),
    ("fifo", &["type"], |root| {
        in_root(root, || {
            fs::remove_file(root.join("fifo")).expect("remove");
            make_node(&root.join("fifo"), FileType::Socket, 0);
            set_mtime(&root.join("fifo"), 1_700_000_000, 123_456_789);
        });
    }),
    ("empty", &["entry"], |root| {
        in_root(root, || {
            fs::remove_file(root.join("empty")).expect("remove")
        })
    }),
    (".hidden", &["entry"], |root| {
        in_root(root, || fs::write(root.join(".hidden"), "").expect("write"))
    }),
    ("dir2", &["entry"], |root| {
        in_root(root, || fs::create_dir(root.join("dir2")).expect("mkdir"))
    }),
];

fn every_change(make_root: impl Fn() -> (Box<dyn std::any::Any>, std::path::PathBuf)) {
    for (path, what, change) in CHANGES {
        let (_keep, root) = make_root();
        one_of_everything(&root, false);
        let before = tree(&root);
        assert_eq!(tree(&root).root(), before.root(), "the same tree twice");
        change(&root);
        let after = tree(&root);
        assert_ne!(before.root(), after.root(), "{path} {what:?}");
        let expected: Vec<_> = what
            .iter()
            .map(|what| ((*path).to_owned(), (*what).to_owned()))
            .collect();
        assert_eq!(differing(&before, &after), expected);
    }
}

#[test]
fn every_change_on_tmpfs() {
    if as_root("every_change_on_tmpfs") {
        every_change(|| {
            let mounted = Mounted::tmpfs();
            let path = mounted.path();
            (Box::new(mounted), path)
        });
    }
}

#[test]
fn every_change_on_the_disk() {
    if as_root("every_change_on_the_disk") {
        every_change(|| {
            let dir = tempfile::tempdir().expect("tempdir");
            let path = dir.path().to_owned();
            chmod(&path, 0o755);
            (Box::new(dir), path)
        });
    }
}

/// A stamp stands for what it saves the reading of: contents, target, extended attributes, flags.
#[test]
fn every_change_is_seen_by_a_trusting_walk() {
    if !as_root("every_change_is_seen_by_a_trusting_walk") {
        return;
    }
    for (path, what, change) in CHANGES {
        let mounted = Mounted::tmpfs();
        let root = mounted.path();
        one_of_everything(&root, false);
        let before = settled(&root);
        change(&root);
        let trust = Some(Trust::ReadOnlyLower);
        let walk =
            files::walk(mounted.0.as_fd(), &before, trust, &options(), 10).expect("readable");
        let named = walk
            .differences()
            .iter()
            .map(|d| (d.path.as_slice(), d.what.as_str()));
        let expected: Vec<_> = what.iter().map(|what| (path.as_bytes(), *what)).collect();
        assert_eq!(named.collect::<Vec<_>>(), expected);
        assert!(walk.files_trusted() > 0);
    }
}

#[test]
fn every_inode_flag() {
    if !as_root("every_inode_flag") {
        return;
    }
    let mounted = Mounted::tmpfs();
    let root = mounted.path();
    one_of_everything(&root, false);
    let before = tree(&root);
    for flag in [
        IFlags::IMMUTABLE,
        IFlags::APPEND,
        IFlags::NODUMP,
        IFlags::NOATIME,
    ] {
        for path in ["file", "dir"] {
            let flagged = Flagged::new(&root.join(path), flag);
            assert_eq!(
                differing(&before, &tree(&root)),
                [(path.to_owned(), "flags".to_owned())],
                "{flag:?}"
            );
            drop(flagged);
        }
    }
    assert_eq!(tree(&root).root(), before.root());
}

#[test]
fn a_hard_link_that_becomes_a_copy() {
    if !as_root("a_hard_link_that_becomes_a_copy") {
        return;
    }
    let mounted = Mounted::tmpfs();
    let root = mounted.path();
    one_of_everything(&root, false);
    let before = tree(&root);
    assert_eq!(
        before.hard_links(b"other"),
        [b"dir/one".to_vec(), b"other".to_vec()]
    );
    in_root(&root, || {
        fs::remove_file(root.join("other")).expect("remove");
        fs::write(root.join("other"), "linked").expect("write");
        set_mtime(&root.join("other"), 1_700_000_006, 123_456_789);
    });
    let named = [("dir/one", "hard links"), ("other", "hard links")];
    assert_eq!(
        differing(&before, &tree(&root)),
        named.map(|(p, w)| (p.to_owned(), w.to_owned()))
    );
}

#[test]
fn links_from_outside_of_the_tree_are_no_group() {
    if !as_root("links_from_outside_of_the_tree_are_no_group") {
        return;
    }
    let mounted = Mounted::tmpfs();
    let root = mounted.path().join("root");
    fs::create_dir(&root).expect("mkdir");
    fs::write(root.join("a"), "a").expect("write");
    let before = tree(&root);
    fs::hard_link(root.join("a"), mounted.path().join("outside")).expect("link");
    assert_eq!(tree(&root).root(), before.root());
}
