//! Deletions: how a layer states them, and how overlayfs wants them.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{self, AtFlags, FileType, Mode, Stat, Timespec, Timestamps, XattrFlags};
use rustix::io::Errno;

use crate::paths::BadPath;

const PREFIX: &[u8] = b".wh.";
const META_PREFIX: &[u8] = b".wh..wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";

/// What the name of an entry marks.
pub(super) enum Mark<'a> {
    None,
    /// The sibling of this name is deleted.
    Whiteout(&'a [u8]),
    /// Everything beneath the parent directory is deleted.
    Opaque,
    /// Bookkeeping of aufs, which is no content.
    Foreign,
    Bad(BadPath),
}

pub(super) fn mark<'a>(parts: &[&'a [u8]]) -> Mark<'a> {
    let Some((&name, parents)) = parts.split_last() else {
        return Mark::None;
    };
    if name == OPAQUE {
        return Mark::Opaque;
    }
    if name.starts_with(META_PREFIX) || parents.iter().any(|part| part.starts_with(META_PREFIX)) {
        return Mark::Foreign;
    }
    match name.strip_prefix(PREFIX) {
        None => Mark::None,
        Some(b"" | b"." | b"..") => Mark::Bad(BadPath::Climbs),
        Some(hidden) => Mark::Whiteout(hidden),
    }
}

/// Makes the whiteout of overlayfs: a character device 0:0, which no driver answers to and which
/// the kernel lets anyone make. Its time is fixed, so that the same layer gives the same tree.
pub(super) fn make(dir: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    fs::mknodat(dir, name, FileType::CharacterDevice, Mode::empty(), 0)?;
    let zero = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let times = Timestamps {
        last_access: zero,
        last_modification: zero,
    };
    fs::utimensat(dir, name, &times, AtFlags::SYMLINK_NOFOLLOW)
}

pub(super) fn is_whiteout(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == 0
}

const FOR_USERS: &str = "user.overlay.opaque";
const FOR_ROOT: &str = "trusted.overlay.opaque";

/// Both names, so that the layer serves mounts with and without `userxattr`. Whoever is not the
/// machine's root cannot set the second, nor ever mount without.
pub(super) fn set_opaque(dir: BorrowedFd<'_>) -> Result<(), Errno> {
    fs::fsetxattr(dir, FOR_USERS, b"y", XattrFlags::empty())?;
    match fs::fsetxattr(dir, FOR_ROOT, b"y", XattrFlags::empty()) {
        Err(Errno::PERM) => Ok(()),
        done => done,
    }
}

pub(super) fn is_opaque(dir: impl AsFd) -> bool {
    [FOR_USERS, FOR_ROOT].into_iter().any(|name| {
        let mut value = [0; 1];
        fs::fgetxattr(&dir, name, &mut value) == Ok(1) && value == *b"y"
    })
}
