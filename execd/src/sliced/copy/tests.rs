//! Roots made on a real file system, copied, and compared by capture.

use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, process::Command};

use innkeeper_reset::capture::{Options, capture};
use innkeeper_reset::ids::IdMap;
use innkeeper_reset::tree::{Tree, diff};

use super::*;
use crate::sliced::plan::{Limits, plan};
use crate::sliced::survey::{Weight, survey};
use crate::sys::mount::{self, Filesystem, NODEV};

/// A root on a tmpfs that is mounted nowhere, and a target.
struct Made {
    root: OwnedFd,
    target: tempfile::TempDir,
    own: BTreeSet<Vec<u8>>,
}

impl Made {
    fn new() -> Self {
        let fs = Filesystem::open(c"tmpfs").expect("fsopen");
        Self {
            root: fs.mount(0).expect("mount"),
            target: tempfile::tempdir().expect("tempdir"),
            own: BTreeSet::new(),
        }
    }

    fn at(&self, path: &str) -> PathBuf {
        Path::new(&format!("/proc/self/fd/{}", self.root.as_raw_fd())).join(path)
    }

    fn file(&self, path: &str, contents: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("mkdir");
        fs::write(path, contents).expect("write");
    }

    /// Mounts something at a path of the root, which this kernel can below a mount that is nowhere.
    fn mount(&self, path: &str) {
        let mounted = Filesystem::open(c"tmpfs").and_then(|fs| {
            fs.set(c"mode", "1777")?;
            fs.mount(NODEV)
        });
        let target = fs::File::open(self.at(path)).expect("open");
        mount::attach(mounted.expect("tmpfs").as_fd(), target.as_fd()).expect("attach");
    }

    fn copy(&self, limits: &Limits) -> Vec<Part> {
        let seen = survey(self.root.as_fd(), &self.own).expect("survey");
        let parts = plan(&seen.root, limits);
        let target = fs::File::open(self.target.path()).expect("open");
        template(self.root.as_fd(), &parts, &self.own, target.as_fd()).expect("copy");
        parts
    }

    fn copied(&self, path: &str) -> PathBuf {
        self.target.path().join(path)
    }
}

fn tree(path: &Path) -> Tree {
    let directory = fs::File::open(path).expect("open");
    let captured = capture(directory.as_fd(), &Options::new(IdMap::CANONICAL));
    captured.expect("capture").tree
}

fn as_root(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("not run: {test}: needs root");
    }
    root
}

fn shell(script: &str, at: &Path) {
    let done = Command::new("sh")
        .args(["-ec", script])
        .current_dir(at)
        .status();
    assert!(done.expect("sh").success(), "{script}");
}

#[test]
fn a_copy_is_equal_in_every_attribute() {
    if !as_root("a_copy_is_equal_in_every_attribute") {
        return;
    }
    let made = Made::new();
    made.file("etc/passwd", "root:x:0:0::/:/bin/sh\n");
    made.file("opt/program", "#!");
    let script = "
        chmod 4755 opt/program
        ln opt/program opt/again; mkdir -p srv; ln opt/program srv/elsewhere
        ln -s nowhere opt/link; chown -h 33:44 opt/link
        mkfifo opt/pipe; chown 1000:1000 opt/pipe
        truncate -s 3M opt/sparse; printf x | dd of=opt/sparse bs=1 seek=2000000 conv=notrunc status=none
        chown 12345:54321 etc/passwd; chmod 640 etc/passwd
        mkdir -p opt/deep/er; chmod 2770 opt/deep; chown 5:6 opt/deep
        touch -d '2001-02-03 04:05:06.789012345' opt/program etc/passwd opt/deep/er opt/deep
        touch -h -d '2002-02-03 04:05:06.789012345' opt/link
    ";
    shell(script, &made.at("."));
    let attribute = |path: &str, name: &str, value: &[u8]| {
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::lsetxattr(made.at(path), name, value, flags).expect(name);
    };
    attribute("opt/deep", "user.note", b"kept");
    let capability = [1u32, 0x2000_0000, 0, 0, 0].map(u32::to_le_bytes).concat();
    let capability = [&0x0200_0001u32.to_le_bytes()[..], &capability[4..]].concat();
    attribute("srv/elsewhere", "security.capability", &capability);
    made.copy(&Limits::default());
    for top in ["etc", "opt", "srv"] {
        let (from, to) = (tree(&made.at(top)), tree(&made.copied(top)));
        assert_eq!(diff(&from, &to, 9), []);
    }
    let inode = |path: &str| fs::metadata(made.copied(path)).expect(path).ino();
    assert_eq!(
        inode("opt/program"),
        inode("srv/elsewhere"),
        "still one file"
    );
    let sparse = fs::metadata(made.copied("opt/sparse")).expect("sparse");
    assert!(
        sparse.blocks() * 512 < sparse.size() / 2,
        "holes stay holes"
    );
}

#[test]
fn what_is_mounted_is_empty_and_without_a_time_of_this_pod() {
    if !as_root("what_is_mounted_is_empty_and_without_a_time_of_this_pod") {
        return;
    }
    let mut made = Made::new();
    made.file("etc/hosts", "");
    made.file("etc/ssl/cert", "c");
    made.file("run/secrets/token/x", "below the mount");
    made.file("data/y", "below the mount");
    made.file("innkeeper/execd", "own");
    made.file("opt/own/z", "own");
    for path in ["etc/hosts", "run/secrets/token", "data"] {
        if path == "etc/hosts" {
            continue;
        }
        made.mount(path);
        made.file(&format!("{path}/secret"), "of the pod");
    }
    made.own
        .extend([b"innkeeper".to_vec(), b"opt/own".to_vec()]);
    made.copy(&Limits::default());
    let names = |path: &str| {
        let mut names: Vec<_> = fs::read_dir(made.copied(path))
            .expect(path)
            .map(|entry| {
                entry
                    .expect("entry")
                    .file_name()
                    .into_string()
                    .expect("name")
            })
            .collect();
        names.sort();
        names
    };
    assert_eq!(
        names(""),
        ["data", "dev", "etc", "opt", "proc", "run", "sys"]
    );
    assert!(names("data").is_empty() && names("run/secrets/token").is_empty());
    assert!(names("opt").is_empty());
    let stat = |path: &str| fs::metadata(made.copied(path)).expect(path);
    assert_eq!(stat("data").mode() & 0o7777, 0o1777);
    for touched in ["", "data", "run", "run/secrets", "run/secrets/token", "opt"] {
        assert_eq!(stat(touched).mtime(), 0, "{touched}");
    }
    let kept = fs::metadata(made.at("etc/ssl")).expect("ssl").mtime_nsec();
    assert_eq!(stat("etc/ssl").mtime_nsec(), kept);
}

#[test]
fn a_split_directory_keeps_its_attributes_and_its_slices_are_empty() {
    if !as_root("a_split_directory_keeps_its_attributes_and_its_slices_are_empty") {
        return;
    }
    let made = Made::new();
    made.file("usr/lib/large", &"l".repeat(5000));
    made.file("usr/bin/small", "s");
    made.file("usr/volume/x", "below the mount");
    shell("chmod 711 usr; chown 7:8 usr", &made.at("."));
    made.mount("usr/volume");
    let weight = |bytes| Weight {
        bytes,
        entries: 100,
    };
    let parts = made.copy(&Limits {
        whole: weight(1000),
        with_mounts: weight(1000),
        total: weight(10_000),
    });
    assert_eq!(super::super::plan::slices(&parts), [b"usr/lib".to_vec()]);
    let usr = fs::metadata(made.copied("usr")).expect("usr");
    assert_eq!((usr.mode() & 0o7777, usr.uid(), usr.gid()), (0o711, 7, 8));
    assert!(made.copied("usr/bin/small").is_file());
    assert!(
        fs::read_dir(made.copied("usr/lib"))
            .expect("lib")
            .next()
            .is_none()
    );
    assert!(
        fs::read_dir(made.copied("usr/volume"))
            .expect("volume")
            .next()
            .is_none()
    );
}
