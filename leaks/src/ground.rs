//! Files below a root, where every path is resolved by the kernel and cannot lead out.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat2};

/// Why something below a root could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A path could not be opened or read.
    #[error("{path}: {source}")]
    Io {
        /// The path below the root.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// It is there and no regular file.
    #[error("{0} is no regular file")]
    Kind(String),
    /// It is longer than anything of its kind.
    #[error("{0} is too long")]
    Long(String),
}

impl Error {
    /// Whether there is nothing at the path.
    pub fn is_absent(&self) -> bool {
        match self {
            Self::Io { source, .. } => matches!(
                source.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ),
            Self::Kind(_) | Self::Long(_) => false,
        }
    }
}

/// A directory that is the root of all paths: links, `..` and leading slashes stay below it, and
/// the kernel's magic links are never followed.
#[derive(Debug)]
pub struct Ground(OwnedFd);

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: Vec<u8>,
    pub(crate) directory: bool,
}

impl Ground {
    /// Opens the root.
    pub fn open(root: &Path) -> io::Result<Self> {
        Ok(Self(File::open(root)?.into()))
    }

    fn at(&self, path: &[u8], flags: OFlags, rules: ResolveFlags) -> Result<OwnedFd, Error> {
        let relative = path
            .iter()
            .position(|byte| *byte != b'/')
            .unwrap_or(path.len());
        let inner = if relative == path.len() {
            b".".as_slice()
        } else {
            &path[relative..]
        };
        let rules = rules | ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        openat2(
            self.0.as_fd(),
            inner,
            flags | OFlags::CLOEXEC,
            Mode::empty(),
            rules,
        )
        .map_err(|error| failed(path)(error.into()))
    }

    /// Opens a regular file. Nothing that lies there can make this wait.
    pub(crate) fn file(&self, path: &[u8]) -> Result<File, Error> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        // Looked at before it is opened: opening a device may do something.
        let looked = self.at(path, OFlags::PATH, ResolveFlags::empty())?;
        if !is(&looked, FileType::RegularFile, path)? {
            return Err(Error::Kind(text(path)));
        }
        let file = self.at(path, flags, ResolveFlags::empty())?;
        if is(&file, FileType::RegularFile, path)? {
            Ok(file.into())
        } else {
            Err(Error::Kind(text(path)))
        }
    }

    /// Reads a regular file of at most so many bytes.
    pub(crate) fn read(&self, path: &[u8], most: u64) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        let file = self.file(path)?;
        file.take(most + 1)
            .read_to_end(&mut bytes)
            .map_err(failed(path))?;
        if bytes.len() as u64 > most {
            return Err(Error::Long(text(path)));
        }
        Ok(bytes)
    }

    /// Whether a path is a directory; links are followed.
    pub(crate) fn is_directory(&self, path: &[u8]) -> bool {
        self.at(
            path,
            OFlags::PATH | OFlags::DIRECTORY,
            ResolveFlags::empty(),
        )
        .is_ok()
    }

    /// Lists a directory, sorted, at most so many entries; links in it count as files.
    pub(crate) fn list(&self, path: &[u8], most: usize) -> Result<Vec<Entry>, Error> {
        self.list_with(path, most, ResolveFlags::empty())
    }

    /// The same, where no part of the path may be a link.
    pub(crate) fn list_plain(&self, path: &[u8], most: usize) -> Result<Vec<Entry>, Error> {
        self.list_with(path, most, ResolveFlags::NO_SYMLINKS)
    }

    fn list_with(
        &self,
        path: &[u8],
        most: usize,
        rules: ResolveFlags,
    ) -> Result<Vec<Entry>, Error> {
        let directory = self.at(path, OFlags::RDONLY | OFlags::DIRECTORY, rules)?;
        let mut entries = Vec::new();
        for entry in Dir::read_from(&directory).map_err(|e| failed(path)(e.into()))? {
            let entry = entry.map_err(|e| failed(path)(e.into()))?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            if entries.len() >= most {
                return Err(Error::Long(text(path)));
            }
            let directory = match entry.file_type() {
                FileType::Directory => true,
                FileType::Unknown => self.is_plain_directory(&join(path, name)),
                FileType::RegularFile
                | FileType::Symlink
                | FileType::Fifo
                | FileType::Socket
                | FileType::CharacterDevice
                | FileType::BlockDevice => false,
            };
            let name = name.to_vec();
            entries.push(Entry { name, directory });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn is_plain_directory(&self, path: &[u8]) -> bool {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        self.at(path, flags, ResolveFlags::NO_SYMLINKS).is_ok()
    }
}

fn is(file: &OwnedFd, kind: FileType, path: &[u8]) -> Result<bool, Error> {
    let stat = fstat(file).map_err(|error| failed(path)(error.into()))?;
    Ok(FileType::from_raw_mode(stat.st_mode) == kind)
}

fn failed(path: &[u8]) -> impl FnOnce(io::Error) -> Error {
    let path = text(path);
    move |source| Error::Io { path, source }
}

/// A path or name as text, for people.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A path below another.
pub(crate) fn join(path: &[u8], name: &[u8]) -> Vec<u8> {
    let mut joined = path.to_vec();
    if !joined.is_empty() && !joined.ends_with(b"/") {
        joined.push(b'/');
    }
    joined.extend_from_slice(name);
    joined
}
