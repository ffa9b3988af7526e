//! Every raw system call of the daemon, and the only place with unsafe code. Each
//! function wraps one call or one indivisible sequence and returns `io::Result`.
#![allow(unsafe_code)]

pub mod caps;
pub mod channel;
pub mod ipc;
pub mod loopback;
pub mod memfd;
pub mod mount;
pub mod process;
pub mod seccomp;
pub mod terminal;
pub mod watch;

use std::io;

/// The result of a libc call that answers -1 and errno.
pub(crate) fn check(result: i64) -> io::Result<i64> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
