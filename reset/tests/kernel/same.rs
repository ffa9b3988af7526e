//! Comparing a tree with an earlier capture of it: it agrees with the digests in every case.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::Path;

use innkeeper_reset::capture::{Contents, Options, Same, Trust, same};
use innkeeper_reset::tree::Tree;
use rustix::fs::{FileType, IFlags};

use crate::scratch::{
    Flagged, Mounted, as_root, fix_times, make_node, open_dir, options, set_mtime, set_xattr,
    settled, tree,
};

/// Enough entries for several threads, some in one large directory, some deep, some alone.
const WIDE: usize = 60;

/// What is changed, in words, and how.
type Change<'a> = (&'static str, Box<dyn FnMut() + 'a>);

fn make(root: &Path) {
    for outer in 0..WIDE {
        let dir = root.join(format!("d{outer}"));
        fs::create_dir(&dir).expect("mkdir");
        for inner in 0..WIDE {
            fs::write(dir.join(format!("f{inner}")), format!("{outer} {inner}")).expect("write");
        }
        symlink("f1", dir.join("link")).expect("symlink");
        fs::hard_link(dir.join("f2"), root.join(format!("hard{outer}"))).expect("link");
    }
    let deep = root.join("x/".repeat(300));
    fs::create_dir_all(&deep).expect("mkdir");
    set_xattr(&root.join("d7/f7"), "trusted.kept", b"yes");
    make_node(&root.join("fifo"), FileType::Fifo, 0);
    fix_times(root);
}

fn compared(root: &Path, earlier: &Tree, options: &Options<'_>) -> Option<Same> {
    same(open_dir(root).as_fd(), earlier, options).expect("readable")
}

#[test]
fn an_unchanged_tree_is_the_same_and_every_change_is_seen() {
    if !as_root("an_unchanged_tree_is_the_same_and_every_change_is_seen") {
        return;
    }
    let mounted = Mounted::tmpfs();
    let root = mounted.path();
    make(&root);
    fs::remove_dir_all(root.join("x")).expect("remove");
    let f = |name: &str| root.join(name);
    let mut flagged = None;
    let changes: Vec<Change<'_>> = vec![
        (
            "contents of the same size and times",
            Box::new(|| {
                fs::write(f("d3/f3"), "9 9").expect("write");
                set_mtime(&f("d3/f3"), 1, 1);
            }),
        ),
        (
            "mode",
            Box::new(|| {
                fs::set_permissions(f("d59/f59"), fs::Permissions::from_mode(0o4711))
                    .expect("chmod");
            }),
        ),
        (
            "owner",
            Box::new(|| lchown(f("d4/link"), Some(7), None).expect("chown")),
        ),
        (
            "time of a directory",
            Box::new(|| set_mtime(&f("d30"), 2, 0)),
        ),
        (
            "attribute gone",
            Box::new(|| {
                rustix::fs::lremovexattr(f("d7/f7"), "trusted.kept").expect("remove");
            }),
        ),
        (
            "attribute of a directory",
            Box::new(|| set_xattr(&f("d8"), "trusted.new", b"1")),
        ),
        (
            "target",
            Box::new(|| {
                fs::remove_file(f("d9/link")).expect("remove");
                symlink("f2", f("d9/link")).expect("symlink");
                fix_times(&root);
            }),
        ),
        (
            "one more entry",
            Box::new(|| fs::write(f("d10/f1a"), "").expect("write")),
        ),
        (
            "one less entry",
            Box::new(|| fs::remove_file(f("d11/f9")).expect("remove")),
        ),
        (
            "a last entry gone",
            Box::new(|| fs::remove_file(f("hard9")).expect("remove")),
        ),
        (
            "another type",
            Box::new(|| {
                fs::remove_file(f("d12/f1")).expect("remove");
                fs::create_dir(f("d12/f1")).expect("mkdir");
            }),
        ),
        (
            "a directory replaced by a link to it",
            Box::new(|| {
                fs::rename(f("d13"), f("d13b")).expect("rename");
                symlink("d13b", f("d13")).expect("symlink");
            }),
        ),
        (
            "hard link broken, all else kept",
            Box::new(|| {
                let kept = fs::read(f("hard20")).expect("read");
                fs::remove_file(f("hard20")).expect("remove");
                fs::write(f("hard20"), kept).expect("write");
                fix_times(&root);
            }),
        ),
        (
            "hard link made, all else kept",
            Box::new(|| {
                fs::remove_file(f("d21/f5")).expect("remove");
                fs::hard_link(f("d21/f6"), f("d21/f5")).expect("link");
                fix_times(&root);
            }),
        ),
        (
            "links of two files exchanged",
            Box::new(|| {
                for (mine, other) in [("hard22", "d23/f2"), ("hard23", "d22/f2")] {
                    fs::remove_file(f(mine)).expect("remove");
                    fs::hard_link(f(other), f(mine)).expect("link");
                }
                fix_times(&root);
            }),
        ),
        (
            "inode flag",
            Box::new(|| {
                flagged = Some(Flagged::new(&f("d24/f1"), IFlags::NODUMP));
            }),
        ),
    ];
    for (what, mut change) in changes {
        fix_times(&root);
        let before = tree(&root);
        let found = compared(&root, &before, &options())
            .unwrap_or_else(|| panic!("before `{what}` the tree is the one that was captured"));
        assert!(found.files_read as usize > WIDE * WIDE - 20, "{found:?}");
        change();
        assert_eq!(compared(&root, &before, &options()), None, "{what}");
        assert_ne!(tree(&root).root(), before.root(), "{what}");
    }
}

#[test]
fn what_is_trusted_is_not_read() {
    if !as_root("what_is_trusted_is_not_read") {
        return;
    }
    let mounted = Mounted::tmpfs();
    let root = mounted.path();
    make(&root);
    fs::remove_dir_all(root.join("x")).expect("remove");
    let before = settled(&root);
    let trusting = Options {
        contents: Contents::Reuse(&before, Trust::ReadOnlyLower),
        ..options()
    };
    let found = compared(&root, &before, &trusting).expect("the same");
    assert_eq!((found.files_read, found.bytes_read), (0, 0));
    assert_eq!(found.files_trusted as usize, WIDE * WIDE + WIDE);
    fs::write(root.join("d3/f3"), "9 9").expect("write");
    set_mtime(&root.join("d3/f3"), 1, 1);
    assert_eq!(compared(&root, &before, &trusting), None);
}

#[test]
fn what_cannot_be_compared_is_left_to_a_capture() {
    if !as_root("what_cannot_be_compared_is_left_to_a_capture") {
        return;
    }
    let mounted = Mounted::tmpfs();
    let root = mounted.path();
    make(&root);
    let before = tree(&root);
    // 300 levels are more than are compared.
    assert_eq!(compared(&root, &before, &options()), None);
    let others = Options {
        exclude: vec![b"d1".to_vec()],
        ..options()
    };
    assert_eq!(compared(&root, &before, &others), None);
}
