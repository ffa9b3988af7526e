//! A disk upper with a hard limit: an ext4 file system of the asked size in a sparse file.
//! Works on every file system and kernel, where quotas do not. A blank one is made once per
//! size; a sandbox gets a sparse copy of it.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{SeekFrom, seek};

use crate::sys::loopback;
use crate::sys::mount::{Filesystem, NODEV};

/// Bytes of an inode on disk.
const INODE: u64 = 256;
/// Bytes for the file system's own tables beside inodes, and one in 128 of its size more.
const TABLES: u64 = 1 << 20;

/// Whether this machine can make and mount one: by its programs and devices.
pub fn is_possible() -> bool {
    mkfs().is_some() && Path::new("/dev/loop-control").exists()
}

fn mkfs() -> Option<PathBuf> {
    let places = [
        "/usr/sbin/mkfs.ext4",
        "/sbin/mkfs.ext4",
        "/usr/bin/mkfs.ext4",
    ];
    places
        .into_iter()
        .map(PathBuf::from)
        .find(|path| path.is_file())
}

/// Mounts a fresh copy of the blank file system, detached. Its file lies at `target` and may
/// be unlinked at any time.
pub(super) fn mount(blanks: &Path, target: &Path, bytes: u64, inodes: u64) -> io::Result<OwnedFd> {
    let size = bytes + bytes / 128 + inodes * INODE + TABLES;
    let blank = blanks.join(format!("{size}-{inodes}.ext4"));
    if !blank.exists() {
        make_blank(&blank, size, inodes)?;
    }
    let file = copy_sparse(&blank, target)?;
    let (device, kept) = loopback::attach(&file)?;
    let fs = Filesystem::open(c"ext4")?;
    fs.set(c"source", &device)?;
    // No thread that fills tables later, and no order of writes that a crash would need.
    fs.flag(c"noinit_itable")?;
    fs.flag(c"nobarrier")?;
    let tree = fs.mount(NODEV)?;
    drop(kept);
    Ok(tree)
}

fn make_blank(blank: &Path, bytes: u64, inodes: u64) -> io::Result<()> {
    let program = mkfs().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    let new = blank.with_extension(format!("new-{:?}", std::thread::current().id()));
    File::create(&new)?.set_len(bytes)?;
    let made = Command::new(program)
        .args(["-q", "-F", "-m", "0", "-O", "^has_journal,^resize_inode"])
        .args(["-E", "lazy_itable_init=1,nodiscard,root_owner=0:0"])
        .args(["-N", &inodes.to_string()])
        .arg(&new)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .env_clear()
        .status()?;
    if !made.success() {
        let _ = fs::remove_file(&new);
        return Err(io::Error::other(
            "mkfs.ext4 failed: the disk limit may be too small or the store's disk full",
        ));
    }
    fs::rename(new, blank)
}

/// Copies what of a file holds data; the rest stays a hole.
fn copy_sparse(from: &Path, to: &Path) -> io::Result<File> {
    let source = File::open(from)?;
    let target = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(to)?;
    let length = source.metadata()?.len();
    target.set_len(length)?;
    let mut at = 0;
    while let Ok(start) = seek(&source, SeekFrom::Data(at)) {
        let end = seek(&source, SeekFrom::Hole(start)).unwrap_or(length);
        copy_range(&source, &target, start, end)?;
        at = end;
        if at >= length {
            break;
        }
    }
    Ok(target)
}

fn copy_range(source: &File, target: &File, start: u64, end: u64) -> io::Result<()> {
    let (mut from, mut to) = (start, start);
    while from < end {
        let length = (end - from) as usize;
        match rustix::fs::copy_file_range(source, Some(&mut from), target, Some(&mut to), length) {
            Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
