//! The ids of a pod that an ordinary user makes: root in it is the user, and every other id
//! comes from the range that /etc/subuid gives the user. The kernel lets only newuidmap and
//! newgidmap write such a map, which are setuid root.

use std::io;
use std::process::Command;

use super::PodError;
use crate::sys::channel;
use crate::sys::process::{self, Fork};
use std::os::fd::AsFd;

/// Ids in a pod: 0 to 65535.
const COUNT: u32 = 65_536;

/// A user's range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    first: u32,
    count: u32,
}

/// Writes the maps of a child that is in a new user namespace.
pub fn map(pid: i32) -> Result<(), PodError> {
    let uid = rustix::process::getuid().as_raw();
    let gid = rustix::process::getgid().as_raw();
    for (tool, file, own) in [
        ("newuidmap", "/etc/subuid", uid),
        ("newgidmap", "/etc/subgid", gid),
    ] {
        let range = range(file)?;
        let words = [0, own, 1, 1, range.first, COUNT - 1].map(|n| n.to_string());
        let output = Command::new(tool).arg(pid.to_string()).args(words).output();
        let output = output.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => PodError::Missing(format!(
                "{tool} is missing: install the package uidmap (shadow-utils elsewhere)"
            )),
            _ => PodError::at(format!("starting {tool}"))(error),
        })?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(PodError::Missing(format!("{tool} refuses: {said}")));
        }
    }
    Ok(())
}

/// The first range of this user that is long enough.
fn range(file: &str) -> Result<Range, PodError> {
    let uid = rustix::process::getuid().as_raw();
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let name = user_name(uid);
    find(&text, &name, uid).ok_or_else(|| {
        PodError::Missing(format!(
            "{file} gives {name} no {} ids: as root, run usermod --add-subuids 100000-165535 \
             --add-subgids 100000-165535 {name}",
            COUNT - 1
        ))
    })
}

fn find(text: &str, name: &str, uid: u32) -> Option<Range> {
    let uid = uid.to_string();
    text.lines()
        .filter_map(|line| {
            let mut parts = line.trim().split(':');
            let owner = parts.next()?;
            let first = parts.next()?.parse().ok()?;
            let count = parts.next()?.parse().ok()?;
            (owner == name || owner == uid).then_some(Range { first, count })
        })
        .find(|range| range.count >= COUNT - 1)
}

fn user_name(uid: u32) -> String {
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let named = passwd.lines().find_map(|line| {
        let mut parts = line.split(':');
        let name = parts.next()?;
        (parts.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    });
    named.unwrap_or_else(|| uid.to_string())
}

/// Does work in a process of a user namespace with a pod's ids. Call it before there are threads.
pub fn within(work: impl FnOnce() -> io::Result<()>) -> Result<(), PodError> {
    match status_within(work)? {
        0 => Ok(()),
        _ => Err(PodError::Missing(
            "the work in a pod's user namespace failed".to_owned(),
        )),
    }
}

/// As [`within`], with the exit code of the process, as shells count it: the work may become
/// another program.
pub fn status_within(work: impl FnOnce() -> io::Result<()>) -> Result<i32, PodError> {
    let (ours, theirs) = channel::pair().map_err(PodError::at("making a channel"))?;
    // SAFETY: this program has one thread here.
    #[allow(unsafe_code)]
    let fork = unsafe { process::fork(process::NEW_USER, None) };
    match fork.map_err(PodError::at("making a user namespace"))? {
        Fork::Child => {
            drop(ours);
            let done = await_map(theirs.as_fd())
                .and_then(|()| process::become_ids(0, 0, &[]))
                .and_then(|()| work());
            if let Err(error) = &done {
                eprintln!("execd: {error}");
            }
            process::exit(i32::from(done.is_err()))
        }
        Fork::Parent { pid, .. } => {
            drop(theirs);
            let mapped = map(pid).and_then(|()| release(ours.as_fd()));
            drop(ours);
            let status = process::wait(pid).map_err(PodError::at("waiting"))?;
            mapped?;
            if libc::WIFSIGNALED(status) {
                return Ok(128 + libc::WTERMSIG(status));
            }
            Ok(libc::WEXITSTATUS(status))
        }
    }
}

/// In a child: waits until its parent has done its part.
pub fn await_map(channel: std::os::fd::BorrowedFd<'_>) -> io::Result<()> {
    let (mut byte, mut none) = ([0], Vec::new());
    if channel::receive_all(channel, &mut byte, &mut none)? {
        Ok(())
    } else {
        Err(io::Error::from(io::ErrorKind::UnexpectedEof))
    }
}

/// In the parent: lets the child go on.
pub fn release(channel: std::os::fd::BorrowedFd<'_>) -> Result<(), PodError> {
    channel::send(channel, b"g", &[]).map_err(PodError::at("releasing pid 1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_found_by_name_or_number_and_must_be_long_enough() {
        let text = "other:1:65536\nme:5:10\nme:100000:65536\n1000:7:65535\n";
        let found = |name, uid| find(text, name, uid).map(|range| range.first);
        assert_eq!(found("me", 1), Some(100_000));
        assert_eq!(found("nobody", 1000), Some(7));
        assert_eq!(found("nobody", 1), None);
    }
}
