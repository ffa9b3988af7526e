//! A tree made for it: everything that can be told of a file shows.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::XattrFlags;

use super::{Walk, observe};
use crate::ids::Ids;
use crate::{Depth, Record};

fn seen(folder: &Path, depth: Depth) -> Record {
    let mut record = Record::new();
    let root = File::open(folder).unwrap();
    let walk = Walk {
        depth,
        kind: "file",
        views: &["/view"],
        ids: Ids::SAME,
    };
    observe(&mut record, root.as_fd(), &walk);
    record
}

fn made() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("plain"), "text").unwrap();
    fs::hard_link(at("plain"), at("twin")).unwrap();
    symlink("nowhere", at("link")).unwrap();
    fs::create_dir(at("view")).unwrap();
    fs::write(at("view/hidden"), "").unwrap();
    fs::write(folder.path().join(OsStr::from_bytes(b"odd\xff\nname")), "").unwrap();
    let hole = File::create(at("hole")).unwrap();
    hole.write_all_at(b"x", 1 << 20).unwrap();
    fs::set_permissions(at("hole"), fs::Permissions::from_mode(0o4711)).unwrap();
    folder
}

#[test]
fn everything_shows() {
    let folder = made();
    let record = seen(folder.path(), Depth::Full);
    let get = |subject, field| {
        record
            .get(subject, field)
            .unwrap_or_else(|| panic!("{subject} has no {field}"))
    };
    assert_eq!(
        get("file /plain", "sha256"),
        "982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1"
    );
    assert_eq!(
        (
            get("file /plain", "nlink"),
            get("file /twin", "same file as")
        ),
        ("2", "file /plain")
    );
    assert_eq!(
        (get("file /link", "type"), get("file /link", "target")),
        ("link", "nowhere")
    );
    assert_eq!(
        (get("file /hole", "mode"), get("file /hole", "size")),
        ("4711", "1048577")
    );
    assert_eq!(get("file /hole", "data at"), "1048576-1048577");
    assert_eq!(get("file /odd\\xff\\x0aname", "type"), "file");
    assert_eq!(get("file /view", "type"), "directory");
    assert_eq!(
        record.get("file /view/hidden", "type"),
        None,
        "a view is not entered"
    );
    assert!(get("file /", "order of entries").len() == 64);
}

#[test]
fn each_change_shows_in_its_own_field() {
    type Change = fn(&Path);
    let changes: [(&str, &str, Change); 6] = [
        ("file /plain", "mode", |folder| {
            fs::set_permissions(folder.join("plain"), fs::Permissions::from_mode(0o600)).unwrap();
        }),
        ("file /plain", "sha256", |folder| {
            fs::write(folder.join("plain"), "Text").unwrap()
        }),
        ("file /plain", "xattr user.mark", |folder| {
            rustix::fs::setxattr(folder.join("plain"), "user.mark", b"\0", XattrFlags::CREATE)
                .unwrap();
        }),
        ("file /link", "target", |folder| {
            fs::remove_file(folder.join("link")).unwrap();
            symlink("elsewhere", folder.join("link")).unwrap();
        }),
        ("file /twin", "type", |folder| {
            fs::remove_file(folder.join("twin")).unwrap()
        }),
        ("file /hole", "data at", |folder| {
            File::options()
                .write(true)
                .open(folder.join("hole"))
                .unwrap()
                .write_all_at(b"x", 0)
                .unwrap();
        }),
    ];
    for (subject, field, change) in changes {
        let folder = made();
        let before = seen(folder.path(), Depth::Full);
        change(folder.path());
        let after = seen(folder.path(), Depth::Full);
        assert_ne!(
            before.get(subject, field),
            after.get(subject, field),
            "{subject} {field}"
        );
    }
}

#[test]
fn a_light_look_reads_small_files_alone() {
    let folder = made();
    let record = seen(folder.path(), Depth::Light);
    assert!(record.get("file /plain", "sha256").is_some());
    assert_eq!(record.get("file /hole", "sha256"), None);
    assert!(record.get("file /hole", "mtime").is_some());
}

#[test]
fn what_cannot_be_read_is_no_gap() {
    let folder = made();
    let deep = (0..1_100).try_fold(fs::File::open(folder.path()).unwrap(), |at, _| {
        rustix::fs::mkdirat(&at, "below", rustix::fs::Mode::RWXU).unwrap();
        rustix::fs::openat(
            &at,
            "below",
            rustix::fs::OFlags::DIRECTORY,
            rustix::fs::Mode::empty(),
        )
        .map(File::from)
    });
    drop(deep.unwrap());
    let record = seen(folder.path(), Depth::Full);
    let deepest = record
        .subjects()
        .iter()
        .filter(|(name, _)| name.starts_with("file /below"))
        .count();
    let errors = record
        .subjects()
        .values()
        .filter(|fields| {
            fields
                .get("entries")
                .is_some_and(|why| why.starts_with("error"))
        })
        .count();
    assert!(
        deepest == 1_100 || errors == 1,
        "{deepest} directories and {errors} errors"
    );
}
