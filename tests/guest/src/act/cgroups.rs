//! Control groups.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::deed::{After, Arguments, Deed};
use super::files::{done, opened};
use super::sys::call;

pub(super) const DEEDS: &[(&str, Deed)] = &[
    ("cgroup-make", make),
    ("cgroup-write", write),
    ("cgroup-mount", mount),
];

/// Where groups may be, on one hierarchy or several.
const PLACES: [&str; 4] = ["", "unified", "memory", "pids"];

fn places() -> impl Iterator<Item = PathBuf> {
    PLACES
        .into_iter()
        .map(|place| Path::new("/sys/fs/cgroup").join(place))
}

/// Tries all places; the first success counts, else the last failure.
fn anywhere(attempt: impl Fn(&Path) -> io::Result<()>) -> io::Result<After> {
    let mut last = Ok(());
    for place in places() {
        last = attempt(&place);
        if last.is_ok() {
            break;
        }
    }
    done(last)
}

fn make(a: &Arguments<'_>) -> io::Result<After> {
    anywhere(|place| fs::create_dir(place.join(a.path(0))))
}

/// `FILE=TEXT`.
fn write(a: &Arguments<'_>) -> io::Result<After> {
    let both = a.text(0);
    let (file, text) = both.split_once('=').unwrap_or((&both, ""));
    anywhere(|place| {
        opened(&place.join(file), OpenOptions::new().write(true))?.write_all(text.as_bytes())
    })
}

fn mount(a: &Arguments<'_>) -> io::Result<After> {
    let (controller, target) = (a.name(0), a.name(1));
    let (controller, target) = (controller.as_c_str(), target.as_c_str());
    if a.bytes(0) == b"cgroup2" {
        done(call!(libc::SYS_mount, c"none", target, controller, 0, 0))
    } else {
        done(call!(
            libc::SYS_mount,
            c"none",
            target,
            c"cgroup",
            0,
            controller
        ))
    }
}
