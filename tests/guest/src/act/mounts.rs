//! Mounting, unmounting, other roots.

use std::ffi::CString;
use std::io;

use super::deed::{After, Arguments, Deed};
use super::files::done;
use super::held::keep;
use super::sys::{self, call};

pub(super) const DEEDS: &[(&str, Deed)] = &[
    ("mount", mount),
    ("bind", bind),
    ("unmount", unmount),
    ("remount", |a| change(a, libc::MS_REMOUNT | libc::MS_BIND)),
    ("propagate", |a| change(a, libc::MS_SHARED | libc::MS_REC)),
    ("open-mount", open_mount),
    ("clone-mount", clone_mount),
    ("mount-attributes", mount_attributes),
    ("pivot", pivot),
    ("chroot-out", chroot_out),
];

fn mount(a: &Arguments<'_>) -> io::Result<After> {
    let (kind, target) = (a.name(0), a.name(1));
    done(call!(
        libc::SYS_mount,
        c"none",
        target.as_c_str(),
        kind.as_c_str(),
        0,
        0
    ))
}

fn bind(a: &Arguments<'_>) -> io::Result<After> {
    let (source, target) = (a.name(0), a.name(1));
    done(call!(
        libc::SYS_mount,
        source.as_c_str(),
        target.as_c_str(),
        0,
        libc::MS_BIND,
        0
    ))
}

fn unmount(a: &Arguments<'_>) -> io::Result<After> {
    let target = a.name(0);
    done(call!(
        libc::SYS_umount2,
        target.as_c_str(),
        libc::MNT_DETACH
    ))
}

fn change(a: &Arguments<'_>, flags: u64) -> io::Result<After> {
    let target = a.name(0);
    done(call!(libc::SYS_mount, 0, target.as_c_str(), 0, flags, 0))
}

fn open_mount(a: &Arguments<'_>) -> io::Result<After> {
    let kind = a.name(0);
    keep(sys::descriptor(call!(
        libc::SYS_fsopen,
        kind.as_c_str(),
        0
    ))?)
}

fn clone_mount(a: &Arguments<'_>) -> io::Result<After> {
    const OPEN_TREE_CLONE: i32 = 1;
    let path = a.name(0);
    keep(sys::descriptor(call!(
        libc::SYS_open_tree,
        libc::AT_FDCWD,
        path.as_c_str(),
        OPEN_TREE_CLONE
    ))?)
}

/// Takes read-only away.
fn mount_attributes(a: &Arguments<'_>) -> io::Result<After> {
    let path = a.name(0);
    // struct mount_attr: set nothing, clear MOUNT_ATTR_RDONLY.
    let mut wish = [0; 32];
    wish[8..16].copy_from_slice(&1_u64.to_ne_bytes());
    done(call!(
        libc::SYS_mount_setattr,
        libc::AT_FDCWD,
        path.as_c_str(),
        0,
        wish.as_slice(),
        32
    ))
}

fn pivot(a: &Arguments<'_>) -> io::Result<After> {
    let target = a.name(0);
    done(call!(
        libc::SYS_pivot_root,
        target.as_c_str(),
        target.as_c_str()
    ))
}

/// The old way out of a changed root: keep a directory outside of it open and climb from there.
fn chroot_out(a: &Arguments<'_>) -> io::Result<After> {
    let outside = sys::open(c"/", libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
    let target = a.name(0);
    call!(libc::SYS_chroot, target.as_c_str())?;
    call!(libc::SYS_fchdir, &outside)?;
    let up = CString::new("../".repeat(64)).expect("no zero");
    call!(libc::SYS_chdir, up.as_c_str())?;
    call!(libc::SYS_chroot, c".")?;
    Ok(After::Stay)
}
