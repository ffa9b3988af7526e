use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::thread;

use rustix::fs::{CWD, FileType, Mode, XattrFlags};
use rustix::pipe::pipe;
use tar::{Builder, EntryType, Header};

use super::*;
use crate::inside::files::{FileAnswer, frames};

fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

fn pack(path: &[u8], follow: bool) -> Result<Vec<u8>, String> {
    let (read, write) = pipe().unwrap();
    let reader = thread::spawn(move || {
        let mut archive = Vec::new();
        File::from(read).read_to_end(&mut archive).unwrap();
        archive
    });
    let answer = run(
        TreeCall::Out {
            path: path.to_vec(),
            follow,
        },
        vec![write],
    );
    let archive = reader.join().unwrap();
    match answer {
        Answer::File(FileAnswer::Sent(sent)) => {
            assert_eq!(sent, archive.len() as u64);
            Ok(archive)
        }
        Answer::Failed { message, .. } => Err(message),
        other => panic!("{other:?}"),
    }
}

fn unpack(archive: &[u8], path: &Path) -> Result<(u64, u64), String> {
    let (read, write) = pipe().unwrap();
    let archive = archive.to_vec();
    let writer = thread::spawn(move || {
        let mut pipe = File::from(write);
        for piece in archive.chunks(5000) {
            // The reader may have refused what came before.
            if pipe
                .write_all(&frames::head(piece.len().try_into().unwrap()))
                .is_err()
                || pipe.write_all(piece).is_err()
            {
                return;
            }
        }
        let _ = pipe.write_all(&frames::END);
    });
    let answer = run(TreeCall::In { path: bytes(path) }, vec![read]);
    writer.join().unwrap();
    match answer {
        Answer::File(FileAnswer::Unpacked { entries, bytes }) => Ok((entries, bytes)),
        Answer::Failed { message, .. } => Err(message),
        other => panic!("{other:?}"),
    }
}

/// Everything below a directory: name, mode, owner, time, size, link, contents.
fn listing(top: &Path) -> Vec<String> {
    let mut seen = Vec::new();
    for entry in walkdir(top) {
        let meta = fs::symlink_metadata(&entry).unwrap();
        let name = entry
            .strip_prefix(top)
            .unwrap()
            .as_os_str()
            .as_bytes()
            .escape_ascii();
        let size = if meta.is_dir() { 0 } else { meta.size() };
        let link = fs::read_link(&entry)
            .map(|link| bytes(&link))
            .unwrap_or_default();
        let data = if meta.is_file() {
            fs::read(&entry).unwrap()
        } else {
            Vec::new()
        };
        seen.push(format!(
            "{name} {:o} {}:{} {}.{} {size} {} {}",
            meta.mode(),
            meta.uid(),
            meta.gid(),
            meta.mtime(),
            meta.mtime_nsec(),
            link.escape_ascii(),
            blake3::hash(&data),
        ));
    }
    seen.sort();
    seen
}

fn walkdir(top: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(top).unwrap() {
        let path = entry.unwrap().path();
        if fs::symlink_metadata(&path).unwrap().is_dir() {
            found.extend(walkdir(&path));
        }
        found.push(path);
    }
    found
}

#[test]
fn a_tree_comes_back_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let from = dir.path().join("from");
    fs::create_dir_all(from.join("sub/empty")).unwrap();
    fs::write(from.join("data"), vec![7; 300_001]).unwrap();
    fs::set_permissions(from.join("data"), fs::Permissions::from_mode(0o4755)).unwrap();
    fs::write(from.join("none"), "").unwrap();
    fs::hard_link(from.join("data"), from.join("sub/same")).unwrap();
    let odd = std::ffi::OsString::from_vec([b"\xff\n".as_slice(), &[b'n'; 200]].concat());
    fs::write(from.join(&odd), "odd").unwrap();
    symlink("../data", from.join("sub/link")).unwrap();
    symlink(
        std::ffi::OsString::from_vec(vec![b'\xfe'; 300]),
        from.join("dangling"),
    )
    .unwrap();
    std::os::unix::fs::chown(from.join("none"), Some(1234), Some(4321)).unwrap();
    rustix::fs::mknodat(
        CWD,
        from.join("fifo"),
        FileType::Fifo,
        Mode::from_raw_mode(0o640),
        0,
    )
    .unwrap();
    let value = b"\n10 x=y\n\0\xff";
    rustix::fs::setxattr(from.join("none"), "user.test", value, XattrFlags::empty()).unwrap();

    let archive = pack(&[bytes(&from), b"/.".to_vec()].concat(), false).unwrap();
    let to = dir.path().join("to");
    fs::create_dir(&to).unwrap();
    let (entries, size) = unpack(&archive, &to).unwrap();
    assert_eq!((entries, size), (9, 300_004));
    assert_eq!(listing(&from), listing(&to));
    let inode = |name: &str| fs::metadata(to.join(name)).unwrap().ino();
    assert_eq!(inode("data"), inode("sub/same"));
    let mut read = [0u8; 64];
    let got = rustix::fs::getxattr(to.join("none"), "user.test", &mut read).unwrap();
    assert_eq!(&read[..got], value);
    // Again on top of itself: what is there is replaced.
    unpack(&archive, &to).unwrap();
    assert_eq!(listing(&from), listing(&to));
}

#[test]
fn names_begin_with_the_last_one_of_the_path() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("d")).unwrap();
    fs::write(dir.path().join("d/f"), "x").unwrap();
    symlink("d", dir.path().join("l")).unwrap();
    let names = |path: &str, follow| -> Vec<String> {
        let archive = pack(
            &[bytes(dir.path()), path.as_bytes().to_vec()].concat(),
            follow,
        )
        .unwrap();
        let mut archive = tar::Archive::new(archive.as_slice());
        let entries = archive.entries().unwrap();
        entries
            .map(|entry| entry.unwrap().path().unwrap().display().to_string())
            .collect()
    };
    assert_eq!(names("/d", false), ["d/", "d/f"]);
    assert_eq!(names("/d/", false), ["d/", "d/f"]);
    assert_eq!(names("/d/.", false), ["./", "f"]);
    assert_eq!(names("/d/f", false), ["f"]);
    assert_eq!(names("/l", false), ["l"]);
    assert_eq!(names("/l", true), ["l/", "l/f"]);
    assert!(pack(b"/dev/null", false).unwrap_err().contains("device"));
    assert!(pack(b"/nowhere/at/all", false).is_err());
}

fn header(kind: EntryType, name: &[u8], link: &[u8], size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(1);
    header.set_size(size);
    let gnu = header.as_gnu_mut().unwrap();
    gnu.name[..name.len()].copy_from_slice(name);
    gnu.linkname[..link.len()].copy_from_slice(link);
    header.set_cksum();
    header
}

fn archive(members: &[(EntryType, &str, &str, &str)]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (kind, name, link, data) in members {
        let header = header(*kind, name.as_bytes(), link.as_bytes(), data.len() as u64);
        builder.append(&header, data.as_bytes()).unwrap();
    }
    builder.into_inner().unwrap()
}

const FILE: EntryType = EntryType::Regular;
const LINK: EntryType = EntryType::Symlink;

#[test]
fn no_entry_leaves_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("target");
    let outside = dir.path().join("outside");
    fs::create_dir(&target).unwrap();
    fs::create_dir(&outside).unwrap();
    symlink(&outside, target.join("planted")).unwrap();
    symlink("..", target.join("up")).unwrap();
    let refused = [
        archive(&[(FILE, "../esc", "", "x")]),
        archive(&[(FILE, "ok/../../esc", "", "x")]),
        archive(&[(FILE, "planted/esc", "", "x")]),
        archive(&[(FILE, "up/outside/esc", "", "x")]),
        archive(&[(LINK, "l", "../outside", ""), (FILE, "l/esc", "", "x")]),
        archive(&[(LINK, "l", "/tmp", ""), (FILE, "l/esc", "", "x")]),
        archive(&[
            (LINK, "a", ".", ""),
            (LINK, "a/b", "..", ""),
            (FILE, "a/b/outside/esc", "", "x"),
        ]),
        archive(&[(EntryType::Link, "hard", "../outside/secret", "")]),
        archive(&[(EntryType::Link, "hard", "planted/secret", "")]),
    ];
    fs::write(outside.join("secret"), "s").unwrap();
    for archive in &refused {
        unpack(archive, &target).unwrap_err();
    }
    let names: Vec<_> = fs::read_dir(&outside)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(names, ["secret"]);
    assert!(!target.join("hard").exists());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    // An absolute name begins at the directory.
    unpack(&archive(&[(FILE, "/tmp/esc2", "", "x")]), &target).unwrap();
    assert_eq!(fs::read(target.join("tmp/esc2")).unwrap(), b"x");
    // A link at the end is replaced, not followed.
    unpack(&archive(&[(FILE, "planted", "", "new")]), &target).unwrap();
    assert!(
        fs::symlink_metadata(target.join("planted"))
            .unwrap()
            .is_file()
    );
}

#[test]
fn links_inside_the_directory_may_be_used() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("usr")).unwrap();
    symlink("usr", dir.path().join("lib")).unwrap();
    let members = archive(&[
        (EntryType::Directory, "lib/", "", ""),
        (FILE, "lib/x", "", "x"),
    ]);
    unpack(&members, dir.path()).unwrap();
    assert_eq!(fs::read(dir.path().join("usr/x")).unwrap(), b"x");
    assert!(
        fs::symlink_metadata(dir.path().join("lib"))
            .unwrap()
            .is_symlink()
    );
}

#[test]
fn devices_and_what_is_cut_short_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let error = unpack(&archive(&[(EntryType::Char, "null", "", "")]), dir.path()).unwrap_err();
    assert!(error.contains("device"), "{error}");
    let whole = archive(&[(FILE, "f", "", &"x".repeat(5000))]);
    unpack(&whole[..3000], dir.path()).unwrap_err();
    unpack(
        b"not a tar archive, but long enough".repeat(100).as_slice(),
        dir.path(),
    )
    .unwrap_err();
    assert_eq!(unpack(b"", dir.path()), Ok((0, 0)));
    fs::create_dir(dir.path().join("d")).unwrap();
    unpack(&archive(&[(FILE, "d", "", "x")]), dir.path()).unwrap_err();
    unpack(&whole, &dir.path().join("missing")).unwrap_err();
}

#[test]
fn sockets_are_left_out_and_named_pipes_do_not_block() {
    let dir = tempfile::tempdir().unwrap();
    let from = dir.path().join("from");
    fs::create_dir(&from).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(from.join("socket")).unwrap();
    rustix::fs::mknodat(
        CWD,
        from.join("p"),
        FileType::Fifo,
        Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    // Asked for by its name it is refused.
    let refusal = pack(&bytes(&from.join("p")), false).unwrap_err();
    assert!(
        refusal.ends_with("is a named pipe, not a file"),
        "{refusal}"
    );
    let archive = pack(&bytes(&from), false).unwrap();
    let record = b"24 INNKEEPER.left-out=1\n";
    assert!(archive.windows(record.len()).any(|part| part == record));
    unpack(&archive, dir.path()).unwrap();
    let to = dir.path().join("to");
    fs::create_dir(&to).unwrap();
    unpack(&archive, &to).unwrap();
    assert!(
        fs::symlink_metadata(to.join("from/p"))
            .unwrap()
            .file_type()
            .is_fifo()
    );
    assert!(!to.join("from/socket").exists());
}
