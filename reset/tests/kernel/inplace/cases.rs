//! Cases of their own.

use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use innkeeper_reset::files;
use innkeeper_reset::inplace::{Roots, Why};
use rustix::fs::{IFlags, Mode, mkdirat};

use super::listing::Listing;
use super::{Kept, Place, in_place};
use crate::scratch::{
    Flagged, as_root, file_capability, fix_times, one_of_everything, open_dir, set_mtime, set_xattr,
};

/// Two files with the same attributes and contents become two names of one inode. An overlay shows them
/// as two inodes still, and whoever writes to one writes to both.
#[test]
fn a_hard_link_that_an_overlay_hides_is_found_and_parted() {
    if !as_root("a_hard_link_that_an_overlay_hides_is_found_and_parted") {
        return;
    }
    let place = Place::overlay(|root| {
        for name in ["a", "b"] {
            fs::write(root.join(name), "same").expect("write");
        }
        fix_times(root);
    });
    let root = place.path();
    let kept = Kept::all(&root);
    let time = root.metadata().expect("stat").mtime_nsec();
    fs::remove_file(root.join("b")).expect("remove");
    fs::hard_link(root.join("a"), root.join("b")).expect("link");
    set_mtime(&root, root.metadata().expect("stat").mtime(), time);
    let dir = open_dir(&root);
    let scan = files::scan(dir.as_fd(), &kept.tree, None, &in_place(), 20);
    assert!(!scan.expect("scan").0.is_equal(), "taken for the baseline");
    kept.restore(&root).expect("undoable");
    fs::write(root.join("a"), "another").expect("write");
    assert_eq!(fs::read(root.join("b")).expect("read"), b"same");
}

#[test]
fn what_lies_outside_of_the_roots_and_changed_is_refused_by_name() {
    if !as_root("what_lies_outside_of_the_roots_and_changed_is_refused_by_name") {
        return;
    }
    let place = Place::tmpfs();
    let root = place.path();
    for dir in ["usr", "etc"] {
        fs::create_dir(root.join(dir)).expect("mkdir");
        fs::write(root.join(dir).join("file"), dir).expect("write");
    }
    let kept = Kept::of(&root, &Roots::new(["/etc"]));
    fs::write(root.join("etc/file"), "is").expect("write");
    // What is no content can be undone anywhere.
    fs::write(root.join("usr/new"), "new").expect("write");
    set_xattr(&root.join("usr/file"), "user.a", b"b");
    kept.restore(&root).expect("undoable");
    assert!(!root.join("usr/new").exists());
    fs::write(root.join("usr/file"), "is").expect("write");
    let refused = kept.restore(&root).expect_err("nobody has a copy");
    let named: Vec<_> = refused.iter().map(|r| (r.path.as_slice(), r.why)).collect();
    assert_eq!(named, [(&b"usr/file"[..], Why::NoCopy)]);
}

/// Deeper than any path may be long.
#[test]
fn trees_below_path_max_go_and_come() {
    const LEVELS: usize = 600;
    if !as_root("trees_below_path_max_go_and_come") {
        return;
    }
    let name = "a rather long name of one directory";
    let chain = |root: &Path| {
        let mut at: OwnedFd = open_dir(root);
        for _ in 0..LEVELS {
            mkdirat(&at, name, Mode::RWXU).expect("mkdir");
            let how = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
            at = rustix::fs::openat(&at, name, how, Mode::empty()).expect("open");
        }
    };
    let place = Place::tmpfs();
    let root = place.path();
    let empty = Kept::all(&root);
    chain(&root);
    let deep = Kept::all(&root);
    assert!(
        deep.tree
            .entries()
            .last()
            .is_some_and(|(path, _)| path.len() > 20_000)
    );
    empty.restore(&root).expect("undoable");
    assert_eq!(fs::read_dir(&root).expect("list").count(), 0);
    deep.restore(&root).expect("undoable");
    empty.restore(&root).expect("undoable");
}

#[test]
fn setuid_capabilities_and_locks_come_back() {
    if !as_root("setuid_capabilities_and_locks_come_back") {
        return;
    }
    let Some(place) = Place::ext4() else {
        println!(
            "not run: setuid_capabilities_and_locks_come_back: temporary files lie on another file system"
        );
        return;
    };
    let root = place.path();
    for name in ["setuid", "capable", "locked"] {
        fs::write(root.join(name), name).expect("write");
    }
    let setuid = fs::Permissions::from_mode(0o4755);
    fs::set_permissions(root.join("setuid"), setuid).expect("chmod");
    set_xattr(
        &root.join("capable"),
        "security.capability",
        &file_capability(),
    );
    let _locked = Flagged::new(&root.join("locked"), IFlags::IMMUTABLE);
    let (before, kept) = (Listing::of(&root), Kept::all(&root));
    for name in ["setuid", "capable", "locked"] {
        let path = root.join(name);
        let file = File::open(&path).expect("open");
        let flags = rustix::fs::ioctl_getflags(&file).expect("flags");
        rustix::fs::ioctl_setflags(&file, flags - IFlags::IMMUTABLE).expect("unlock");
        fs::write(&path, "changed").expect("write");
        std::os::unix::fs::lchown(&path, Some(7), Some(7)).expect("chown");
    }
    kept.restore(&root).expect("undoable");
    assert_eq!(Listing::of(&root), before);
    let refused = fs::write(root.join("locked"), "x").expect_err("immutable");
    assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
}

#[test]
fn holes_stay_holes() {
    if !as_root("holes_stay_holes") {
        return;
    }
    let place = Place::tmpfs();
    let root = place.path();
    let sparse = root.join("sparse");
    File::create(&sparse)
        .expect("create")
        .set_len(16 << 20)
        .expect("set_len");
    let kept = Kept::all(&root);
    fs::write(&sparse, "dense").expect("write");
    kept.restore(&root).expect("undoable");
    let stat = sparse.metadata().expect("stat");
    assert_eq!(stat.len(), 16 << 20);
    assert_eq!(stat.blocks(), 0);
}

/// A directory of the baseline is moved away and a link to a directory outside put in its place: what
/// lies outside is not touched.
#[test]
fn a_link_in_place_of_a_directory_leads_nowhere() {
    if !as_root("a_link_in_place_of_a_directory_leads_nowhere") {
        return;
    }
    let outside = Place::tmpfs();
    one_of_everything(&outside.path(), false);
    let place = Place::tmpfs();
    let root = place.path();
    one_of_everything(&root, false);
    let (before, kept) = (Listing::of(&root), Kept::all(&root));
    let untouched = Listing::of(&outside.path());
    fs::remove_dir_all(root.join("dir")).expect("remove");
    symlink(outside.path().join("dir"), root.join("dir")).expect("symlink");
    kept.restore(&root).expect("undoable");
    assert_eq!(Listing::of(&root), before);
    assert_eq!(Listing::of(&outside.path()), untouched);
}
