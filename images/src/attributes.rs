//! Owner, mode, time and extended attributes of one file, read and written without following
//! links and without a path that a layer could bend.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::fs::{self, AtFlags, Gid, Mode, Stat, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use crate::tarstream::Timestamp;

/// What a layer states about a file besides its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mtime: Timestamp,
    pub(crate) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Attributes {
    /// Those of a directory that no layer describes. The time is fixed, so that the same layer
    /// always gives the same tree.
    pub(crate) fn of_implied_directory() -> Attributes {
        let mtime = Timestamp::default();
        Attributes {
            mode: 0o755,
            uid: 0,
            gid: 0,
            mtime,
            xattrs: Vec::new(),
        }
    }

    /// Those of `name` in `dir`, of which `stat` was taken.
    pub(crate) fn read(dir: BorrowedFd<'_>, name: &[u8], stat: &Stat) -> io::Result<Attributes> {
        Ok(Attributes {
            mode: stat.st_mode & 0o7777,
            uid: stat.st_uid,
            gid: stat.st_gid,
            mtime: Timestamp {
                seconds: stat.st_mtime,
                nanos: stat.st_mtime_nsec as u32,
            },
            xattrs: read_xattrs(dir, name)?,
        })
    }

    /// Nobody's ids: above what a sandbox maps.
    pub(crate) fn has_foreign_id(&self) -> bool {
        self.uid > 65_535 || self.gid > 65_535
    }

    fn times(&self) -> Timestamps {
        let time = Timespec {
            tv_sec: self.mtime.seconds,
            tv_nsec: self.mtime.nanos.into(),
        };
        Timestamps {
            last_access: time,
            last_modification: time,
        }
    }
}

/// Why an attribute could not be set.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Owner, mode or time.
    #[error("its {what} cannot be set: {source}")]
    Basic {
        /// Owner, mode or time.
        what: &'static str,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// An extended attribute.
    #[error("its extended attribute `{name}` ({bytes} bytes) cannot be set: {source}")]
    Extended {
        /// Its name.
        name: String,
        /// Length of its value.
        bytes: usize,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

fn basic(what: &'static str) -> impl Fn(Errno) -> Error {
    move |errno| Error::Basic {
        what,
        source: errno.into(),
    }
}

/// Sets everything on an open file or directory; returns how many extended attributes were left
/// out. The order matters: a change of owner clears setuid bits and capabilities.
pub(crate) fn set(file: BorrowedFd<'_>, attributes: &Attributes) -> Result<u64, Error> {
    let (uid, gid) = (Uid::from_raw(attributes.uid), Gid::from_raw(attributes.gid));
    fs::fchown(file, Some(uid), Some(gid)).map_err(basic("owner"))?;
    fs::fchmod(file, Mode::from_raw_mode(attributes.mode)).map_err(basic("mode"))?;
    let left_out = set_xattrs(&attributes.xattrs, |name, value| {
        fs::fsetxattr(file, name, value, XattrFlags::empty())
    })?;
    fs::futimens(file, &attributes.times()).map_err(basic("time"))?;
    Ok(left_out)
}

/// As [`set`], for a symbolic link, fifo or whiteout that this process has just made in `dir`.
pub(crate) fn set_at(
    dir: BorrowedFd<'_>,
    name: &[u8],
    attributes: &Attributes,
    is_link: bool,
) -> Result<u64, Error> {
    let (uid, gid) = (Uid::from_raw(attributes.uid), Gid::from_raw(attributes.gid));
    let no_follow = AtFlags::SYMLINK_NOFOLLOW;
    fs::chownat(dir, name, Some(uid), Some(gid), no_follow).map_err(basic("owner"))?;
    if !is_link {
        let mode = Mode::from_raw_mode(attributes.mode);
        fs::chmodat(dir, name, mode, AtFlags::empty()).map_err(basic("mode"))?;
    }
    let path = path_of(dir, name);
    let left_out = set_xattrs(&attributes.xattrs, |xattr, value| {
        fs::lsetxattr(path.as_slice(), xattr, value, XattrFlags::empty())
    })?;
    fs::utimensat(dir, name, &attributes.times(), no_follow).map_err(basic("time"))?;
    Ok(left_out)
}

fn set_xattrs(
    xattrs: &[(Vec<u8>, Vec<u8>)],
    set: impl Fn(&[u8], &[u8]) -> Result<(), Errno>,
) -> Result<u64, Error> {
    let mut left_out = 0;
    for (name, value) in xattrs {
        if is_overlay(name) {
            left_out += 1;
            continue;
        }
        match set(name, value) {
            Ok(()) => {}
            // Names that mean something to another system only, such as those of macOS, or
            // user attributes on a symbolic link.
            Err(Errno::OPNOTSUPP | Errno::PERM) if !decides_rights(name) => left_out += 1,
            Err(errno) => {
                return Err(Error::Extended {
                    name: crate::paths::shown(name),
                    bytes: value.len(),
                    source: errno.into(),
                });
            }
        }
    }
    Ok(left_out)
}

/// Attributes through which overlayfs itself speaks; no layer may bring its own.
pub(crate) fn is_overlay(name: &[u8]) -> bool {
    name.starts_with(b"trusted.overlay.") || name.starts_with(b"user.overlay.")
}

/// Losing one of these silently would change what a program may do.
fn decides_rights(name: &[u8]) -> bool {
    name == b"security.capability" || name.starts_with(b"system.posix_acl_")
}

/// A path for the calls that take no directory descriptor. Only the descriptor's own link is
/// followed, never one in the layer.
pub(crate) fn path_of(dir: BorrowedFd<'_>, name: &[u8]) -> Vec<u8> {
    let mut path = format!("/proc/self/fd/{}/", dir.as_raw_fd()).into_bytes();
    path.extend_from_slice(name);
    path
}

/// All extended attributes of `name` in `dir`, sorted, without those of overlayfs.
fn read_xattrs(dir: BorrowedFd<'_>, name: &[u8]) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let path = path_of(dir, name);
    let path = path.as_slice();
    let names = match grown(|buffer| fs::llistxattr(path, buffer)) {
        Ok(names) => names,
        Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
        Err(errno) => return Err(errno.into()),
    };
    let mut xattrs = Vec::new();
    for name in names.split(|&b| b == 0).filter(|name| !name.is_empty()) {
        if is_overlay(name) {
            continue;
        }
        match grown(|buffer| fs::lgetxattr(path, name, buffer)) {
            Ok(value) => xattrs.push((name.to_vec(), value)),
            Err(Errno::NODATA) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    xattrs.sort();
    Ok(xattrs)
}

/// Calls with a small buffer, then with the largest that the kernel fills.
fn grown(call: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
    let mut small = [0; 512];
    match call(&mut small) {
        Ok(length) => return Ok(small[..length].to_vec()),
        Err(Errno::RANGE) => {}
        Err(errno) => return Err(errno),
    }
    let mut large = vec![0; 64 * 1024];
    let length = call(&mut large)?;
    large.truncate(length);
    Ok(large)
}
