//! What is said about one path, and its form in a listing's pipe.

use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, FileType, OFlags, Stat};
use serde::{Deserialize, Serialize};

use super::{FileError, resolve};

/// One path, described.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The path asked for, or the name in a listing.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: Kind,
    /// Permission bits with setuid, setgid and sticky.
    pub mode: u32,
    /// Owner as the guest sees it.
    pub uid: u32,
    /// Group as the guest sees it.
    pub gid: u32,
    /// Bytes.
    pub size: u64,
    /// Nanoseconds since 1970.
    pub mtime_ns: i64,
    /// Text of a link; else empty.
    pub link_target: Vec<u8>,
}

/// Kinds of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// Regular file.
    File = 1,
    /// Directory.
    Directory = 2,
    /// Symbolic link.
    Symlink = 3,
    /// Named pipe.
    Fifo = 4,
    /// Socket.
    Socket = 5,
    /// Character or block device.
    Device = 6,
}

impl Kind {
    /// From a mode word.
    pub(in crate::inside) fn of(stat: &Stat) -> Self {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Symlink,
            FileType::Fifo => Self::Fifo,
            FileType::Socket => Self::Socket,
            FileType::CharacterDevice | FileType::BlockDevice | FileType::Unknown => Self::Device,
        }
    }

    /// For people, with its article.
    pub(in crate::inside) fn name(self) -> &'static str {
        match self {
            Self::File => "a regular file",
            Self::Directory => "a directory",
            Self::Symlink => "a symbolic link",
            Self::Fifo => "a named pipe",
            Self::Socket => "a socket",
            Self::Device => "a device",
        }
    }

    fn from_byte(byte: u8) -> Option<Self> {
        [
            Self::File,
            Self::Directory,
            Self::Symlink,
            Self::Fifo,
            Self::Socket,
            Self::Device,
        ]
        .into_iter()
        .find(|kind| *kind as u8 == byte)
    }
}

/// Describes a path.
pub(super) fn of_path(path: &[u8], follow: bool) -> Result<Entry, FileError> {
    let flags = if follow {
        OFlags::PATH
    } else {
        OFlags::PATH | OFlags::NOFOLLOW
    };
    let fd = resolve::open(path, flags)?;
    let stat = rustix::fs::fstat(&fd).map_err(FileError::io("examine", path))?;
    let mut entry = from_stat(path, &stat);
    if entry.kind == Kind::Symlink {
        entry.link_target = rustix::fs::readlinkat(&fd, "", Vec::new())
            .map_err(FileError::io("read the link", path))?
            .into_bytes();
    }
    Ok(entry)
}

/// Describes a name in a directory, a link as the link.
pub(super) fn of_name(dir: BorrowedFd<'_>, name: &[u8]) -> Result<Entry, FileError> {
    let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
        .map_err(FileError::io("examine", name))?;
    let mut entry = from_stat(name, &stat);
    if entry.kind == Kind::Symlink {
        entry.link_target = rustix::fs::readlinkat(dir, name, Vec::new())
            .map_err(FileError::io("read the link", name))?
            .into_bytes();
    }
    Ok(entry)
}

fn from_stat(path: &[u8], stat: &Stat) -> Entry {
    Entry {
        path: path.to_vec(),
        kind: Kind::of(stat),
        mode: stat.st_mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mtime_ns: mtime_ns(stat),
        link_target: Vec::new(),
    }
}

/// Time of the last change of contents in nanoseconds since 1970.
#[allow(clippy::unnecessary_cast, clippy::useless_conversion)]
pub(in crate::inside) fn mtime_ns(stat: &Stat) -> i64 {
    (stat.st_mtime as i64)
        .saturating_mul(1_000_000_000)
        .saturating_add(stat.st_mtime_nsec as i64)
}

impl Entry {
    /// Writes the entry in its pipe form.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn encode(&self, to: &mut impl Write) -> io::Result<()> {
        to.write_all(&[self.kind as u8])?;
        for number in [self.mode, self.uid, self.gid] {
            to.write_all(&number.to_le_bytes())?;
        }
        to.write_all(&self.size.to_le_bytes())?;
        to.write_all(&self.mtime_ns.to_le_bytes())?;
        for text in [&self.path, &self.link_target] {
            let length = u32::try_from(text.len()).map_err(io::Error::other)?;
            to.write_all(&length.to_le_bytes())?;
            to.write_all(text)?;
        }
        Ok(())
    }

    /// Reads an entry in its pipe form; none at the end.
    ///
    /// # Errors
    /// `InvalidData` for what no entry can be, `UnexpectedEof` in the middle of one.
    pub fn decode(from: &mut impl Read) -> io::Result<Option<Self>> {
        let mut kind = [0; 1];
        if from.read(&mut kind)? == 0 {
            return Ok(None);
        }
        let kind = Kind::from_byte(kind[0]).ok_or(io::ErrorKind::InvalidData)?;
        let (mode, uid, gid) = (word(from)?, word(from)?, word(from)?);
        let mut eight = [0; 8];
        from.read_exact(&mut eight)?;
        let size = u64::from_le_bytes(eight);
        from.read_exact(&mut eight)?;
        let mtime_ns = i64::from_le_bytes(eight);
        let (path, link_target) = (text(from)?, text(from)?);
        Ok(Some(Self {
            path,
            kind,
            mode,
            uid,
            gid,
            size,
            mtime_ns,
            link_target,
        }))
    }
}

fn word(from: &mut impl Read) -> io::Result<u32> {
    let mut four = [0; 4];
    from.read_exact(&mut four)?;
    Ok(u32::from_le_bytes(four))
}

fn text(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let length = word(from)? as usize;
    // Names end at 255 bytes and links at 4,096.
    if length > 8192 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut text = vec![0; length];
    from.read_exact(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_survives_its_pipe_form() {
        let entry = Entry {
            path: b"na\xffme\n".to_vec(),
            kind: Kind::Symlink,
            mode: 0o4755,
            uid: 1,
            gid: 65_535,
            size: u64::MAX,
            mtime_ns: -1,
            link_target: b"../x".to_vec(),
        };
        let mut bytes = Vec::new();
        entry.encode(&mut bytes).unwrap();
        entry.encode(&mut bytes).unwrap();
        let mut from = bytes.as_slice();
        assert_eq!(Entry::decode(&mut from).unwrap(), Some(entry.clone()));
        assert_eq!(Entry::decode(&mut from).unwrap(), Some(entry));
        assert_eq!(Entry::decode(&mut from).unwrap(), None);
        assert!(Entry::decode(&mut &bytes[..20]).is_err());
        assert!(Entry::decode(&mut &b"\x09rest"[..]).is_err());
    }
}
