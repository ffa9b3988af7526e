//! What holds on to files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;

use super::deed::{After, Arguments, Deed};
use super::files::{done, opened, pattern};
use super::sys::{self, call};

pub(super) const DEEDS: &[(&str, Deed)] = &[
    ("map-store", map_store),
    ("map-keep", map_keep),
    ("keep-open", keep_open),
    ("keep-deleted", keep_deleted),
    ("keep-directory", keep_directory),
    ("keep-working-in", keep_working_in),
    ("keep-root-in", keep_root_in),
    ("lock", lock),
    ("range-lock", range_lock),
    ("file-lease", file_lease),
    ("watch", watch),
    ("watch-mounts", watch_mounts),
    ("keep-executing", keep_executing),
    ("keep-writing", keep_writing),
];

/// Stays and holds a thing.
pub(super) fn keep<T>(thing: T) -> io::Result<After> {
    std::mem::forget(thing);
    Ok(After::Stay)
}

fn map_store(a: &Arguments<'_>) -> io::Result<After> {
    let file = sys::open(&a.name(0), libc::O_RDWR, 0)?;
    let length = File::from(file.try_clone()?).metadata()?.len() as usize;
    if length == 0 {
        return Err(io::Error::from_raw_os_error(libc::ENODATA));
    }
    sys::map(&file, length, true)?.flip(a.length(1) % length);
    Ok(After::End)
}

fn map_keep(a: &Arguments<'_>) -> io::Result<After> {
    let file = sys::open(&a.name(0), libc::O_RDWR, 0)?;
    let mapping = sys::map(&file, 4096, true)?;
    let length = File::from(file).metadata()?.len();
    if length > 0 {
        mapping.flip(0);
    }
    keep(mapping)
}

fn keep_open(a: &Arguments<'_>) -> io::Result<After> {
    keep(opened(a.path(0), OpenOptions::new().read(true))?)
}

fn keep_deleted(a: &Arguments<'_>) -> io::Result<After> {
    let mut options = OpenOptions::new();
    let mut file = opened(a.path(0), options.write(true).create(true))?;
    file.write_all(&pattern(a.length(1)))?;
    fs::remove_file(a.path(0))?;
    keep(file)
}

fn keep_directory(a: &Arguments<'_>) -> io::Result<After> {
    let directory = sys::open(&a.name(0), libc::O_PATH | libc::O_DIRECTORY, 0)?;
    // It may go while it is held.
    let _ = fs::remove_dir(a.path(0));
    keep(directory)
}

fn keep_working_in(a: &Arguments<'_>) -> io::Result<After> {
    std::env::set_current_dir(a.path(0))?;
    Ok(After::Stay)
}

fn keep_root_in(a: &Arguments<'_>) -> io::Result<After> {
    std::os::unix::fs::chroot(a.path(0))?;
    Ok(After::Stay)
}

fn lock(a: &Arguments<'_>) -> io::Result<After> {
    let file = sys::open(&a.name(0), libc::O_RDONLY, 0)?;
    call!(libc::SYS_flock, &file, libc::LOCK_EX | libc::LOCK_NB)?;
    keep(file)
}

fn range_lock(a: &Arguments<'_>) -> io::Result<After> {
    let file = sys::open(&a.name(0), libc::O_RDWR, 0)?;
    // struct flock: type and whence, then start and length, then a pid.
    let mut lock = [0; 32];
    lock[..2].copy_from_slice(&(libc::F_WRLCK as i16).to_ne_bytes());
    call!(libc::SYS_fcntl, &file, libc::F_SETLK, lock.as_slice())?;
    keep(file)
}

fn file_lease(a: &Arguments<'_>) -> io::Result<After> {
    let file = sys::open(&a.name(0), libc::O_RDONLY, 0)?;
    call!(libc::SYS_fcntl, &file, libc::F_SETLEASE, libc::F_RDLCK)?;
    keep(file)
}

fn watch(a: &Arguments<'_>) -> io::Result<After> {
    let watcher = sys::descriptor(call!(libc::SYS_inotify_init1, libc::IN_CLOEXEC))?;
    let path = a.name(0);
    call!(
        libc::SYS_inotify_add_watch,
        &watcher,
        path.as_c_str(),
        libc::IN_ALL_EVENTS
    )?;
    keep(watcher)
}

fn watch_mounts(a: &Arguments<'_>) -> io::Result<After> {
    let watcher = fanotify(0)?;
    let (mask, path) = (libc::FAN_OPEN | libc::FAN_MODIFY, a.name(0));
    let how = libc::FAN_MARK_ADD | libc::FAN_MARK_MOUNT;
    call!(
        libc::SYS_fanotify_mark,
        &watcher,
        how,
        mask,
        libc::AT_FDCWD,
        path.as_c_str()
    )?;
    keep(watcher)
}

/// A descriptor of fanotify.
pub(super) fn fanotify(flags: u32) -> io::Result<OwnedFd> {
    sys::descriptor(call!(libc::SYS_fanotify_init, flags, libc::O_RDONLY))
}

/// This program itself, from a file of the sandbox: it cannot be written while it runs.
fn keep_executing(a: &Arguments<'_>) -> io::Result<After> {
    fs::copy("/proc/self/exe", a.path(0))?;
    let mut command = std::process::Command::new(a.path(0));
    command.args(["act", "--stay"]);
    let started = sys::spawn(move || {
        sys::close_standard();
        let _ = command.exec();
    });
    done(started)
}

/// Never leaves its file alone.
fn keep_writing(a: &Arguments<'_>) -> io::Result<After> {
    let path = a.path(0);
    fs::write(path, b"begun")?;
    done(sys::spawn(|| {
        sys::close_standard();
        loop {
            let _ = fs::write(path, pattern(1000));
            let _ = fs::remove_file(path);
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }))
}
