//! Extended attributes of an open file.

use std::os::fd::BorrowedFd;

use rustix::fs::XattrFlags;
use rustix::io::Errno;

/// Prefix of the PAX records that hold extended attributes, as star, GNU tar and Docker write them.
pub(super) const RECORD: &str = "SCHILY.xattr.";

/// All extended attributes that can be read, by name. Names that are not UTF-8 cannot
/// travel in a PAX record and are left out.
pub(super) fn read(fd: BorrowedFd<'_>) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let Ok(length) = rustix::fs::flistxattr_query(fd) else {
        return found;
    };
    if length == 0 {
        return found;
    }
    let mut names = vec![0u8; length];
    let Ok(length) = rustix::fs::flistxattr(fd, names.as_mut_slice()) else {
        return found;
    };
    for name in names[..length]
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
    {
        let Ok(name) = std::str::from_utf8(name) else {
            continue;
        };
        let Ok(length) = rustix::fs::fgetxattr_query(fd, name) else {
            continue;
        };
        let mut value = vec![0u8; length];
        let Ok(length) = rustix::fs::fgetxattr(fd, name, value.as_mut_slice()) else {
            continue;
        };
        value.truncate(length);
        found.push((name.to_owned(), value));
    }
    found
}

/// Sets one extended attribute. What this file system does not keep or the guest's root may
/// not set is left out, as other unpackers do.
pub(super) fn write(fd: BorrowedFd<'_>, name: &str, value: &[u8]) -> rustix::io::Result<()> {
    match rustix::fs::fsetxattr(fd, name, value, XattrFlags::empty()) {
        Err(Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS) => Ok(()),
        other => other,
    }
}

/// The pax record that counts what an archive could not hold: its own length first, as all
/// such records have it.
pub(super) fn left_out(count: u64) -> String {
    let text = format!(" INNKEEPER.left-out={count}\n");
    let length = |digits: usize| text.len() + digits;
    let digits = length(2).to_string().len();
    format!("{}{text}", length(digits))
}
