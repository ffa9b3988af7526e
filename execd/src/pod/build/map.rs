//! The guest's ids: the container's own, one by one, up to the count that every sandbox has,
//! and without the daemon's.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{Mode, OFlags, openat};

use crate::spawner::build::IDS;

/// Writes the maps of a process that has a fresh user namespace.
pub(super) fn write(proc: BorrowedFd<'_>, pid: i32, left_out: u32) -> io::Result<()> {
    let text = text(left_out);
    for file in ["uid_map", "gid_map"] {
        let path = format!("{pid}/{file}");
        let file = openat(proc, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        rustix::io::write(&file, text.as_bytes())?;
    }
    Ok(())
}

fn text(left_out: u32) -> String {
    let next = left_out + 1;
    format!("0 0 {left_out}\n{next} {next} {}\n", IDS - next)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_daemons_id_is_no_guests() {
        assert_eq!(super::text(60_123), "0 0 60123\n60124 60124 5412\n");
    }
}
