//! Places to build trees in, and short words for what is done there.

use std::ffi::CString;
use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use innkeeper_reset::capture::{Capture, Options, capture};
use innkeeper_reset::ids::IdMap;
use innkeeper_reset::tree::{Kind, Tree, diff};
use rustix::fs::{AtFlags, CWD, IFlags, Mode, OFlags, Timespec, Timestamps, XattrFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount,
    fsopen,
};

/// False, with a line that says so, where a test cannot run.
pub(crate) fn as_root(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("not run: {test}: needs root");
    }
    root
}

/// A file system mounted nowhere, reachable while this lives.
pub(crate) struct Mounted(pub(crate) OwnedFd);

impl Mounted {
    pub(crate) fn new(kind: &str, options: &[(&str, &str)]) -> Self {
        let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC).expect("fsopen");
        for (key, value) in options {
            fsconfig_set_string(&context, *key, *value).expect(key);
        }
        fsconfig_create(&context).expect("create file system");
        let fd = fsmount(
            &context,
            FsMountFlags::FSMOUNT_CLOEXEC,
            MountAttrFlags::empty(),
        )
        .expect("fsmount");
        Mounted(fd)
    }

    pub(crate) fn tmpfs() -> Self {
        Mounted::new("tmpfs", &[("size", "64m"), ("mode", "755")])
    }

    pub(crate) fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}/.", self.0.as_raw_fd()).into()
    }
}

pub(crate) fn open_dir(path: &Path) -> OwnedFd {
    let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(CWD, path, how, Mode::empty()).expect("open directory")
}

pub(crate) fn options() -> Options<'static> {
    Options::new(IdMap::CANONICAL)
}

pub(crate) fn captured(path: &Path, options: &Options<'_>) -> Capture {
    capture(open_dir(path).as_fd(), options).expect("capture")
}

pub(crate) fn tree(path: &Path) -> Tree {
    captured(path, &options()).tree
}

/// A capture in which everything but directories has a stamp: once all of them are older than a tick of the clock.
pub(crate) fn settled(path: &Path) -> Tree {
    loop {
        let tree = tree(path);
        if tree
            .entries()
            .all(|(_, entry)| entry.kind == Kind::Directory || entry.stamp.is_some())
        {
            return tree;
        }
        std::thread::yield_now();
    }
}

/// Path and attribute of every difference.
pub(crate) fn differing(old: &Tree, new: &Tree) -> Vec<(String, String)> {
    let found = diff(old, new, 100);
    found
        .into_iter()
        .map(|d| (d.path.escape_ascii().to_string(), d.what))
        .collect()
}

pub(crate) fn set_mtime(path: &Path, seconds: i64, nanoseconds: i64) {
    let time = Timespec {
        tv_sec: seconds,
        tv_nsec: nanoseconds,
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).expect("utimensat");
}

pub(crate) fn set_xattr(path: &Path, name: &str, value: &[u8]) {
    rustix::fs::lsetxattr(path, name, value, XattrFlags::empty()).expect(name);
}

pub(crate) fn remove_xattr(path: &Path, name: &str) {
    rustix::fs::lremovexattr(path, name).expect(name);
}

/// Sets inode flags until dropped, so that an immutable file never outlives its test.
pub(crate) struct Flagged(PathBuf);

impl Flagged {
    pub(crate) fn new(path: &Path, flag: IFlags) -> Self {
        let file = File::open(path).expect("open");
        let now = rustix::fs::ioctl_getflags(&file).expect("get flags");
        rustix::fs::ioctl_setflags(&file, now | flag).expect("set flags");
        Flagged(path.to_owned())
    }
}

impl Drop for Flagged {
    fn drop(&mut self) {
        let Ok(file) = File::open(&self.0) else {
            return;
        };
        let changeable = IFlags::IMMUTABLE | IFlags::APPEND | IFlags::NODUMP | IFlags::NOATIME;
        if let Ok(now) = rustix::fs::ioctl_getflags(&file) {
            let _ = rustix::fs::ioctl_setflags(&file, now - changeable);
        }
    }
}

/// An access list of the kernel's form with one named user.
pub(crate) fn access_list(user: u32) -> Vec<u8> {
    const NO_ID: u32 = u32::MAX;
    let entries: [(u16, u16, u32); 5] = [
        (1, 6, NO_ID),
        (2, 4, user),
        (4, 4, NO_ID),
        (16, 4, NO_ID),
        (32, 4, NO_ID),
    ];
    let mut value = vec![2, 0, 0, 0];
    for (tag, permissions, id) in entries {
        value.extend(tag.to_le_bytes());
        value.extend(permissions.to_le_bytes());
        value.extend(id.to_le_bytes());
    }
    value
}

/// A file capability of revision 2: CAP_NET_RAW, permitted and effective.
pub(crate) fn file_capability() -> Vec<u8> {
    let words: [u32; 5] = [0x0200_0001, 1 << 13, 0, 0, 0];
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

pub(crate) fn make_node(path: &Path, kind: rustix::fs::FileType, device: u64) {
    rustix::fs::mknodat(CWD, path, kind, Mode::from(0o644), device).expect("mknod");
}

/// One of everything, with fixed times. `reversed` makes it in the other order.
pub(crate) fn one_of_everything(root: &Path, reversed: bool) {
    type Make<'a> = Box<dyn Fn() + 'a>;
    let at = |name: &str| root.join(name);
    let _ = fs::create_dir(at("dir"));
    let _ = fs::create_dir(at("dir/deep"));
    let mut makers: Vec<Make<'_>> = vec![
        Box::new(|| fs::write(at("dir/deep/leaf"), "leaf").expect("leaf")),
        Box::new(|| fs::write(at("file"), "contents").expect("file")),
        Box::new(|| fs::write(at("dir/one"), "linked").expect("one")),
        Box::new(|| fs::write(at("empty"), "").expect("empty")),
        Box::new(|| {
            let sparse = File::create(at("sparse")).expect("sparse");
            sparse.set_len(1 << 20).expect("set_len");
        }),
        Box::new(|| std::os::unix::fs::symlink("no/where", at("link")).expect("link")),
        Box::new(|| make_node(&at("fifo"), rustix::fs::FileType::Fifo, 0)),
        Box::new(|| make_node(&at("socket"), rustix::fs::FileType::Socket, 0)),
        Box::new(|| {
            make_node(
                &at("char"),
                rustix::fs::FileType::CharacterDevice,
                rustix::fs::makedev(1, 3),
            )
        }),
        Box::new(|| {
            make_node(
                &at("block"),
                rustix::fs::FileType::BlockDevice,
                rustix::fs::makedev(7, 200),
            )
        }),
        Box::new(|| {
            fs::write(at("capable"), "program").expect("capable");
            set_xattr(&at("capable"), "security.capability", &file_capability());
        }),
        Box::new(|| {
            fs::write(at("listed"), "shared").expect("listed");
            set_xattr(&at("listed"), "system.posix_acl_access", &access_list(1000));
        }),
        Box::new(|| {
            fs::write(at("noted"), "x").expect("noted");
            set_xattr(&at("noted"), "user.note", b"one");
            set_xattr(&at("noted"), "trusted.note", b"two");
        }),
        Box::new(|| {
            fs::write(
                root.join(std::ffi::OsStr::from_bytes(b"odd\xff\n\\name")),
                "o",
            )
            .expect("odd")
        }),
        Box::new(|| fs::write(at(&"n".repeat(255)), "long").expect("long")),
    ];
    if reversed {
        makers.reverse();
    }
    makers.iter().for_each(|make| make());
    fs::hard_link(at("dir/one"), at("other")).expect("hard link");
    fix_times(root);
}

/// Gives every entry a time of its own that depends on its name alone, directories last.
pub(crate) fn fix_times(dir: &Path) {
    for entry in fs::read_dir(dir).expect("list") {
        let path = entry.expect("entry").path();
        if path.symlink_metadata().expect("stat").is_dir() {
            fix_times(&path);
        } else {
            // Linked names must agree: by size.
            let size = path.symlink_metadata().expect("stat").len() as i64;
            set_mtime(&path, 1_700_000_000 + size, 123_456_789);
        }
    }
    set_mtime(dir, 1_600_000_000, 987_654_321);
}

pub(crate) fn c_name(name: &str) -> CString {
    CString::new(name).expect("no zero byte")
}
