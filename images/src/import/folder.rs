//! A root file system folder as a canonical tar: names in order, times to the nanosecond, no names
//! of users, so that the same content always gives the same digest.
//!
//! Sockets and device nodes are left out, as is what is mounted below the folder.

mod writer;

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::attributes::Attributes;
use crate::error::Error;
use crate::limits::MAX_DEPTH;
use crate::paths::shown;
use writer::{Header, TypeFlag};

pub(super) fn open(path: &Path) -> Result<OwnedFd, Error> {
    match fs::open(path, directory_flags() - OFlags::NOFOLLOW, Mode::empty()) {
        Ok(root) => Ok(root),
        Err(Errno::NOENT) => Err(Error::NoPath {
            path: path.to_owned(),
        }),
        Err(errno) => Err(Error::errno("opened", path)(errno)),
    }
}

fn directory_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

/// Writes the whole folder and the end mark. Errors of the folder come as [`Error`] inside.
pub(super) fn write_tar(root: OwnedFd, path: &Path, out: &mut dyn Write) -> io::Result<()> {
    let stat = fs::fstat(&root)?;
    let mut walk = Walk {
        root: path.to_owned(),
        device: stat.st_dev,
        links: Default::default(),
        out,
        buffer: vec![0; 128 * 1024],
        nobody_is_root: !has_every_id(),
    };
    let attributes = walk.about(b"", walk.attributes(root.as_fd(), b".", &stat))?;
    Header::new(b"./", TypeFlag::Directory, &attributes).write(walk.out)?;
    walk.directory(root, &mut Vec::new(), 0)?;
    walk.out.write_all(&[0; 1024])
}

struct Walk<'a> {
    root: PathBuf,
    /// What lies on another device is another file system.
    device: u64,
    /// First name of each file with several, by inode.
    links: std::collections::HashMap<u64, Vec<u8>>,
    out: &'a mut dyn Write,
    buffer: Vec<u8>,
    /// An ordinary user imports it.
    nobody_is_root: bool,
}

/// What the kernel shows for an owner that has no id in this user namespace.
const NOBODY: u32 = 65_534;

/// Whether every owner has an id here: not in a user namespace made for an ordinary user.
fn has_every_id() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

impl Walk<'_> {
    /// Attributes as the image has them. Where some owners have no id, such as the machine's root
    /// in a namespace of an ordinary user's, they count as root.
    fn attributes(&self, dir: BorrowedFd<'_>, name: &[u8], stat: &Stat) -> io::Result<Attributes> {
        let mut attributes = Attributes::read(dir, name, stat)?;
        if self.nobody_is_root {
            for id in [&mut attributes.uid, &mut attributes.gid] {
                if *id == NOBODY {
                    *id = 0;
                }
            }
        }
        Ok(attributes)
    }

    fn directory(&mut self, dir: OwnedFd, path: &mut Vec<u8>, depth: usize) -> io::Result<()> {
        if depth > MAX_DEPTH {
            return Err(self.refuse(
                path,
                format!("it lies more than {MAX_DEPTH} directories deep"),
            ));
        }
        let mut names = Vec::new();
        for entry in self.about(path, Dir::read_from(&dir).map_err(io::Error::from))? {
            let entry = self.about(path, entry.map_err(io::Error::from))?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(name.to_vec());
            }
        }
        names.sort();
        for name in names {
            let before = path.len();
            if before > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(&name);
            self.entry(&dir, &name, path, depth)?;
            path.truncate(before);
        }
        Ok(())
    }

    fn entry(
        &mut self,
        dir: &OwnedFd,
        name: &[u8],
        path: &mut Vec<u8>,
        depth: usize,
    ) -> io::Result<()> {
        let no_follow = AtFlags::SYMLINK_NOFOLLOW;
        let stat = self.about(
            path,
            fs::statat(dir, name, no_follow).map_err(io::Error::from),
        )?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        if name.starts_with(b".wh.") {
            let why = "names that begin with `.wh.` stand for deletions in an image; rename it"
                .to_owned();
            return Err(self.refuse(path, why));
        }
        let attributes =
            |walk: &Self, stat: &Stat| walk.about(path, walk.attributes(dir.as_fd(), name, stat));
        match kind {
            FileType::Directory => {
                let attributes = attributes(self, &stat)?;
                let shown_path = [path.as_slice(), b"/"].concat();
                Header::new(&shown_path, TypeFlag::Directory, &attributes).write(self.out)?;
                if stat.st_dev == self.device {
                    let opened = fs::openat(dir, name, directory_flags(), Mode::empty());
                    let below = self.about(path, opened.map_err(io::Error::from))?;
                    self.directory(below, path, depth + 1)?;
                }
                Ok(())
            }
            FileType::RegularFile | FileType::Symlink | FileType::Fifo => {
                if stat.st_nlink > 1 {
                    if let Some(first) = self.links.get(&stat.st_ino) {
                        let attributes = attributes(self, &stat)?;
                        return Header::new(path, TypeFlag::HardLink, &attributes)
                            .link(first)
                            .write(self.out);
                    }
                    self.links.insert(stat.st_ino, path.clone());
                }
                match kind {
                    FileType::RegularFile => self.file(dir, name, path),
                    FileType::Symlink => {
                        let target = fs::readlinkat(dir, name, Vec::new()).map_err(io::Error::from);
                        let target = self.about(path, target)?;
                        let attributes = attributes(self, &stat)?;
                        Header::new(path, TypeFlag::Symlink, &attributes)
                            .link(target.as_bytes())
                            .write(self.out)
                    }
                    _ => {
                        Header::new(path, TypeFlag::Fifo, &attributes(self, &stat)?).write(self.out)
                    }
                }
            }
            // So that the store can count it; the node itself is never made.
            FileType::CharacterDevice | FileType::BlockDevice => {
                Header::new(path, TypeFlag::Device, &attributes(self, &stat)?).write(self.out)
            }
            _ => Ok(()),
        }
    }

    fn file(&mut self, dir: &OwnedFd, name: &[u8], path: &[u8]) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let opened = fs::openat(dir, name, flags, Mode::empty()).map_err(io::Error::from);
        let file = self.about(path, opened)?;
        let stat = self.about(path, fs::fstat(&file).map_err(io::Error::from))?;
        let attributes = self.about(path, self.attributes(dir.as_fd(), name, &stat))?;
        let size = stat.st_size as u64;
        Header::new(path, TypeFlag::File, &attributes)
            .size(size)
            .write(self.out)?;
        let mut file = File::from(file);
        let mut left = size;
        while left > 0 {
            let most = left.min(self.buffer.len() as u64) as usize;
            let read = file.read(&mut self.buffer[..most]);
            let got = self.about(path, read)?;
            if got == 0 {
                return Err(self.refuse(
                    path,
                    "it became shorter while it was read; stop what writes to it".to_owned(),
                ));
            }
            self.out.write_all(&self.buffer[..got])?;
            left -= got as u64;
        }
        writer::pad(self.out, size)
    }

    fn full(&self, path: &[u8]) -> PathBuf {
        self.root.join(shown(path))
    }

    fn about<T>(&self, path: &[u8], result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| io::Error::other(Error::io("read", &self.full(path))(error)))
    }

    fn refuse(&self, path: &[u8], why: String) -> io::Error {
        let path = self.full(path).display().to_string();
        io::Error::other(Error::Unsupported(format!(
            "{path} cannot be imported: {why}"
        )))
    }
}
