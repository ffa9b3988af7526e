//! Who is to be seen in the container beside the daemon. Nothing but the daemon and the guest
//! lives here, so whoever is not the daemon's is the guest's.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{Mode, OFlags, openat};

/// A process by its number and its start time, in ticks since the machine's start: a number
/// alone may have been given to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    pid: i32,
    started: u64,
}

/// The daemon's own processes.
#[derive(Debug)]
pub struct Own {
    proc: OwnedFd,
    known: Mutex<Vec<Process>>,
}

impl Own {
    /// The daemon itself and its spawner.
    ///
    /// # Errors
    /// When /proc cannot be read.
    pub fn new(spawner: i32) -> io::Result<Self> {
        let own = Self {
            proc: fs::File::open("/proc")?.into(),
            known: Mutex::default(),
        };
        own.add(std::process::id() as i32)?;
        own.add(spawner)?;
        Ok(own)
    }

    /// One more, which runs and has not been waited for.
    ///
    /// # Errors
    /// When it cannot be found.
    pub fn add(&self, pid: i32) -> io::Result<()> {
        let new = Process {
            pid,
            started: started(self.proc.as_fd(), pid)?,
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|old| started(self.proc.as_fd(), old.pid).is_ok_and(|s| s == old.started));
        known.push(new);
        Ok(())
    }

    /// Everybody else.
    ///
    /// # Errors
    /// When /proc cannot be read.
    pub fn others(&self) -> io::Result<Vec<i32>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let is_own = |pid: i32| {
            let same = known.iter().find(|process| process.pid == pid);
            same.is_some_and(|own| started(self.proc.as_fd(), pid).is_ok_and(|s| s == own.started))
        };
        Ok(pids(self.proc.as_fd())?
            .into_iter()
            .filter(|pid| !is_own(*pid))
            .collect())
    }

    /// All of them, for a killing that spares them: the daemon first.
    pub fn list(&self) -> Vec<innkeeper_reset::inplace::Own> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let own = |process: &Process| innkeeper_reset::inplace::Own {
            pid: process.pid.unsigned_abs(),
            start: process.started,
        };
        known.iter().map(own).collect()
    }

    /// The container's /proc.
    pub fn proc(&self) -> BorrowedFd<'_> {
        self.proc.as_fd()
    }
}

/// Every process that this /proc shows.
///
/// # Errors
/// When it cannot be listed.
pub fn pids(proc: BorrowedFd<'_>) -> io::Result<Vec<i32>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = openat(proc, ".", flags, Mode::empty())?;
    let mut pids = Vec::new();
    for entry in rustix::fs::Dir::new(directory)? {
        let name = entry?
            .file_name()
            .to_str()
            .unwrap_or_default()
            .parse::<i32>();
        pids.extend(name.ok());
    }
    Ok(pids)
}

/// A text file of a process.
///
/// # Errors
/// When the process is gone, or does not let itself be read.
pub fn text(proc: BorrowedFd<'_>, path: &str) -> io::Result<String> {
    let file = openat(proc, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    io::read_to_string(fs::File::from(file))
}

fn started(proc: BorrowedFd<'_>, pid: i32) -> io::Result<u64> {
    let stat = text(proc, &format!("{pid}/stat"))?;
    field(&stat, 22).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

/// A field of `proc_pid_stat(5)`. The name in front may hold blanks and brackets; the fields
/// after its last bracket count from 3.
fn field(stat: &str, number: usize) -> Option<u64> {
    let rest = stat.rsplit_once(')')?.1;
    rest.split_whitespace().nth(number - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_do_not_confuse() {
        let fields: Vec<String> = (4..=52).map(|n| n.to_string()).collect();
        let stat = format!("12 (a) b) 9) S {}", fields.join(" "));
        assert_eq!(field(&stat, 22), Some(22));
        assert_eq!(field("12", 22), None);
    }

    #[test]
    fn the_daemon_is_its_own_and_others_are_not() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let own = Own::new(std::process::id() as i32).unwrap();
        let pid = child.id() as i32;
        assert!(own.others().unwrap().contains(&pid));
        assert!(!own.others().unwrap().contains(&(std::process::id() as i32)));
        own.add(pid).unwrap();
        assert!(!own.others().unwrap().contains(&pid));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
