//! What a hostile guest does to a tree, at random.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use rustix::fs::{AtFlags, CWD, FileType, IFlags, Mode, Timespec, Timestamps, XattrFlags};

use crate::scratch::{access_list, file_capability};
use crate::sys::Mapping;

/// One deed; the first number says on which entry.
#[derive(Debug, Clone)]
pub(super) struct Deed(usize, usize, Kind);

#[derive(Debug, Clone, Copy)]
enum Kind {
    Overwrite,
    Append,
    Truncate,
    Sparse,
    Mapped,
    Mode,
    Owner,
    Time,
    Attribute,
    Capability,
    AccessList,
    DefaultList,
    StripAttributes,
    Flag,
    Remove,
    Replace,
    SwapForLink,
    Rename,
    HardLink,
    OddName,
    NewFile,
    NewDirectory,
    NewNode,
}

pub(super) fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    use Kind::{
        AccessList, Append, Attribute, Capability, DefaultList, Flag, HardLink, Mapped,
        NewDirectory, NewFile, NewNode, OddName, Overwrite, Owner, Remove, Rename, Replace, Sparse,
        StripAttributes, SwapForLink, Time, Truncate,
    };
    let kinds = vec![
        Overwrite,
        Append,
        Truncate,
        Sparse,
        Mapped,
        Kind::Mode,
        Owner,
        Time,
        Attribute,
        Capability,
        AccessList,
        DefaultList,
        StripAttributes,
        Flag,
        Remove,
        Replace,
        SwapForLink,
        Rename,
        HardLink,
        OddName,
        NewFile,
        NewDirectory,
        NewNode,
    ];
    let deed = (any::<usize>(), any::<usize>(), prop::sample::select(kinds));
    prop::collection::vec(
        deed.prop_map(|(at, with, kind)| Deed(at, with, kind)),
        1..20,
    )
}

/// Does them one after the other. A deed that the kernel refuses is a deed that came to nothing.
pub(super) fn commit(root: &Path, deeds: &[Deed]) {
    for deed in deeds {
        let mut paths = Vec::new();
        entries(root, &mut paths);
        let Deed(at, with, kind) = *deed;
        let (path, other) = (&paths[at % paths.len()], &paths[with % paths.len()]);
        let _ = act(root, path, other, with, kind);
    }
}

fn entries(at: &Path, found: &mut Vec<PathBuf>) {
    found.push(at.to_owned());
    let mut names: Vec<_> = fs::read_dir(at).into_iter().flatten().flatten().collect();
    names.sort_by_key(fs::DirEntry::file_name);
    for entry in names {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            entries(&entry.path(), found);
        } else {
            found.push(entry.path());
        }
    }
}

fn act(root: &Path, path: &Path, other: &Path, number: usize, kind: Kind) -> std::io::Result<()> {
    let stat = path.symlink_metadata()?;
    let is_root = path == root;
    let directory = if stat.is_dir() {
        path
    } else {
        path.parent().unwrap_or(root)
    };
    let new = directory.join(format!("new {}", number % 5));
    match kind {
        _ if !stat.is_file() && opens(kind) => return Ok(()),
        Kind::Flag if !stat.is_file() && !stat.is_dir() => return Ok(()),
        Kind::Overwrite => fs::write(path, format!("hostile {}", number % 3))?,
        Kind::Append => OpenOptions::new()
            .append(true)
            .open(path)?
            .write_all(b"+")?,
        Kind::Truncate => File::options().write(true).open(path)?.set_len(1)?,
        Kind::Sparse => {
            let mut file = File::options().write(true).open(path)?;
            file.seek(SeekFrom::Start(1 << 20))?;
            file.write_all(b"end")?;
        }
        Kind::Mapped => {
            let file = File::options().read(true).write(true).open(path)?;
            if file.metadata()?.len() > 0 {
                Mapping::of(&file).store(number as u8);
            }
        }
        Kind::Mode => {
            let mode = (number % 0o10000) as u32;
            fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        }
        // Ids beyond the usual range must not look like nobody's.
        Kind::Owner => lchown(path, Some((number % 200_000) as u32), Some(65534))?,
        Kind::Time => time(path, (number % 1_000_000) as i64)?,
        Kind::Attribute => xattr(path, "trusted.hostile", b"1")?,
        Kind::Capability => xattr(path, "security.capability", &file_capability())?,
        Kind::AccessList => xattr(path, "system.posix_acl_access", &access_list(1000))?,
        Kind::DefaultList => xattr(path, "system.posix_acl_default", &access_list(1000))?,
        Kind::StripAttributes => strip(path)?,
        Kind::Flag => {
            let flag = [IFlags::IMMUTABLE, IFlags::APPEND, IFlags::NODUMP][number % 3];
            let file = File::open(path)?;
            let now = rustix::fs::ioctl_getflags(&file)?;
            rustix::fs::ioctl_setflags(&file, now | flag)?;
        }
        Kind::Remove if is_root => return Ok(()),
        Kind::Remove => remove(path)?,
        Kind::Replace | Kind::SwapForLink if is_root => return Ok(()),
        Kind::Replace => {
            remove(path)?;
            replace(path, number)?;
        }
        Kind::SwapForLink => {
            let away = root.join(format!("moved {}", number % 5));
            fs::rename(path, &away)?;
            symlink(
                if number.is_multiple_of(2) {
                    away
                } else {
                    "/etc".into()
                },
                path,
            )?;
        }
        Kind::Rename => fs::rename(
            path,
            if number.is_multiple_of(2) {
                other
            } else {
                &new
            },
        )?,
        Kind::HardLink if number.is_multiple_of(2) => fs::hard_link(path, &new)?,
        Kind::HardLink => {
            // One name of an inode of the baseline becomes one of another inode.
            if other.symlink_metadata()?.is_file() && other != path {
                fs::remove_file(other)?;
                fs::hard_link(path, other)?;
            }
        }
        Kind::OddName => {
            let name = [&b"\xff\xfe\n"[..], b"\\x", b" ", &[b'n'; 255]][number % 4];
            File::create_new(directory.join(OsStr::from_bytes(name)))?;
        }
        // Opening a pipe that stands there already would wait for its reader.
        Kind::NewFile => File::create_new(&new)?.write_all(b"new")?,
        Kind::NewDirectory => {
            fs::create_dir_all(new.join("a/b"))?;
            File::create_new(new.join("a/b/c"))?;
        }
        Kind::NewNode => replace(&new, number)?,
    }
    Ok(())
}

/// Deeds for which a file is opened: a pipe would block.
fn opens(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Overwrite
            | Kind::Append
            | Kind::Truncate
            | Kind::Sparse
            | Kind::Mapped
            | Kind::Capability
    )
}

fn xattr(path: &Path, name: &str, value: &[u8]) -> std::io::Result<()> {
    Ok(rustix::fs::lsetxattr(
        path,
        name,
        value,
        XattrFlags::empty(),
    )?)
}

fn time(path: &Path, seconds: i64) -> std::io::Result<()> {
    let time = Timespec {
        tv_sec: seconds,
        tv_nsec: 17,
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    Ok(rustix::fs::utimensat(
        CWD,
        path,
        &times,
        AtFlags::SYMLINK_NOFOLLOW,
    )?)
}

fn strip(path: &Path) -> std::io::Result<()> {
    let mut names = vec![0; 4096];
    let len = rustix::fs::llistxattr(path, &mut names[..])?;
    for name in names[..len].split(|b| *b == 0).filter(|n| !n.is_empty()) {
        rustix::fs::lremovexattr(path, OsStr::from_bytes(name))?;
    }
    Ok(())
}

fn remove(path: &Path) -> std::io::Result<()> {
    if path.symlink_metadata()?.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    }
}

fn replace(path: &Path, number: usize) -> std::io::Result<()> {
    let node = |kind, device| rustix::fs::mknodat(CWD, path, kind, Mode::from(0o666), device);
    match number % 6 {
        0 => fs::create_dir(path)?,
        1 => fs::write(path, "replaced")?,
        2 => symlink("/proc/self/exe", path)?,
        3 => node(FileType::Fifo, 0)?,
        4 => node(FileType::Socket, 0)?,
        _ => node(FileType::CharacterDevice, rustix::fs::makedev(1, 5))?,
    }
    Ok(())
}
