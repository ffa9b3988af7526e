//! A listing of a tree that shares nothing with the capture: what `stat`, `readlink` and reading say.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Everything of a tree but what no one can restore.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Listing(BTreeMap<PathBuf, Listed>);

#[derive(Debug, PartialEq, Eq)]
struct Listed {
    mode: u32,
    ids: (u32, u32),
    size: Option<u64>,
    links: Option<u64>,
    device: u64,
    mtime: (i64, i64),
    attributes: BTreeMap<Vec<u8>, Vec<u8>>,
    flags: Option<u32>,
    target: Option<PathBuf>,
    contents: Option<Vec<u8>>,
    /// The first path of the same inode.
    first: PathBuf,
}

impl Listing {
    pub(super) fn of(root: &Path) -> Self {
        let mut listed = BTreeMap::new();
        let mut inodes = BTreeMap::new();
        list(root, Path::new(""), &mut inodes, &mut listed);
        Listing(listed)
    }
}

fn list(
    root: &Path,
    at: &Path,
    inodes: &mut BTreeMap<(u64, u64), PathBuf>,
    listed: &mut BTreeMap<PathBuf, Listed>,
) {
    let path = if at.as_os_str().is_empty() {
        root.to_owned()
    } else {
        root.join(at)
    };
    let stat = fs::symlink_metadata(&path).expect("stat");
    let (file, directory) = (stat.is_file(), stat.is_dir());
    let first = inodes.entry((stat.dev(), stat.ino()));
    let entry = Listed {
        mode: stat.mode(),
        ids: (stat.uid(), stat.gid()),
        size: file.then(|| stat.size()),
        links: (!directory).then(|| stat.nlink()),
        device: stat.rdev(),
        mtime: (stat.mtime(), stat.mtime_nsec()),
        attributes: attributes(&path),
        flags: (file || directory).then(|| flags(&path)),
        target: stat
            .is_symlink()
            .then(|| fs::read_link(&path).expect("link")),
        contents: file.then(|| fs::read(&path).expect("read")),
        first: first.or_insert_with(|| at.to_owned()).clone(),
    };
    listed.insert(at.to_owned(), entry);
    if directory {
        let mut names: Vec<_> = fs::read_dir(&path)
            .expect("list")
            .map(|entry| entry.expect("entry").file_name())
            .collect();
        names.sort();
        for name in names {
            list(root, &at.join(name), inodes, listed);
        }
    }
}

fn attributes(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut names = vec![0; 65536];
    let len = rustix::fs::llistxattr(path, &mut names[..]).expect("list attributes");
    let mut found = BTreeMap::new();
    for name in names[..len].split(|b| *b == 0).filter(|n| !n.is_empty()) {
        if name.starts_with(b"trusted.overlay.") {
            continue;
        }
        let mut value = vec![0; 65536];
        let key = std::ffi::OsStr::from_bytes(name);
        let len = rustix::fs::lgetxattr(path, key, &mut value[..]).expect("get attribute");
        value.truncate(len);
        found.insert(name.to_vec(), value);
    }
    found
}

/// As `lsattr` shows them, less what a file system sets by itself.
fn flags(path: &Path) -> u32 {
    let file = fs::File::open(path).expect("open");
    let flags = rustix::fs::ioctl_getflags(&file).map_or(0, |flags| flags.bits());
    // immutable, append, nodump, noatime: FS_IMMUTABLE_FL and so on of linux/fs.h
    flags & (0x10 | 0x20 | 0x40 | 0x80)
}
