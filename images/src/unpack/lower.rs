//! The layers beneath the one being unpacked, looked at as overlayfs would show them.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{self, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::{is_missing, stat, whiteout};
use crate::attributes::Attributes;

/// Open trees of the layers beneath, topmost first.
#[derive(Debug, Default)]
pub(crate) struct Lowers {
    trees: Vec<OwnedFd>,
}

/// A file of a lower layer.
pub(super) struct Found {
    dir: OwnedFd,
    name: Vec<u8>,
    stat: Stat,
}

impl Lowers {
    /// Puts a layer on top.
    pub(crate) fn push(&mut self, tree: OwnedFd) {
        self.trees.insert(0, tree);
    }

    /// The file that shows at this path, without following symbolic links on the way.
    pub(super) fn find(&self, path: &[&[u8]]) -> Result<Option<Found>, Errno> {
        for tree in &self.trees {
            match find_in(tree, path)? {
                Step::Found(found) => return Ok(Some(found)),
                Step::Hidden => return Ok(None),
                Step::Beneath => {}
            }
        }
        Ok(None)
    }
}

enum Step {
    Found(Found),
    /// Deleted here, or not a directory on the way.
    Hidden,
    /// Not in this layer; those beneath may have it.
    Beneath,
}

fn find_in(tree: &OwnedFd, path: &[&[u8]]) -> Result<Step, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut dir = fs::openat(tree, ".", flags, Mode::empty())?;
    let Some((&name, parents)) = path.split_last() else {
        let stat = fs::fstat(&dir)?;
        return Ok(Step::Found(Found {
            dir,
            name: b".".to_vec(),
            stat,
        }));
    };
    let mut opaque = false;
    let absent = |opaque| if opaque { Step::Hidden } else { Step::Beneath };
    for &part in parents {
        opaque |= whiteout::is_opaque(&dir);
        dir = match fs::openat(&dir, part, flags, Mode::empty()) {
            Ok(next) => next,
            Err(Errno::NOENT) => return Ok(absent(opaque)),
            Err(errno) if is_missing(errno) || errno == Errno::LOOP => return Ok(Step::Hidden),
            Err(errno) => return Err(errno),
        };
    }
    opaque |= whiteout::is_opaque(&dir);
    Ok(match stat(&dir, name)? {
        None => absent(opaque),
        Some(stat) if whiteout::is_whiteout(&stat) => Step::Hidden,
        Some(stat) => Step::Found(Found {
            dir,
            name: name.to_vec(),
            stat,
        }),
    })
}

impl Found {
    pub(super) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }

    pub(super) fn attributes(&self) -> io::Result<Attributes> {
        Attributes::read(self.dir.as_fd(), &self.name, &self.stat)
    }

    pub(super) fn open(&self) -> Result<File, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = fs::openat(&self.dir, self.name.as_slice(), flags, Mode::empty())?;
        Ok(File::from(file))
    }

    pub(super) fn read_link(&self) -> Result<CString, Errno> {
        fs::readlinkat(&self.dir, self.name.as_slice(), Vec::new())
    }
}
