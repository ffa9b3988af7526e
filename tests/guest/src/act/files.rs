//! Making, changing, moving and removing files of every type.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, symlink};
use std::path::Path;

use super::deed::{After, Arguments, Deed};
use super::sys::{self, call};

pub(super) const DEEDS: &[(&str, Deed)] = &[
    ("write", write),
    ("overwrite", overwrite),
    ("append", append),
    ("truncate", truncate),
    ("sparse", sparse),
    ("punch", punch),
    ("allocate", allocate),
    ("read", read),
    ("mkdir", mkdir),
    ("rmdir", |a| done(fs::remove_dir(a.path(0)))),
    ("unlink", |a| done(fs::remove_file(a.path(0)))),
    ("remove-tree", |a| done(fs::remove_dir_all(a.path(0)))),
    ("rename", |a| done(fs::rename(a.path(0), a.path(1)))),
    ("replace", |a| done(fs::rename(a.path(0), a.path(1)))),
    ("exchange", |a| rename(a, libc::RENAME_EXCHANGE)),
    ("whiteout", |a| rename(a, libc::RENAME_WHITEOUT)),
    ("move-directory", |a| done(fs::rename(a.path(0), a.path(1)))),
    ("hardlink", |a| done(fs::hard_link(a.path(0), a.path(1)))),
    ("symlink", |a| done(symlink(a.path(0), a.path(1)))),
    ("retarget", retarget),
    ("fifo", |a| node(a, libc::S_IFIFO | a.mode(1))),
    ("socket-file", |a| node(a, libc::S_IFSOCK | 0o755)),
    ("copy", |a| done(fs::copy(a.path(0), a.path(1)))),
    ("clone", clone),
    ("tmpfile", tmpfile),
    ("deep", deep),
    ("many", many),
    ("same-size", same_size),
];

/// A call that leaves nothing alive.
pub(super) fn done<T>(result: io::Result<T>) -> io::Result<After> {
    result.map(|_| After::End)
}

/// Opens without waiting for the other end of a pipe.
pub(super) fn opened(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    options
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
}

/// Bytes that are the same for the same length.
pub(super) fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|place| (place % 251) as u8).collect()
}

fn write(a: &Arguments<'_>) -> io::Result<After> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    done(opened(a.path(0), &mut options)?.write_all(&pattern(a.length(1))))
}

fn overwrite(a: &Arguments<'_>) -> io::Result<After> {
    let file = opened(a.path(0), OpenOptions::new().write(true))?;
    done(file.write_all_at(&pattern(a.length(2)), a.length(1) as u64))
}

fn append(a: &Arguments<'_>) -> io::Result<After> {
    let mut file = opened(a.path(0), OpenOptions::new().append(true))?;
    done(file.write_all(&pattern(a.length(1))))
}

fn truncate(a: &Arguments<'_>) -> io::Result<After> {
    let file = opened(a.path(0), OpenOptions::new().write(true))?;
    done(file.set_len(a.length(1) as u64))
}

fn sparse(a: &Arguments<'_>) -> io::Result<After> {
    let mut options = OpenOptions::new();
    let file = opened(a.path(0), options.write(true).create(true))?;
    done(file.write_all_at(b"x", a.length(1) as u64))
}

fn punch(a: &Arguments<'_>) -> io::Result<After> {
    let file = sys::open(&a.name(0), libc::O_RDWR, 0)?;
    let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    done(call!(
        libc::SYS_fallocate,
        &file,
        how,
        a.number(1),
        a.number(2)
    ))
}

fn allocate(a: &Arguments<'_>) -> io::Result<After> {
    let file = sys::open(&a.name(0), libc::O_RDWR | libc::O_CREAT, 0o644)?;
    done(call!(libc::SYS_fallocate, &file, 0, 0, a.number(1)))
}

fn read(a: &Arguments<'_>) -> io::Result<After> {
    let mut some = [0; 4096];
    done(opened(a.path(0), OpenOptions::new().read(true))?.read(&mut some))
}

fn mkdir(a: &Arguments<'_>) -> io::Result<After> {
    done(fs::DirBuilder::new().mode(a.mode(1)).create(a.path(0)))
}

fn rename(a: &Arguments<'_>, flags: u32) -> io::Result<After> {
    let (from, to) = (a.name(0), a.name(1));
    let at = libc::AT_FDCWD;
    done(call!(
        libc::SYS_renameat2,
        at,
        from.as_c_str(),
        at,
        to.as_c_str(),
        flags
    ))
}

fn retarget(a: &Arguments<'_>) -> io::Result<After> {
    fs::remove_file(a.path(0))?;
    done(symlink(a.path(1), a.path(0)))
}

fn node(a: &Arguments<'_>, mode: u32) -> io::Result<After> {
    let path = a.name(0);
    done(call!(
        libc::SYS_mknodat,
        libc::AT_FDCWD,
        path.as_c_str(),
        mode,
        0
    ))
}

fn clone(a: &Arguments<'_>) -> io::Result<After> {
    const FICLONE: u32 = 0x4004_9409;
    let from = sys::open(&a.name(0), libc::O_RDONLY, 0)?;
    let to = sys::open(&a.name(1), libc::O_WRONLY | libc::O_CREAT, 0o644)?;
    done(call!(libc::SYS_ioctl, &to, FICLONE, &from))
}

fn tmpfile(a: &Arguments<'_>) -> io::Result<After> {
    let file = sys::open(&a.name(0), libc::O_TMPFILE | libc::O_RDWR, 0o600)?;
    let (empty, to) = (c"", a.name(1));
    let at = libc::AT_FDCWD;
    done(call!(
        libc::SYS_linkat,
        &file,
        empty,
        at,
        to.as_c_str(),
        libc::AT_EMPTY_PATH
    ))
}

/// A chain of directories with long names, deeper than any path is long.
fn deep(a: &Arguments<'_>) -> io::Result<After> {
    let name = std::ffi::CString::new([b'd'; 250]).expect("no zero");
    let flags = libc::O_RDONLY | libc::O_DIRECTORY;
    let mut at = sys::open(&a.name(0), flags, 0)?;
    for _ in 0..a.number(1) {
        match call!(libc::SYS_mkdirat, &at, name.as_c_str(), 0o755) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Ok(_) | Err(_) => {}
        }
        at = sys::descriptor(call!(libc::SYS_openat, &at, name.as_c_str(), flags))?;
    }
    Ok(After::End)
}

fn many(a: &Arguments<'_>) -> io::Result<After> {
    for number in 0..a.number(1) {
        File::create(a.path(0).join(format!("many-{number}")))?;
    }
    Ok(After::End)
}

/// Other contents of the same size, and the time put back.
fn same_size(a: &Arguments<'_>) -> io::Result<After> {
    let mut options = OpenOptions::new();
    let file = opened(a.path(0), options.read(true).write(true))?;
    let before = file.metadata()?;
    let mut some = [0; 4096];
    let length = file.read_at(&mut some, 0)?;
    some[..length].iter_mut().for_each(|byte| *byte = !*byte);
    file.write_all_at(&some[..length], 0)?;
    let modified = before.modified()?;
    debug_assert_eq!(file.metadata()?.size(), before.size());
    done(file.set_modified(modified))
}
