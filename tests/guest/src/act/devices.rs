//! Device nodes and terminals.

use std::ffi::{CStr, CString};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use super::attributes::attribute;
use super::deed::{After, Arguments, Deed};
use super::files::{done, opened};
use super::held::keep;
use super::sys::{self, call};

pub(super) const DEEDS: &[(&str, Deed)] = &[
    ("device-node", node),
    ("device-open", open),
    ("device-chmod", chmod),
    ("device-chown", own),
    ("device-times", times),
    ("device-remove", |a| done(fs::remove_file(at(a, 0)))),
    ("device-replace", replace),
    ("device-xattr", xattr),
    ("device-new", |a| done(File::create(at(a, 0)))),
    ("device-link", |a| done(symlink(at(a, 0), at(a, 1)))),
    ("terminal", |_| terminal()),
    ("terminal-type", |_| terminal_type()),
];

fn at(a: &Arguments<'_>, index: usize) -> PathBuf {
    Path::new("/dev").join(a.path(index))
}

fn name(a: &Arguments<'_>) -> CString {
    CString::new(["/dev/".as_bytes(), a.bytes(0)].concat()).expect("words hold no zero")
}

fn node(a: &Arguments<'_>) -> io::Result<After> {
    let path = a.name(0);
    let kind = if a.bytes(1) == b"c" {
        libc::S_IFCHR
    } else {
        libc::S_IFBLK
    };
    let device = libc::makedev(a.number(2) as u32, a.number(3) as u32);
    done(call!(
        libc::SYS_mknodat,
        libc::AT_FDCWD,
        path.as_c_str(),
        kind | 0o666,
        device
    ))
}

/// For reading only, and nothing is read: what opens must not hurt.
fn open(a: &Arguments<'_>) -> io::Result<After> {
    keep(opened(&at(a, 0), OpenOptions::new().read(true))?)
}

fn chmod(a: &Arguments<'_>) -> io::Result<After> {
    done(fs::set_permissions(
        at(a, 0),
        Permissions::from_mode(a.mode(1)),
    ))
}

fn own(a: &Arguments<'_>) -> io::Result<After> {
    let id = |index| u32::try_from(a.number(index)).ok();
    done(chown(at(a, 0), id(1), id(2)))
}

fn times(a: &Arguments<'_>) -> io::Result<After> {
    let both: Vec<u8> = [a.number(1), a.number(2), a.number(1), a.number(2)]
        .iter()
        .flat_map(|n| n.to_ne_bytes())
        .collect();
    let path = name(a);
    done(call!(
        libc::SYS_utimensat,
        libc::AT_FDCWD,
        path.as_c_str(),
        both.as_slice(),
        0
    ))
}

fn replace(a: &Arguments<'_>) -> io::Result<After> {
    fs::remove_file(at(a, 0))?;
    done(fs::write(at(a, 0), b"not a device"))
}

fn xattr(a: &Arguments<'_>) -> io::Result<After> {
    let attribute_name = CString::new(["user.".as_bytes(), a.bytes(1)].concat());
    attribute(&name(a), &attribute_name.expect("words hold no zero"), b"x")
}

/// A new terminal, held from both ends.
fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    const TIOCGPTN: u32 = 0x8004_5430;
    const TIOCSPTLCK: u32 = 0x4004_5431;
    let main = sys::open(c"/dev/ptmx", libc::O_RDWR, 0)?;
    let mut number = [0; 4];
    call!(libc::SYS_ioctl, &main, TIOCSPTLCK, number.as_slice())?;
    call!(libc::SYS_ioctl, &main, TIOCGPTN, number.as_mut_slice())?;
    let path = format!("/dev/pts/{}\0", i32::from_ne_bytes(number));
    let path = CStr::from_bytes_with_nul(path.as_bytes()).expect("one zero");
    let other = sys::open(path, libc::O_RDWR, 0)?;
    Ok((main, other))
}

fn terminal() -> io::Result<After> {
    keep(pair()?)
}

/// Types into a terminal that it makes its own.
fn terminal_type() -> io::Result<After> {
    const TIOCSCTTY: u32 = 0x540e;
    const TIOCSTI: u32 = 0x5412;
    let (_main, other) = pair()?;
    call!(libc::SYS_setsid)?;
    call!(libc::SYS_ioctl, &other, TIOCSCTTY, 0)?;
    done(call!(libc::SYS_ioctl, &other, TIOCSTI, b"x".as_slice()))
}
