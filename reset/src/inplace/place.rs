//! Getting to an entry by descriptors: one name at a time from the root, no link followed, however
//! deep it lies.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

/// Directories kept open on the way down; those above are opened again when they are needed.
const OPEN_LEVELS: usize = 64;

/// Where the last step was. Steps come in an order in which the next is near.
pub(super) struct Place<'r> {
    root: BorrowedFd<'r>,
    names: Vec<Vec<u8>>,
    open: Vec<Option<OwnedFd>>,
}

impl<'r> Place<'r> {
    pub(super) fn new(root: BorrowedFd<'r>) -> Self {
        Place {
            root,
            names: Vec::new(),
            open: Vec::new(),
        }
    }

    /// The directory that an entry lies in, and its name there; for the root itself the root and `.`.
    pub(super) fn of(&mut self, path: &[u8]) -> Result<(BorrowedFd<'_>, CString), Errno> {
        let Some(last) = path.rsplit(|b| *b == b'/').next().filter(|n| !n.is_empty()) else {
            return Ok((self.root, c".".to_owned()));
        };
        let name = CString::new(last).map_err(|_| Errno::INVAL)?;
        let above = path.len() - last.len();
        Ok((self.directory(&path[..above])?, name))
    }

    fn directory(&mut self, path: &[u8]) -> Result<BorrowedFd<'_>, Errno> {
        let wanted: Vec<&[u8]> = path
            .split(|b| *b == b'/')
            .filter(|n| !n.is_empty())
            .collect();
        let pairs = self.names.iter().zip(&wanted);
        let common = pairs.take_while(|(have, want)| have == *want).count();
        self.names.truncate(common);
        self.open.truncate(common);
        // From the deepest directory that is still open.
        let from = self.open.iter().rposition(Option::is_some);
        let from = from.map_or(0, |at| at + 1);
        for (level, name) in wanted.iter().enumerate().skip(from) {
            let c_name = CString::new(*name).map_err(|_| Errno::INVAL)?;
            let opened = enter(self.at(level), &c_name)?;
            if level == self.names.len() {
                self.names.push(name.to_vec());
                self.open.push(None);
            }
            self.open[level] = Some(opened);
            if level >= OPEN_LEVELS {
                self.open[level - OPEN_LEVELS] = None;
            }
        }
        Ok(self.at(wanted.len()))
    }

    /// The directory of this many names, which is open.
    fn at(&self, level: usize) -> BorrowedFd<'_> {
        let above = level.checked_sub(1).and_then(|at| self.open.get(at));
        above
            .and_then(Option::as_ref)
            .map_or(self.root, AsFd::as_fd)
    }
}

fn enter(dir: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let how = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(dir, name, how, Mode::empty())
}
