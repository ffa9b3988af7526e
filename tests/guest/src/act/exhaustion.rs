//! What is limited, used up. Each stops at the number it was given, whatever the limits are.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use super::deed::{After, Arguments, Deed};
use super::files::{done, pattern};
use super::held::keep;
use super::sys::{self, call};

pub(super) const DEEDS: &[(&str, Deed)] = &[
    ("fill-disk", |a| fill(&a.path(0).join("fill"), a.length(1))),
    ("fill-inodes", fill_inodes),
    ("fill-shm", |a| {
        fill(Path::new("/dev/shm/fill"), a.length(0))
    }),
    ("use-memory", use_memory),
    ("use-descriptors", use_descriptors),
    ("use-watches", use_watches),
    ("use-pids", use_pids),
    ("use-timers", use_timers),
    ("say-much", |a| {
        done(io::stderr().write_all(&pattern(a.length(0))))
    }),
];

fn fill(path: &Path, mebibytes: usize) -> io::Result<After> {
    let mut file = File::create(path)?;
    let some = pattern(1 << 20);
    for _ in 0..mebibytes {
        file.write_all(&some)?;
    }
    Ok(After::End)
}

fn fill_inodes(a: &Arguments<'_>) -> io::Result<After> {
    let folder = a.path(0).join("inodes");
    std::fs::create_dir_all(&folder)?;
    for number in 0..a.number(1) {
        File::create(folder.join(number.to_string()))?;
    }
    Ok(After::End)
}

fn use_memory(a: &Arguments<'_>) -> io::Result<After> {
    keep(pattern(a.length(0) << 20))
}

fn use_descriptors(a: &Arguments<'_>) -> io::Result<After> {
    let mut held = Vec::new();
    for _ in 0..a.number(0) {
        match File::open("/") {
            Ok(file) => held.push(file),
            Err(_) => break,
        }
    }
    keep(held)
}

fn use_watches(a: &Arguments<'_>) -> io::Result<After> {
    let mut held = Vec::new();
    for _ in 0..a.number(0) {
        match sys::descriptor(call!(libc::SYS_inotify_init1, 0)) {
            Ok(watcher) => held.push(watcher),
            Err(_) => break,
        }
    }
    keep(held)
}

fn use_pids(a: &Arguments<'_>) -> io::Result<After> {
    for _ in 0..a.number(0) {
        if sys::spawn(|| {}).is_err() {
            break;
        }
    }
    Ok(After::End)
}

fn use_timers(a: &Arguments<'_>) -> io::Result<After> {
    for _ in 0..a.number(0) {
        let mut id = [0; 4];
        call!(
            libc::SYS_timer_create,
            libc::CLOCK_MONOTONIC,
            0,
            id.as_mut_slice()
        )?;
    }
    Ok(After::Stay)
}
