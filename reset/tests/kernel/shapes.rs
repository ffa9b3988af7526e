//! Trees of odd shape, on different file systems.

use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use innkeeper_reset::capture::{CaptureError, Options, capture};
use innkeeper_reset::ids::IdMap;
use innkeeper_reset::tree::{Kind, Tree};
use rustix::fs::{Mode, OFlags, mkdirat, openat};

use crate::scratch::{
    Mounted, as_root, c_name, captured, differing, one_of_everything, open_dir, options, set_mtime,
    tree,
};

#[test]
fn file_system_and_order_do_not_matter() {
    if !as_root("file_system_and_order_do_not_matter") {
        return;
    }
    let (memory, disk) = (Mounted::tmpfs(), tempfile::tempdir().expect("tempdir"));
    fs::set_permissions(disk.path(), fs::Permissions::from_mode(0o755)).expect("chmod");
    one_of_everything(&memory.path(), false);
    one_of_everything(disk.path(), true);
    let (a, b) = (tree(&memory.path()), tree(disk.path()));
    assert_eq!(differing(&a, &b), []);
    assert_eq!(a.root(), b.root());
    assert_eq!(a.len(), 19);
}

#[test]
fn every_type_is_what_it_is() {
    if !as_root("every_type_is_what_it_is") {
        return;
    }
    let mounted = Mounted::tmpfs();
    one_of_everything(&mounted.path(), false);
    let tree = tree(&mounted.path());
    let kinds = [
        ("dir", Kind::Directory),
        ("file", Kind::File),
        ("link", Kind::Symlink),
        ("fifo", Kind::Fifo),
        ("socket", Kind::Socket),
        ("char", Kind::CharDevice),
        ("block", Kind::BlockDevice),
    ];
    for (path, kind) in kinds {
        assert_eq!(
            tree.get(path.as_bytes()).map(|entry| entry.kind),
            Some(kind),
            "{path}"
        );
    }
    let entry = |path: &[u8]| tree.get(path).expect("there");
    // The plain BLAKE3 of nothing, as `b3sum` prints it.
    let of_nothing = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
    assert_eq!(entry(b"empty").content.to_string(), of_nothing);
    assert_eq!(entry(b"link").target, b"no/where");
    assert_eq!(entry(b"block").rdev, 7 << 32 | 200);
    assert!(tree.get(b"odd\xff\n\\name").is_some());
    assert!(tree.get("n".repeat(255).as_bytes()).is_some());
    assert_eq!(entry(b"sparse").size, 1 << 20);
}

#[test]
fn deeper_than_any_path() {
    if !as_root("deeper_than_any_path") {
        return;
    }
    let mounted = Mounted::tmpfs();
    let name = "d".repeat(200);
    let levels = 300;
    let deepest = |make: bool| -> OwnedFd {
        let mut fd = open_dir(&mounted.path());
        for _ in 0..levels {
            let name = c_name(&name);
            if make {
                mkdirat(&fd, name.as_c_str(), Mode::from(0o755)).expect("mkdir");
            }
            fd = openat(
                &fd,
                name.as_c_str(),
                OFlags::RDONLY | OFlags::DIRECTORY,
                Mode::empty(),
            )
            .expect("open");
        }
        fd
    };
    let fd = deepest(true);
    let file = openat(
        &fd,
        c"leaf",
        OFlags::CREATE | OFlags::WRONLY,
        Mode::from(0o644),
    )
    .expect("create");
    drop(file);
    fs::write(mounted.path().join("zz"), "after the way back").expect("write");
    let before = tree(&mounted.path());
    assert_eq!(before.len(), levels + 3);
    let path = [vec![name.as_str(); levels].join("/"), "leaf".to_owned()].join("/");
    assert!(path.len() > 60_000);
    assert!(before.get(path.as_bytes()).is_some());

    let file = openat(deepest(false), c"leaf", OFlags::WRONLY, Mode::empty()).expect("open");
    rustix::fs::fchmod(&file, Mode::from(0o600)).expect("chmod");
    let after = tree(&mounted.path());
    assert_eq!(differing(&before, &after), [(path, "mode".to_owned())]);
    let stored = after.encode();
    assert_eq!(
        Tree::decode(&stored, 1 << 20).expect("decode").root(),
        after.root()
    );
}

#[test]
fn excluded_paths_are_whole_paths() {
    if !as_root("excluded_paths_are_whole_paths") {
        return;
    }
    let mounted = Mounted::tmpfs();
    let root = mounted.path();
    for dir in ["var/w", "var/www", "x/var/w"] {
        fs::create_dir_all(root.join(dir)).expect("mkdir");
        fs::write(root.join(dir).join("f"), "f").expect("write");
    }
    let without = |paths: &[&str]| {
        let exclude = paths.iter().map(|path| path.as_bytes().to_vec()).collect();
        captured(
            &root,
            &Options {
                exclude,
                ..options()
            },
        )
        .tree
    };
    let tree = without(&["var/w"]);
    assert!(tree.get(b"var/w").is_none());
    assert!(tree.get(b"var/www/f").is_some());
    assert!(tree.get(b"x/var/w/f").is_some());
    assert_ne!(
        tree.root(),
        without(&["var/w", "nothing"]).root(),
        "what is left out is part of the root"
    );
}

#[test]
fn a_mount_below_is_recorded_and_not_entered() {
    if !as_root("a_mount_below_is_recorded_and_not_entered") {
        return;
    }
    // The host's own root and its /proc: seen through a descriptor, nothing is mounted for it.
    let proc = open_dir(std::path::Path::new("/"));
    let exclude = fs::read_dir("/")
        .expect("list")
        .map(|e| e.expect("entry").file_name());
    let exclude = exclude
        .filter(|name| name != "proc")
        .map(|name| name.into_encoded_bytes())
        .collect();
    let tree = capture(
        proc.as_fd(),
        &Options {
            exclude,
            ..options()
        },
    )
    .expect("capture")
    .tree;
    assert_eq!(tree.get(b"proc").map(|entry| entry.kind), Some(Kind::Mount));
    assert_eq!(tree.len(), 2);
}

#[test]
fn ids_are_the_guests() {
    if !as_root("ids_are_the_guests") {
        return;
    }
    let (host, guest) = (Mounted::tmpfs(), Mounted::tmpfs());
    let base = 1_000_000;
    for (mounted, base) in [(&host, base), (&guest, 0)] {
        let root = mounted.path();
        fs::write(root.join("f"), "f").expect("write");
        std::os::unix::fs::lchown(root.join("f"), Some(base + 33), Some(base)).expect("chown");
        let list = crate::scratch::access_list(base + 7);
        crate::scratch::set_xattr(&root.join("f"), "system.posix_acl_access", &list);
        std::os::unix::fs::lchown(&root, Some(base), Some(base)).expect("chown");
        crate::scratch::fix_times(&root);
    }
    let shifted = captured(
        &host.path(),
        &Options {
            ids: IdMap::at(base),
            ..options()
        },
    )
    .tree;
    let plain = tree(&guest.path());
    assert_eq!(differing(&plain, &shifted), []);
    let entry = shifted.get(b"f").expect("f");
    assert_eq!((entry.uid, entry.gid), (33, 0));
}

#[test]
fn limits_hold() {
    if !as_root("limits_hold") {
        return;
    }
    let mounted = Mounted::tmpfs();
    let root = mounted.path();
    for i in 0..200 {
        File::create(root.join(i.to_string())).expect("create");
    }
    let fd = open_dir(&root);
    let tight = |options: Options<'_>| capture(fd.as_fd(), &options).expect_err("a limit");
    assert!(matches!(
        tight(Options {
            max_entries: 100,
            ..options()
        }),
        CaptureError::TooMany { limit: 100 }
    ));
    let late = Options {
        deadline: Some(Instant::now()),
        ..options()
    };
    assert!(matches!(tight(late), CaptureError::Deadline { .. }));
    let enough = Options {
        max_entries: 201,
        ..options()
    };
    assert_eq!(capture(fd.as_fd(), &enough).expect("fits").tree.len(), 201);
}

#[test]
fn access_times_are_left_alone() {
    if !as_root("access_times_are_left_alone") {
        return;
    }
    let mounted = Mounted::tmpfs();
    let root = mounted.path();
    fs::write(root.join("f"), "f").expect("write");
    set_mtime(&root.join("f"), 1_000, 0);
    set_mtime(&root, 1_000, 0);
    tree(&root);
    for path in [root.join("f"), root] {
        let accessed = path.metadata().expect("stat").accessed().expect("atime");
        let since = accessed
            .duration_since(std::time::UNIX_EPOCH)
            .expect("after the epoch");
        assert_eq!(since.as_secs(), 1_000);
    }
}
