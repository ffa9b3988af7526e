//! Modes, owners, times, extended attributes, access lists, flags.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, lchown};

use super::deed::{After, Arguments, Deed};
use super::files::done;
use super::sys::{self, call};

pub(super) const DEEDS: &[(&str, Deed)] = &[
    ("chmod", chmod),
    ("chmod-directory", chmod),
    ("chown", chown),
    ("chown-directory", chown),
    ("times", times),
    ("times-directory", times),
    ("setxattr", setxattr),
    ("setxattr-directory", setxattr),
    ("removexattr", removexattr),
    ("capability", capability),
    ("acl", |a| acl(a, c"system.posix_acl_access")),
    ("default-acl", |a| acl(a, c"system.posix_acl_default")),
    ("flags", flags),
    ("flags-directory", flags),
    ("project", project),
];

fn chmod(a: &Arguments<'_>) -> io::Result<After> {
    done(fs::set_permissions(
        a.path(0),
        Permissions::from_mode(a.mode(1)),
    ))
}

fn id(a: &Arguments<'_>, index: usize) -> Option<u32> {
    u32::try_from(a.number(index)).ok()
}

fn chown(a: &Arguments<'_>) -> io::Result<After> {
    done(lchown(a.path(0), id(a, 1), id(a, 2)))
}

fn times(a: &Arguments<'_>) -> io::Result<After> {
    let path = a.name(0);
    let mut both = Vec::with_capacity(32);
    for _ in 0..2 {
        both.extend(a.number(1).to_ne_bytes());
        both.extend(a.number(2).to_ne_bytes());
    }
    let (at, flags) = (libc::AT_FDCWD, libc::AT_SYMLINK_NOFOLLOW);
    done(call!(
        libc::SYS_utimensat,
        at,
        path.as_c_str(),
        both.as_slice(),
        flags
    ))
}

/// Sets an attribute of a path itself, also where it is a link.
pub(super) fn attribute(
    path: &std::ffi::CStr,
    name: &std::ffi::CStr,
    value: &[u8],
) -> io::Result<After> {
    done(call!(
        libc::SYS_lsetxattr,
        path,
        name,
        value,
        value.len(),
        0
    ))
}

fn setxattr(a: &Arguments<'_>) -> io::Result<After> {
    attribute(&a.name(0), &a.name(1), a.bytes(2))
}

fn removexattr(a: &Arguments<'_>) -> io::Result<After> {
    let (path, name) = (a.name(0), a.name(1));
    done(call!(
        libc::SYS_lremovexattr,
        path.as_c_str(),
        name.as_c_str()
    ))
}

/// A file capability, in the form of version 2.
fn capability(a: &Arguments<'_>) -> io::Result<After> {
    let (low, high) = match a.number(1) {
        low @ 0..32 => (1_u32 << low, 0),
        high => (0, 1_u32 << (high - 32)),
    };
    let words = [0x0200_0001_u32, low, 0, high, 0];
    let value: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    attribute(&a.name(0), c"security.capability", &value)
}

/// An access list with one named user.
fn acl(a: &Arguments<'_>, name: &std::ffi::CStr) -> io::Result<After> {
    const NOBODY: u32 = u32::MAX;
    let (user, may) = (id(a, 1).unwrap_or_default(), a.number(2) as u16);
    let entries = [
        (1, 6, NOBODY),
        (2, may, user),
        (4, 4, NOBODY),
        (0x10, 7, NOBODY),
        (0x20, 4, NOBODY),
    ];
    let mut value = 2_u32.to_le_bytes().to_vec();
    for (tag, may, who) in entries {
        value.extend(u16::to_le_bytes(tag));
        value.extend(may.to_le_bytes());
        value.extend(who.to_le_bytes());
    }
    attribute(&a.name(0), name, &value)
}

const GET_FLAGS: u32 = 0x8008_6601;
const SET_FLAGS: u32 = 0x4008_6602;
const GET_EXTENDED: u32 = 0x801c_581f;
const SET_EXTENDED: u32 = 0x401c_5820;

/// Adds flags by their letters of lsattr.
fn flags(a: &Arguments<'_>) -> io::Result<After> {
    let file = sys::open(&a.name(0), libc::O_RDONLY, 0)?;
    let mut now = [0; 8];
    call!(libc::SYS_ioctl, &file, GET_FLAGS, now.as_mut_slice())?;
    let mut bits = u64::from_ne_bytes(now);
    for letter in a.bytes(1) {
        bits |= match letter {
            b's' => 0x1,
            b'u' => 0x2,
            b'c' => 0x4,
            b'S' => 0x8,
            b'i' => 0x10,
            b'a' => 0x20,
            b'd' => 0x40,
            b'A' => 0x80,
            b'D' => 0x1_0000,
            _ => 0x2_0000,
        };
    }
    done(call!(
        libc::SYS_ioctl,
        &file,
        SET_FLAGS,
        bits.to_ne_bytes().as_slice()
    ))
}

fn project(a: &Arguments<'_>) -> io::Result<After> {
    const PROJECT: std::ops::Range<usize> = 12..16;
    let file = sys::open(&a.name(0), libc::O_RDONLY, 0)?;
    let mut now = [0; 28];
    call!(libc::SYS_ioctl, &file, GET_EXTENDED, now.as_mut_slice())?;
    now[PROJECT].copy_from_slice(&(a.number(1) as u32).to_ne_bytes());
    done(call!(libc::SYS_ioctl, &file, SET_EXTENDED, now.as_slice()))
}
