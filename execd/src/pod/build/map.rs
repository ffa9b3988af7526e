//! The guest's ids: the container's own, one by one, up to the count that every sandbox has,
//! and without the daemon's.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::BorrowedFd;

use rustix::fs::{Mode, OFlags, openat};

use crate::spawner::build::IDS;

/// Writes the maps of a process that has a fresh user namespace.
pub(super) fn write(proc: BorrowedFd<'_>, pid: i32, left_out: u32) -> io::Result<()> {
    for file in ["uid_map", "gid_map"] {
        let mut own = String::new();
        let path = format!("self/{file}");
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        File::from(openat(proc, path, flags, Mode::empty())?).read_to_string(&mut own)?;
        let path = format!("{pid}/{file}");
        let file = openat(proc, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        rustix::io::write(&file, text(&own, left_out).as_bytes())?;
    }
    Ok(())
}

/// One line for each part of the container's own map: the kernel takes none that spans two.
fn text(own: &str, left_out: u32) -> String {
    let parts = own.lines().filter_map(|line| {
        let mut numbers = line.split_whitespace().map(str::parse::<u32>);
        let first = numbers.next()?.ok()?;
        let count = numbers.nth(1)?.ok()?;
        Some((first, first.saturating_add(count).min(IDS)))
    });
    let mut text = String::new();
    for (first, end) in parts {
        for (from, to) in [(first, end.min(left_out)), (first.max(left_out + 1), end)] {
            if from < to {
                text.push_str(&format!("{from} {from} {}\n", to - from));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn the_daemons_id_is_no_guests() {
        let machine = text("         0          0 4294967295\n", 60_123);
        assert_eq!(machine, "0 0 60123\n60124 60124 5412\n");
    }

    #[test]
    fn no_line_spans_two_parts_of_the_containers_map() {
        let user = text("0 1000 1\n1 100000 65535\n", 60_123);
        assert_eq!(user, "0 0 1\n1 1 60122\n60124 60124 5412\n");
    }
}
