//! The group of one command: what it started can be killed as a whole, whatever sessions
//! and process groups it made.

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};

use tokio::io::Interest;

use crate::sys::watch;

/// A version 2 group.
#[derive(Debug)]
pub struct ExecGroup {
    directory: PathBuf,
}

impl ExecGroup {
    pub(super) fn create(directory: PathBuf) -> io::Result<Self> {
        fs::create_dir(&directory)?;
        Ok(Self { directory })
    }

    pub(super) fn directory(&self) -> &PathBuf {
        &self.directory
    }

    /// Kills the command and all its descendants.
    pub fn kill(&self) {
        let _ = fs::write(self.directory.join("cgroup.kill"), "1");
    }

    /// Host pids in it.
    ///
    /// # Errors
    /// When the group cannot be read.
    pub fn pids(&self) -> io::Result<Vec<i32>> {
        let text = fs::read_to_string(self.directory.join("cgroup.procs"))?;
        Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
    }

    /// Waits until none is left. Cancel safe.
    pub async fn empty(&self) {
        let _ = empty(&self.directory).await;
    }
}

impl Drop for ExecGroup {
    /// An empty group is removed; one with a background child goes with its sandbox.
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.directory);
    }
}

fn is_populated(events: &str) -> bool {
    !events.lines().any(|line| line == "populated 0")
}

/// Waits for `populated 0`; the kernel announces a change as priority data.
pub(super) async fn empty(directory: &Path) -> io::Result<()> {
    let path = directory.join("cgroup.events");
    let file = match File::open(path) {
        // Removed groups are empty.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    let mut watched = watch::watch(file, Interest::PRIORITY)?;
    loop {
        let mut text = String::new();
        let file = watched.get_mut();
        file.rewind()?;
        match file.read_to_string(&mut text) {
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => return Ok(()),
            other => other?,
        };
        if !is_populated(&text) {
            return Ok(());
        }
        watched.ready(Interest::PRIORITY).await?.clear_ready();
    }
}
