//! What a file holds: contents, holes, flags, the target of a link.

use std::ffi::CStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    FileType, Mode, OFlags, SeekFrom, Statx, ioctl_getflags, openat, readlinkat, seek,
};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::hex;
use crate::text::{error, escaped};
use crate::{Depth, Record};

/// Bytes up to which a light observation reads a file.
const SMALL: u64 = 16 * 1024;

/// Records what an entry of this type holds.
pub(super) fn observe(
    record: &mut Record,
    subject: &str,
    depth: Depth,
    (directory, name): (BorrowedFd<'_>, &CStr),
    (kind, stat): (FileType, &Statx),
) {
    match kind {
        FileType::Symlink => {
            let target = readlinkat(directory, name, Vec::new());
            record.put(
                subject,
                "target",
                target.map_or_else(error, |target| escaped(target.to_bytes())),
            );
        }
        FileType::RegularFile | FileType::Directory => match open(directory, name) {
            Ok(file) => {
                flags(record, subject, &file);
                let read = depth == Depth::Full || stat.stx_size <= SMALL;
                if kind == FileType::RegularFile && read {
                    holes(record, subject, &file, stat.stx_size);
                    record.put(subject, "sha256", digest(file));
                }
            }
            Err(errno) => record.put(subject, "opened", error(errno)),
        },
        // To open one of these may wait, or do something.
        FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => {}
    }
}

fn open(directory: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    openat(directory, name, flags | OFlags::NOATIME, Mode::empty())
        .or_else(|_| openat(directory, name, flags, Mode::empty()))
}

fn flags(record: &mut Record, subject: &str, file: &OwnedFd) {
    match ioctl_getflags(file) {
        Ok(flags) => record.put(subject, "flags", format!("{:x}", flags.bits())),
        Err(Errno::NOTTY | Errno::OPNOTSUPP) => {}
        Err(errno) => record.put(subject, "flags", error(errno)),
    }
}

/// Where data lies, as START-END in bytes.
fn holes(record: &mut Record, subject: &str, file: &OwnedFd, size: u64) {
    let mut extents = Vec::new();
    let mut at = 0;
    while at < size {
        match seek(file, SeekFrom::Data(at)) {
            Ok(start) => {
                let end = seek(file, SeekFrom::Hole(start))
                    .unwrap_or(size)
                    .max(start + 1);
                extents.push(format!("{start}-{end}"));
                at = end;
            }
            Err(Errno::NXIO) => break,
            Err(errno) => {
                extents.push(error(errno));
                break;
            }
        }
    }
    record.put(subject, "data at", extents.join(" "));
    // The digest reads from the start.
    if let Err(errno) = seek(file.as_fd(), SeekFrom::Start(0)) {
        record.put(subject, "rewound", error(errno));
    }
}

fn digest(file: OwnedFd) -> String {
    let mut file = File::from(file);
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return hex(&digest.finalize()),
            Ok(length) => digest.update(&buffer[..length]),
            Err(failed) => {
                return Errno::from_io_error(&failed).map_or_else(|| failed.to_string(), error);
            }
        }
    }
}
