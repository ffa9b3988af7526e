//! A child for each operation.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};

use super::Outcome;
use super::deed::{After, Arguments, Deed};
use super::sys;

/// How long an operation may take: long enough to fill what may be filled, short enough that one
/// which waits for ever does not fill the rollout.
const PATIENCE: Timespec = Timespec {
    tv_sec: 4,
    tv_nsec: 0,
};

/// Does one operation in a child and says how it went.
pub(super) fn play(deed: Deed, arguments: Arguments<'_>) -> Outcome {
    let Ok((read, write)) = io::pipe() else {
        return Outcome::Unplayed;
    };
    match sys::fork() {
        Err(_) => Outcome::Unplayed,
        Ok(None) => {
            drop(read);
            child(
                deed,
                &arguments,
                File::from(std::os::fd::OwnedFd::from(write)),
            )
        }
        Ok(Some(child)) => {
            drop(write);
            watch(child, File::from(std::os::fd::OwnedFd::from(read)))
        }
    }
}

fn child(deed: Deed, arguments: &Arguments<'_>, mut report: File) -> ! {
    let (number, after) = match deed(arguments) {
        Ok(after) => (0, after),
        Err(error) => (error.raw_os_error().unwrap_or(libc::EIO), After::End),
    };
    if after == After::Stay {
        sys::close_standard();
    }
    let told = report.write_all(&number.to_ne_bytes());
    drop(report);
    match (after, told) {
        (After::Stay, Ok(())) => sys::stay(),
        (After::Stay | After::End, _) => sys::end(0),
    }
}

fn watch(child: Pid, mut report: File) -> Outcome {
    let Ok(handle) = rustix::process::pidfd_open(child, PidfdFlags::empty()) else {
        return Outcome::Died;
    };
    let mut both = [
        PollFd::new(&report, PollFlags::IN),
        PollFd::new(&handle, PollFlags::IN),
    ];
    let waited = poll(&mut both, Some(&PATIENCE));
    let told = both[0].revents().contains(PollFlags::IN);
    let ended = both[1].revents().contains(PollFlags::IN);
    let outcome = match waited {
        Ok(_) if told => outcome(&mut report),
        Ok(_) if ended => Outcome::Died,
        Ok(_) | Err(_) => {
            let _ = rustix::process::pidfd_send_signal(handle.as_fd(), Signal::KILL);
            Outcome::Hung
        }
    };
    // One that stays is left to the sandbox's first process; one that ends is soon reaped, here or there.
    let _ = rustix::process::waitpid(Some(child), WaitOptions::NOHANG);
    outcome
}

fn outcome(report: &mut File) -> Outcome {
    let mut number = [0; 4];
    match report
        .read_exact(&mut number)
        .map(|()| i32::from_ne_bytes(number))
    {
        Ok(0) => Outcome::Done,
        Ok(number) => Outcome::Refused(number),
        Err(_) => Outcome::Died,
    }
}
