//! Starting the spawner: the daemon's own program, sealed in memory, with one variable and one
//! socket.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use crate::sys::{channel, memfd};

/// The spawner's argv[0], and so what a guest reads in `/proc/1/cmdline`.
pub const NAME: &str = "sandbox-init";
/// The variable that holds its words: in a container a guest reads its command line, but not this.
const WORDS: &str = "WORDS";
const MEMFD: &CStr = c"sandbox-init";

/// A started spawner.
#[derive(Debug)]
pub struct Launched {
    /// Its process; the daemon reaps it.
    pub child: Child,
    /// The daemon's end of the socket.
    pub socket: OwnedFd,
    /// The sealed program, kept so that its path stays valid.
    pub program: File,
}

/// The words of this process, where it is the spawner.
pub fn words() -> Vec<String> {
    let words = std::env::var(WORDS).unwrap_or_default();
    words.split_whitespace().map(str::to_owned).collect()
}

/// Starts the spawner, with words that say where it is. Call it before the daemon has threads.
pub fn launch(words: &[String]) -> io::Result<Launched> {
    let program = memfd::sealed_self(MEMFD)?;
    let (ours, theirs) = channel::pair()?;
    let child = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()))
        .arg0(NAME)
        .env_clear()
        .env(WORDS, words.join(" "))
        .current_dir("/")
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn()?;
    Ok(Launched {
        child,
        socket: ours,
        program,
    })
}
