//! The container's root as a tree: everything that the guest can write, across mounts.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use innkeeper_reset::capture::Options;
use innkeeper_reset::components::Facts;
use innkeeper_reset::ids::IdMap;
use rustix::fs::{CWD, Mode, OFlags, openat};

/// File systems of the kernel's own objects, which are observed as such and not as files.
const NOT_FILES: [&str; 4] = ["proc", "sysfs", "cgroup", "cgroup2"];

/// The root and what is mounted below it.
#[derive(Debug)]
pub struct Root {
    fd: OwnedFd,
    /// As it was when the daemon started, before anything of a guest ran.
    mountinfo: String,
    excluded: Vec<Vec<u8>>,
}

impl Root {
    /// Looks at it. Call it before anything of a guest runs.
    ///
    /// # Errors
    /// When the kernel does not say what is mounted.
    pub fn find() -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let mountinfo = mountinfo()?;
        Ok(Self {
            fd: openat(CWD, "/", flags, Mode::empty())?,
            excluded: not_files(&mountinfo),
            mountinfo,
        })
    }

    /// The root directory.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// One more descriptor of it.
    ///
    /// # Errors
    /// When there is none to be had.
    pub fn open(&self) -> io::Result<OwnedFd> {
        self.fd.try_clone()
    }

    /// How it is read: all mounts as one tree, ids as they are.
    pub fn options(&self, by: Option<Instant>) -> Options<'static> {
        Options {
            same_mount_only: false,
            exclude: self.excluded.clone(),
            deadline: by,
            ..Options::new(IdMap::IDENTITY)
        }
    }

    /// Checks that nothing has been mounted or unmounted since the daemon started.
    ///
    /// # Errors
    /// A sentence where something has.
    pub fn same_mounts(&self) -> Result<(), String> {
        match mountinfo() {
            Ok(now) if now == self.mountinfo => Ok(()),
            Ok(_) => Err("the mounts of the container have changed".to_owned()),
            Err(error) => Err(format!("the mounts cannot be read: {error}")),
        }
    }
}

fn mountinfo() -> io::Result<String> {
    fs::read_to_string("/proc/thread-self/mountinfo")
}

/// Mount points, relative to the root, that hold no files. What lies below them is left out with them.
fn not_files(mountinfo: &str) -> Vec<Vec<u8>> {
    let point = |line: &str| {
        let (own, rest) = line.split_once(" - ")?;
        let kind = rest.split(' ').next()?;
        let point = own.split(' ').nth(4)?.trim_start_matches('/');
        (NOT_FILES.contains(&kind) && !point.is_empty()).then(|| unescaped(point))
    };
    let all: Vec<Vec<u8>> = mountinfo.lines().filter_map(point).collect();
    let below = |path: &[u8], above: &[u8]| {
        path.strip_prefix(above)
            .is_some_and(|rest| rest.first() == Some(&b'/'))
    };
    let mut top: Vec<_> = all
        .iter()
        .filter(|path| !all.iter().any(|above| below(path, above)))
        .cloned()
        .collect();
    top.sort();
    top.dedup();
    top
}

/// Blanks, tabs, newlines and backslashes stand as octal numbers (`proc_pid_mountinfo(5)`).
fn unescaped(point: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = point.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let octal = after.get(..3).filter(|_| *first == b'\\');
        let number = octal.and_then(|o| u8::from_str_radix(std::str::from_utf8(o).ok()?, 8).ok());
        match number {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

/// The facts of the mounts without what names the machine's folders: it differs from container to
/// container. That none has changed within one is checked to the letter, by [`Root::same_mounts`].
pub(super) fn without_sources(facts: &Facts) -> Facts {
    let mut kept = Facts::new();
    for (point, value) in facts.iter() {
        let kind = value.split(" from ").next().unwrap_or_default();
        let options = value.rsplit_once(" options ").map_or("", |(_, rest)| rest);
        let bound = if value.contains(" root / ") {
            "whole"
        } else {
            "bound"
        };
        kept.put(point, format!("{kind} {bound} options {options}"));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_objects_are_left_out_by_their_topmost_mount() {
        let text = "\
1 0 0:1 / / rw - overlay overlay rw\n\
2 1 0:2 / /proc rw - proc proc rw\n\
3 2 0:2 /sys /proc/sys ro - proc proc ro\n\
4 1 0:3 / /dev rw - tmpfs tmpfs rw\n\
5 1 0:4 / /sys ro - sysfs sysfs ro\n\
6 5 0:5 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n\
7 1 0:6 / /odd\\040name rw - proc proc rw\n";
        let found = not_files(text);
        assert_eq!(found, [&b"odd name"[..], b"proc", b"sys"]);
    }

    #[test]
    fn two_containers_have_the_same_mounts() {
        let facts = |slot: &str| {
            let mut facts = Facts::new();
            let value = format!(
                "ext4 from /dev/vda root /pods/{slot}/hosts major 254 options rw propagation  super rw"
            );
            facts.put("/etc/hosts", value);
            without_sources(&facts)
        };
        assert_eq!(facts("a"), facts("b"));
        assert!(
            facts("a")
                .get("/etc/hosts")
                .is_some_and(|v| v.contains("bound options rw"))
        );
    }
}
