//! Writing where /proc and /sys let one.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;

use super::deed::{After, Arguments, Deed};
use super::files::{done, opened};
use super::held::keep;

pub(super) const DEEDS: &[(&str, Deed)] = &[
    ("proc-write", write),
    ("proc-open", open),
    ("proc-hide", chmod),
    ("sys-write", write),
    ("sys-chmod", chmod),
];

/// `PATH=TEXT`.
fn write(a: &Arguments<'_>) -> io::Result<After> {
    let both = a.text(0);
    let (path, text) = both.split_once('=').unwrap_or((&both, ""));
    let mut file = opened(path.as_ref(), OpenOptions::new().write(true))?;
    file.write_all(text.as_bytes())?;
    // What it says of this process lasts as long as this process.
    Ok(if path.starts_with("/proc/self") {
        After::Stay
    } else {
        After::End
    })
}

fn open(a: &Arguments<'_>) -> io::Result<After> {
    keep(opened(a.path(0), OpenOptions::new().read(true))?)
}

fn chmod(a: &Arguments<'_>) -> io::Result<After> {
    done(fs::set_permissions(
        a.path(0),
        Permissions::from_mode(a.mode(1)),
    ))
}
