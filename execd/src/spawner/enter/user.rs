//! Who a command runs as, by the sandbox's own `/etc/passwd` and `/etc/group`.

use std::io::{self, Read};

use rustix::fs::{CWD, FileType, Mode, OFlags};

use super::Failure;

/// The largest passwd or group file that is read: a guest may have made it.
const LARGEST: u64 = 16 * 1024 * 1024;

/// A resolved user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct User {
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) groups: Vec<u32>,
    pub(super) home: Vec<u8>,
}

/// Resolves `name`, `uid`, `name:group` or `uid:gid`; empty is root.
pub(super) fn resolve(spec: &str) -> Result<User, Failure> {
    let passwd = read("/etc/passwd");
    let group = read("/etc/group");
    lookup(spec, &passwd, &group).ok_or_else(|| {
        let error = io::Error::from_raw_os_error(libc::ENOENT);
        Failure::of_command(
            format!("finding user {spec} in the image's /etc/passwd"),
            error,
            126,
        )
    })
}

/// The file's bytes; nothing where it is missing, too large or not a file.
fn read(path: &str) -> Vec<u8> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut bytes = Vec::new();
    let Ok(fd) = rustix::fs::openat(CWD, path, flags, Mode::empty()) else {
        return bytes;
    };
    let is_file = rustix::fs::fstat(&fd)
        .is_ok_and(|s| FileType::from_raw_mode(s.st_mode) == FileType::RegularFile);
    if is_file {
        let _ = std::fs::File::from(fd)
            .take(LARGEST)
            .read_to_end(&mut bytes);
    }
    bytes
}

fn lookup(spec: &str, passwd: &[u8], group: &[u8]) -> Option<User> {
    let (name, group_name) = match spec.split_once(':') {
        Some((name, group)) => (name, Some(group)),
        None => (spec, None),
    };
    let name = if name.is_empty() { "0" } else { name };
    let entry = lines(passwd).find(|f| f.len() >= 6 && names(f, name));
    let (uid, mut gid, home, login) = match entry {
        Some(f) => (number(f[2])?, number(f[3])?, f[5].to_vec(), f[0].to_vec()),
        // Root is root, whatever a guest did to the file.
        None if name == "root" => (0, 0, b"/root".to_vec(), Vec::new()),
        None => (name.parse().ok()?, 0, b"/".to_vec(), Vec::new()),
    };
    let mut groups = Vec::new();
    match group_name {
        Some(wanted) => {
            gid = match lines(group).find(|f| f.len() >= 3 && names(f, wanted)) {
                Some(f) => number(f[2])?,
                None => wanted.parse().ok()?,
            };
        }
        None => {
            let member = |f: &[&[u8]]| {
                f[3].split(|b| *b == b',')
                    .any(|m| !m.is_empty() && m == login)
            };
            groups = lines(group)
                .filter(|f| f.len() >= 4 && member(f))
                .filter_map(|f| number(f[2]))
                .collect();
        }
    }
    if !groups.contains(&gid) {
        groups.insert(0, gid);
    }
    Some(User {
        uid,
        gid,
        groups,
        home: if home.is_empty() { b"/".to_vec() } else { home },
    })
}

fn lines(file: &[u8]) -> impl Iterator<Item = Vec<&[u8]>> {
    file.split(|b| *b == b'\n')
        .map(|line| line.split(|b| *b == b':').collect())
}

/// Whether an entry has this name, or this number.
fn names(fields: &[&[u8]], wanted: &str) -> bool {
    fields[0] == wanted.as_bytes()
        || (wanted.parse::<u32>().is_ok() && fields[2] == wanted.as_bytes())
}

fn number(field: &[u8]) -> Option<u32> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &[u8] =
        b"root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\nbad\n";
    const GROUP: &[u8] = b"root:x:0:\nann:x:1000:\nwheel:x:10:bob,ann\n";

    #[test]
    fn names_and_numbers_and_groups() {
        let root = lookup("", PASSWD, GROUP).unwrap();
        assert_eq!(
            (root.uid, root.gid, root.home.as_slice()),
            (0, 0, b"/root".as_slice())
        );
        let ann = lookup("ann", PASSWD, GROUP).unwrap();
        assert_eq!((ann.uid, ann.groups), (1000, vec![1000, 10]));
        let ann = lookup("1000:wheel", PASSWD, GROUP).unwrap();
        assert_eq!((ann.gid, ann.groups), (10, vec![10]));
        let stranger = lookup("4242:17", PASSWD, GROUP).unwrap();
        assert_eq!(
            (stranger.uid, stranger.gid, stranger.home.as_slice()),
            (4242, 17, b"/".as_slice())
        );
        assert_eq!(lookup("nobody-here", PASSWD, GROUP), None);
        let root = lookup("root", b"", b"").unwrap();
        assert_eq!((root.uid, root.gid), (0, 0), "root needs no entry");
    }
}
