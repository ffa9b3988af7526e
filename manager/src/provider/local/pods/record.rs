//! What a pod's folder says of its processes, and pidfds of them.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::Deserialize;
use tokio::net::unix::pipe::Receiver;

/// `pod.json`, as `execd pod` writes it.
#[derive(Debug, Deserialize)]
pub(super) struct Record {
    machine: String,
    init: Process,
    parent: Process,
}

#[derive(Debug, Deserialize)]
struct Process {
    pid: i32,
    start: u64,
}

/// A process that can be told to end and awaited.
#[derive(Debug)]
pub(super) struct Watched {
    /// Its pidfd, for signals.
    pub(super) signals: OwnedFd,
    end: Receiver,
}

/// The processes of a pod, as descriptors that no other process can take over.
#[derive(Debug)]
pub(super) struct Processes {
    /// Its pid 1; None: ended.
    pub(super) init: Option<Watched>,
    /// Who removes what it leaves; None: ended.
    pub(super) parent: Option<Watched>,
}

impl Record {
    /// Reads a pod's folder; None where it says nothing of this start of the machine.
    pub(super) fn read(home: &Path) -> Option<Self> {
        let bytes = std::fs::read(home.join("pod.json")).ok()?;
        let record: Self = serde_json::from_slice(&bytes).ok()?;
        let machine = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        (record.machine == machine.trim()).then_some(record)
    }

    /// Opens both processes.
    pub(super) fn open(&self) -> Processes {
        Processes {
            init: self.init.open(),
            parent: self.parent.open(),
        }
    }
}

impl Process {
    /// Opened first and checked then: what is opened cannot change any more.
    fn open(&self) -> Option<Watched> {
        let pidfd = pidfd_open(Pid::from_raw(self.pid)?, PidfdFlags::empty()).ok()?;
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok()?;
        if start(&stat) != Some(self.start) {
            return None;
        }
        let signals = pidfd.try_clone().ok()?;
        // A pidfd polls as a pipe does: readable from the end of its process on.
        let end = Receiver::from_owned_fd_unchecked(pidfd).ok()?;
        Some(Watched { signals, end })
    }
}

/// Ticks from the machine's start to the process's: the 20th field behind the name, which is in
/// parentheses and may hold anything.
fn start(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(19)?.parse().ok()
}

/// Resolves when the process has ended. Cancel safe.
pub(super) async fn ended(process: Option<&Watched>) {
    if let Some(process) = process {
        // An error is no sign of life either.
        let _ = process.end.readable().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_process_is_opened_only_as_the_one_that_was_recorded() {
        let pid = std::process::id() as i32;
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        let start = start(&stat).unwrap();
        assert!(Process { pid, start }.open().is_some());
        let other = Process {
            pid,
            start: start + 1,
        };
        assert!(other.open().is_none());
    }

    #[tokio::test]
    async fn the_end_of_a_process_is_noticed() {
        let mut child = tokio::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let pid = child.id().unwrap() as i32;
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let start = start(&stat).unwrap();
        let opened = Process { pid, start }.open();
        assert!(opened.is_some());
        drop(child.stdin.take());
        ended(opened.as_ref()).await;
        child.wait().await.unwrap();
    }
}
