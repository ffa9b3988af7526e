//! Walking a tree with one descriptor, however deep it is.
//!
//! Going up is by `..`, and the directory found there must be the one that was left: a
//! guest that moves directories about while we walk gets an error, not a walk elsewhere.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::OFlags;

use super::{FileError, resolve};

/// A place in a tree.
#[derive(Debug)]
pub(in crate::inside) struct Descent {
    here: OwnedFd,
    above: Vec<(u64, u64)>,
}

impl Descent {
    /// Starts at a directory.
    pub(in crate::inside) fn at(here: OwnedFd) -> Self {
        Self {
            here,
            above: Vec::new(),
        }
    }

    /// The directory where we are.
    pub(in crate::inside) fn here(&self) -> BorrowedFd<'_> {
        self.here.as_fd()
    }

    /// How far down we are.
    pub(in crate::inside) fn depth(&self) -> usize {
        self.above.len()
    }

    /// Goes into a directory, never through a link.
    pub(in crate::inside) fn enter(&mut self, name: &[u8]) -> Result<(), FileError> {
        let id = identity(&self.here, name)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        self.here = resolve::open_at(self.here.as_fd(), name, flags)
            .map_err(FileError::io("open", name))?;
        self.above.push(id);
        Ok(())
    }

    /// Goes back to where `enter` was called.
    pub(in crate::inside) fn leave(&mut self) -> Result<(), FileError> {
        let Some(expected) = self.above.pop() else {
            return Ok(());
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK;
        let up = resolve::open_at(self.here.as_fd(), b"..", flags)
            .map_err(FileError::io("open", b".."))?;
        if identity(&up, b"..")? != expected {
            return Err(FileError::refused(
                b"..",
                libc::ESTALE,
                "was moved during the walk",
            ));
        }
        self.here = up;
        Ok(())
    }

    /// Names in the directory where we are, in the order of their bytes.
    pub(in crate::inside) fn names(&self) -> Result<Vec<Vec<u8>>, FileError> {
        let read = FileError::io::<rustix::io::Errno>;
        let dir = rustix::fs::Dir::read_from(&self.here).map_err(read("list", b"."))?;
        let mut names = Vec::new();
        for entry in dir {
            let entry = entry.map_err(read("list", b"."))?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(name.to_vec());
            }
        }
        names.sort_unstable();
        Ok(names)
    }
}

fn identity(dir: &OwnedFd, name: &[u8]) -> Result<(u64, u64), FileError> {
    let stat = rustix::fs::fstat(dir).map_err(FileError::io("examine", name))?;
    Ok((stat.st_dev, stat.st_ino))
}
