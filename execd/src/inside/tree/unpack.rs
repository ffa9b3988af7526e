//! Unpacking a tar archive into a directory, and nowhere else.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, Uid};
use rustix::io::Errno;
use tar::EntryType;

use super::attributes;
use super::stream::{Entries, Member};
use crate::inside::files::entry::Kind;
use crate::inside::files::frames::Frames;
use crate::inside::files::{FileAnswer, FileError, resolve};

/// Unpacks the frames of a pipe into the directory `path`.
pub(super) fn run(path: &[u8], pipe: OwnedFd) -> Result<FileAnswer, FileError> {
    let top = resolve::settled_dir(path)?;
    let whole = resolve::names(path).next().is_none();
    let mut unpacking = Unpacking::new(top, whole);
    let mut entries = Entries::new(Frames::new(pipe));
    while let Some(member) = entries.next().map_err(FileError::Archive)? {
        unpacking.member(&member, &mut entries)?;
    }
    entries.into_inner().finish().map_err(FileError::Archive)?;
    unpacking.finish()
}

/// An unpacking under way.
struct Unpacking {
    top: OwnedFd,
    /// The directory is the root, and links of the image count as they do in a write.
    whole: bool,
    /// The directory of the last entry.
    parent: Option<(Vec<u8>, OwnedFd)>,
    /// Times of directories, set when nothing more is put into them.
    times: Vec<(Vec<u8>, (i64, u32))>,
    entries: u64,
    bytes: u64,
}

impl Unpacking {
    fn new(top: OwnedFd, whole: bool) -> Self {
        Self {
            top,
            whole,
            parent: None,
            times: Vec::new(),
            entries: 0,
            bytes: 0,
        }
    }

    fn member(&mut self, member: &Member, contents: &mut impl Read) -> Result<(), FileError> {
        let path = inner_path(&member.path)?;
        let Some(slash) = split(&path) else {
            // The directory itself keeps its attributes.
            return Ok(());
        };
        let (parent, name) = slash;
        let dir = self.parent(parent)?;
        let kind = member.kind;
        let file = kind.is_file() || kind.is_contiguous();
        if kind.is_dir() || (file && member.path.ends_with(b"/")) {
            if self.directory(dir.as_fd(), name, member)? {
                self.times.push((path.clone(), member.mtime));
            }
        } else if file {
            clear(dir.as_fd(), name, member)?;
            self.bytes += write(dir.as_fd(), name, member, contents)?;
        } else if kind.is_symlink() {
            clear(dir.as_fd(), name, member)?;
            rustix::fs::symlinkat(member.link.as_slice(), &dir, name)
                .map_err(FileError::io("make the link", &member.path))?;
            own_name(dir.as_fd(), name, member)?;
        } else if kind.is_hard_link() {
            self.hard_link(dir.as_fd(), name, member)?;
        } else if kind.is_fifo() {
            clear(dir.as_fd(), name, member)?;
            rustix::fs::mknodat(
                &dir,
                name,
                FileType::Fifo,
                Mode::from_raw_mode(member.mode),
                0,
            )
            .map_err(FileError::io("make the named pipe", &member.path))?;
            own_name(dir.as_fd(), name, member)?;
        } else {
            return Err(FileError::refused(
                &member.path,
                libc::EPERM,
                unsupported(kind),
            ));
        }
        self.entries += 1;
        Ok(())
    }

    /// Opens the directory of an entry, made where it is missing. The last one is kept,
    /// since archives come directory by directory.
    fn parent(&mut self, path: &[u8]) -> Result<OwnedFd, FileError> {
        let dir = match self.parent.take() {
            Some((kept, dir)) if kept == path => dir,
            _ => match self.open(path) {
                Err(error) if error.is(Errno::NOENT) => self.make(path)?,
                other => other?,
            },
        };
        let again = dir.try_clone().map_err(FileError::io("open", path))?;
        self.parent = Some((path.to_vec(), dir));
        Ok(again)
    }

    /// Opens a directory beneath the top one. A link on the way may lead elsewhere
    /// beneath it, never out of it.
    fn open(&self, path: &[u8]) -> Result<OwnedFd, FileError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        if path.is_empty() {
            return self.top.try_clone().map_err(FileError::io("open", path));
        }
        let strict = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        match resolve::open_long(self.top.as_fd(), path, flags, strict) {
            Err(Errno::LOOP) if self.whole => resolve::settled_dir(path),
            Err(Errno::LOOP) => {
                resolve::open_long(self.top.as_fd(), path, flags, ResolveFlags::BENEATH).map_err(
                    |errno| match errno {
                        Errno::XDEV => FileError::refused(
                            path,
                            libc::EXDEV,
                            "leads through a link out of the directory that is unpacked into",
                        ),
                        errno => FileError::io("open", path)(errno),
                    },
                )
            }
            other => other.map_err(FileError::io("open", path)),
        }
    }

    fn make(&self, path: &[u8]) -> Result<OwnedFd, FileError> {
        let mut done = 0;
        let mut here = self.open(b"")?;
        for name in path.split(|byte| *byte == b'/') {
            let until = if done == 0 {
                name.len()
            } else {
                done + 1 + name.len()
            };
            here = match self.open(&path[..until]) {
                Err(error) if error.is(Errno::NOENT) => {
                    match rustix::fs::mkdirat(&here, name, Mode::from_raw_mode(0o755)) {
                        Ok(()) | Err(Errno::EXIST) => self.open(&path[..until])?,
                        Err(errno) => {
                            return Err(FileError::io("make the directory", path)(errno));
                        }
                    }
                }
                other => other?,
            };
            done = until;
        }
        Ok(here)
    }

    /// Makes a directory or gives one that is there its entry's attributes. False where a
    /// link stands for it: what that leads to is not ours to change.
    fn directory(
        &self,
        dir: BorrowedFd<'_>,
        name: &[u8],
        member: &Member,
    ) -> Result<bool, FileError> {
        let what = FileError::io::<Errno>;
        let found = resolve::lookup(dir, name).map_err(what("examine", &member.path))?;
        match found.as_ref().map(Kind::of) {
            Some(Kind::Directory) => {}
            Some(Kind::Symlink) if self.open(&inner_path(&member.path)?).is_ok() => {
                return Ok(false);
            }
            None => {}
            Some(Kind::File | Kind::Symlink | Kind::Fifo | Kind::Socket | Kind::Device) => {
                clear(dir, name, member)?;
            }
        }
        match rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(0o700)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(what("make the directory", &member.path)(errno)),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let made = resolve::open_at(dir, name, flags).map_err(what("open", &member.path))?;
        own(made.as_fd(), member)?;
        Ok(true)
    }

    fn hard_link(
        &self,
        dir: BorrowedFd<'_>,
        name: &[u8],
        member: &Member,
    ) -> Result<(), FileError> {
        let first = inner_path(&member.link)?;
        let Some((parent, first)) = split(&first) else {
            return Err(FileError::refused(
                &member.path,
                libc::EINVAL,
                "is a link to a directory",
            ));
        };
        let from = self.open(parent)?;
        let same = |a: &rustix::fs::Stat, b: &rustix::fs::Stat| {
            (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino)
        };
        let examine = FileError::io::<Errno>;
        let target =
            resolve::lookup(from.as_fd(), first).map_err(examine("examine", &member.link))?;
        let found = resolve::lookup(dir, name).map_err(examine("examine", &member.path))?;
        if target
            .zip(found)
            .is_some_and(|(target, found)| same(&target, &found))
        {
            return Ok(());
        }
        clear(dir, name, member)?;
        rustix::fs::linkat(&from, first, dir, name, AtFlags::empty())
            .map_err(FileError::io("make the hard link", &member.path))
    }

    fn finish(self) -> Result<FileAnswer, FileError> {
        for (path, mtime) in self.times.iter().rev() {
            // A later entry may have replaced it.
            if let Ok(dir) = self.open(path) {
                let times = times(*mtime);
                let set = rustix::fs::utimensat(&dir, ".", &times, AtFlags::empty());
                set.map_err(FileError::io("set the time of", path))?;
            }
        }
        Ok(FileAnswer::Unpacked {
            entries: self.entries,
            bytes: self.bytes,
        })
    }
}

fn unsupported(kind: EntryType) -> &'static str {
    if kind.is_character_special() || kind.is_block_special() {
        "is a device, which is not made in a sandbox; leave it out of the archive"
    } else if kind.is_gnu_sparse() {
        "is packed as a sparse file; pack it without --sparse"
    } else {
        "is of a kind that is not known"
    }
}

/// A member's path inside the directory: without slashes at its beginning, empty parts and
/// dots. One with `..` is refused.
fn inner_path(path: &[u8]) -> Result<Vec<u8>, FileError> {
    let names: Vec<_> = resolve::names(path).collect();
    if names.iter().any(|name| name == b"..") {
        let why = "has \"..\" in its name, which may lead out of the directory";
        return Err(FileError::refused(path, libc::EXDEV, why));
    }
    if path.contains(&0) {
        return Err(FileError::refused(
            path,
            libc::EINVAL,
            "has a zero byte in its name",
        ));
    }
    Ok(names.join(&b'/'))
}

fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    if path.is_empty() {
        return None;
    }
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => Some((&path[..slash], &path[slash + 1..])),
        None => Some((b"", path)),
    }
}

/// Takes away what stands in an entry's place.
fn clear(dir: BorrowedFd<'_>, name: &[u8], member: &Member) -> Result<(), FileError> {
    match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(FileError::io("replace", &member.path)(errno)),
    }
}

fn write(
    dir: BorrowedFd<'_>,
    name: &[u8],
    member: &Member,
    contents: &mut impl Read,
) -> Result<u64, FileError> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(dir, name, flags, Mode::from_raw_mode(0o600))
        .map_err(FileError::io("create", &member.path))?;
    let mut file = File::from(file);
    let mut buffer = vec![0; 128 * 1024];
    let mut left = member.size;
    while left > 0 {
        let got = contents.read(&mut buffer).map_err(FileError::Archive)?;
        if got == 0 {
            return Err(FileError::Archive(std::io::ErrorKind::UnexpectedEof.into()));
        }
        file.write_all(&buffer[..got])
            .map_err(FileError::io("write", &member.path))?;
        left = left.saturating_sub(got as u64);
    }
    own(file.as_fd(), member)?;
    rustix::fs::futimens(&file, &times(member.mtime))
        .map_err(FileError::io("set the time of", &member.path))?;
    Ok(member.size)
}

/// Owner, then mode (a change of owner takes setuid away), then attributes (capabilities of
/// a file go with a change of owner too).
fn own(fd: BorrowedFd<'_>, member: &Member) -> Result<(), FileError> {
    let (uid, gid) = owner(member)?;
    rustix::fs::fchown(fd, Some(uid), Some(gid)).map_err(owner_error(member))?;
    rustix::fs::fchmod(fd, Mode::from_raw_mode(member.mode))
        .map_err(FileError::io("change the mode of", &member.path))?;
    for (name, value) in &member.xattrs {
        attributes::write(fd, name, value)
            .map_err(FileError::io("set an extended attribute of", &member.path))?;
    }
    Ok(())
}

/// As `own`, for what is not opened.
fn own_name(dir: BorrowedFd<'_>, name: &[u8], member: &Member) -> Result<(), FileError> {
    let (uid, gid) = owner(member)?;
    rustix::fs::chownat(dir, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
        .map_err(owner_error(member))?;
    rustix::fs::utimensat(dir, name, &times(member.mtime), AtFlags::SYMLINK_NOFOLLOW)
        .map_err(FileError::io("set the time of", &member.path))
}

fn owner(member: &Member) -> Result<(Uid, Gid), FileError> {
    let id = |id: u64| u32::try_from(id).ok().filter(|id| *id != u32::MAX);
    match (id(member.uid), id(member.gid)) {
        (Some(uid), Some(gid)) => Ok((Uid::from_raw(uid), Gid::from_raw(gid))),
        _ => Err(owner_error(member)(Errno::INVAL)),
    }
}

fn owner_error(member: &Member) -> impl FnOnce(Errno) -> FileError {
    let (path, uid, gid) = (member.path.clone(), member.uid, member.gid);
    move |errno| match errno {
        Errno::INVAL => {
            let why = format!("belongs to {uid}:{gid}, and a sandbox has the ids 0 to 65535");
            FileError::refused(&path, libc::EINVAL, why)
        }
        errno => FileError::io("change the owner of", &path)(errno),
    }
}

fn times((seconds, nanoseconds): (i64, u32)) -> Timestamps {
    let time = Timespec {
        tv_sec: seconds,
        tv_nsec: nanoseconds.into(),
    };
    Timestamps {
        last_access: time,
        last_modification: time,
    }
}
