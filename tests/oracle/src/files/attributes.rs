//! What stat and the extended attributes say.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use rustix::fs::{FileType, Statx, StatxTimestamp, lgetxattr, llistxattr};
use rustix::io::Errno;

use crate::Record;
use crate::ids::{Ids, readable};
use crate::text::{error, escaped};

/// Largest list of names, and largest value (`linux/limits.h`).
const LARGEST: usize = 64 * 1024;

/// Records all of stat.
pub(super) fn of_stat(record: &mut Record, subject: &str, stat: &Statx, ids: Ids) {
    let mut put = |field: &str, value: String| record.put(subject, field, value);
    put(
        "type",
        kind(FileType::from_raw_mode(stat.stx_mode.into())).to_owned(),
    );
    put("mode", format!("{:04o}", stat.stx_mode & 0o7777));
    put("uid", ids.inside(stat.stx_uid));
    put("gid", ids.inside(stat.stx_gid));
    put("size", stat.stx_size.to_string());
    put("blocks", stat.stx_blocks.to_string());
    put("block size", stat.stx_blksize.to_string());
    put("nlink", stat.stx_nlink.to_string());
    // Apart from that of files: an overlay numbers directories as they are looked up.
    let directory = FileType::from_raw_mode(stat.stx_mode.into()) == FileType::Directory;
    let ino = if directory { "directory ino" } else { "ino" };
    put(ino, stat.stx_ino.to_string());
    put(
        "dev",
        format!("{}:{}", stat.stx_dev_major, stat.stx_dev_minor),
    );
    put(
        "rdev",
        format!("{}:{}", stat.stx_rdev_major, stat.stx_rdev_minor),
    );
    put("atime", time(&stat.stx_atime));
    put("mtime", time(&stat.stx_mtime));
    put("ctime", time(&stat.stx_ctime));
    put("btime", time(&stat.stx_btime));
    put("attributes", format!("{:x}", stat.stx_attributes));
}

fn kind(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "file",
        FileType::Directory => "directory",
        FileType::Symlink => "link",
        FileType::Fifo => "fifo",
        FileType::Socket => "socket",
        FileType::CharacterDevice => "character device",
        FileType::BlockDevice => "block device",
        FileType::Unknown => "unknown",
    }
}

fn time(stamp: &StatxTimestamp) -> String {
    format!("{}.{:09}", stamp.tv_sec, stamp.tv_nsec)
}

/// Records extended attributes, ACLs and file capabilities among them.
pub(super) fn extended(
    record: &mut Record,
    subject: &str,
    (directory, name): (BorrowedFd<'_>, &CStr),
    ids: Ids,
) {
    // There is no such call by descriptor and name before Linux 6.13.
    let mut path = format!("/proc/self/fd/{}/", directory.as_raw_fd()).into_bytes();
    path.extend(name.to_bytes());
    let path = PathBuf::from(std::ffi::OsString::from_vec(path));
    let mut list = vec![0u8; LARGEST];
    let length = match llistxattr(&path, &mut list) {
        Ok(length) => length,
        Err(Errno::OPNOTSUPP) => return,
        Err(errno) => return record.put(subject, "xattrs", error(errno)),
    };
    for name in list[..length]
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
    {
        let mut value = vec![0u8; LARGEST];
        let value = match lgetxattr(&path, name, &mut value) {
            Ok(length) => {
                readable(name, &value[..length], ids).unwrap_or_else(|| escaped(&value[..length]))
            }
            Err(errno) => error(errno),
        };
        record.put(subject, &format!("xattr {}", escaped(name)), value);
    }
}
