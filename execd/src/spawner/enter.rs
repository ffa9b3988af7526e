//! Bringing one process into a sandbox.
//!
//! A first child joins the cgroups and enters all namespaces in one call; it is not
//! dumpable from the start, so that nobody inside can look into it on the way
//! (the CVE-2016-9962 window). Its child, a sibling of it and so a child of the spawner,
//! is in the pid namespace; it closes every descriptor before it changes to a directory
//! of the guest's choice (the CVE-2024-21626 kind), drops to the guest's rights and execs,
//! or does one call of `inside`.

mod command;
mod failure;
mod user;

use std::fs::File;
use std::io::{self, BufReader, Seek};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::build::{drop_rights, join};
use super::protocol::{CallMessage, Door, Entry, ExecSpec};
use crate::inside;
use crate::plain;
use crate::pod;
use crate::sys::process::{self, Fork};
use crate::sys::{channel, seccomp::Filter};

pub use failure::Failure;

/// A command that is being brought in.
#[derive(Debug)]
pub struct Entrant {
    /// Where it says what became of it.
    pub channel: OwnedFd,
    /// Its pid on the host, once known.
    pub command: Option<i32>,
    /// The first child, which ends once the command is on its way; none where it is the
    /// command itself.
    first: Option<OwnedFd>,
    guest_pid: i32,
    mark: u32,
    terminal: Option<OwnedFd>,
}

/// What became of an entrant.
#[derive(Debug)]
pub enum News {
    /// It runs.
    Running {
        /// On the host.
        pid: i32,
        /// As the guest sees it.
        guest_pid: i32,
        /// Its pidfd.
        pidfd: OwnedFd,
        /// The master end of its terminal.
        terminal: Option<OwnedFd>,
        /// What it and all that it starts carry.
        mark: u32,
    },
    /// It never ran.
    Failed(Failure),
}

// What the entering processes say: a letter, then a number or a failure.
const PID: u8 = b'p';
const INSIDE: u8 = b'i';
const MARK: u8 = b'm';
const FAILED: u8 = b'f';

impl Entrant {
    /// Reads what there is to read; none while it is still on its way.
    pub fn news(&mut self) -> Option<News> {
        loop {
            let mut head = [0u8; 5];
            let mut fds = Vec::new();
            match channel::receive_all(self.channel.as_fd(), &mut head, &mut fds) {
                // Closed: by exec, or by an end that said nothing.
                Ok(false) => return Some(self.closed()),
                Err(error) => {
                    return Some(News::Failed(Failure::at("entering the sandbox")(error)));
                }
                Ok(true) => {}
            }
            let number = i32::from_le_bytes([head[1], head[2], head[3], head[4]]);
            match head[0] {
                PID => self.command = Some(number),
                MARK => self.mark = number as u32,
                INSIDE => {
                    self.guest_pid = number;
                    self.terminal = fds.pop();
                }
                _ => {
                    let mut said = vec![0; number.unsigned_abs().min(4096) as usize];
                    let _ = channel::receive_all(self.channel.as_fd(), &mut said, &mut Vec::new());
                    return Some(News::Failed(Failure::decode(&said)));
                }
            }
            if !readable(self.channel.as_fd()) {
                return None;
            }
        }
    }

    /// Whether this may be the entrant whose command has just ended, though its pid has not
    /// been read yet.
    pub fn is_unknown(&self) -> bool {
        self.command.is_none()
    }

    /// Waits for the next word. The first child says the pid or ends, and no guest can stop it.
    pub fn wait(&self) {
        wait_readable(self.channel.as_fd(), None);
    }

    fn closed(&mut self) -> News {
        let Some(pid) = self.command.filter(|_| self.guest_pid != 0) else {
            return News::Failed(Failure::new(
                "entering the sandbox: it has ended",
                libc::ESRCH,
            ));
        };
        if let Some(first) = &self.first {
            // Whoever looks at the sandbox now must not see the first child. It is ours to its
            // end and out of the guest's sight, so this wait is short.
            wait_readable(first.as_fd(), None);
        }
        match process::pidfd(pid) {
            Ok(pidfd) => News::Running {
                pid,
                guest_pid: self.guest_pid,
                pidfd,
                terminal: self.terminal.take(),
                mark: self.mark,
            },
            Err(error) => News::Failed(Failure::at("watching a command")(error)),
        }
    }
}

fn readable(fd: BorrowedFd<'_>) -> bool {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    wait_readable(fd, Some(&now))
}

fn wait_readable(fd: BorrowedFd<'_>, limit: Option<&Timespec>) -> bool {
    let mut watched = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    loop {
        match poll(&mut watched, limit) {
            Err(rustix::io::Errno::INTR) => {}
            other => return other.is_ok_and(|n| n > 0),
        }
    }
}

fn say(channel: BorrowedFd<'_>, what: u8, number: i32, fds: &[BorrowedFd<'_>]) {
    let mut message = [what, 0, 0, 0, 0];
    message[1..].copy_from_slice(&number.to_le_bytes());
    let _ = channel::send(channel, &message, fds);
}

fn say_failed(channel: BorrowedFd<'_>, failure: &Failure) {
    // One message: a guest that stops this process cannot leave half of it.
    let said = failure.encode();
    let mut message = vec![FAILED];
    message.extend((said.len() as i32).to_le_bytes());
    message.extend(said);
    let _ = channel::send(channel, &message, &[]);
}

/// Starts a command. Descriptors: the door, cgroups, the message, then stdio where no
/// terminal.
pub fn exec(entry: Entry, fds: Vec<OwnedFd>, filter: &Filter) -> Result<Entrant, Failure> {
    enter(entry, fds, |channel, mut rest| {
        if rest.is_empty() {
            let failure = Failure::new("receiving the descriptors of a command", libc::EBADMSG);
            fail(channel, &failure);
        }
        match read_message(rest.remove(0)) {
            Ok(message) => command::run(&message, rest, channel, filter),
            Err(error) => fail(channel, &Failure::at("reading the command")(error)),
        }
    })
}

fn read_message(file: OwnedFd) -> io::Result<ExecSpec> {
    let mut file = File::from(file);
    file.rewind()?;
    Ok(serde_json::from_reader(BufReader::new(file))?)
}

/// Starts a call of our own. Descriptors: the door, cgroups, the answer's channel,
/// then the call's.
pub fn call(message: CallMessage, fds: Vec<OwnedFd>, filter: &Filter) -> Result<Entrant, Failure> {
    enter(message.entry, fds, |channel, mut rest| {
        if rest.is_empty() {
            let failure = Failure::new("receiving the descriptors of a call", libc::EBADMSG);
            fail(channel, &failure);
        }
        if let Err(failure) = drop_rights(filter) {
            fail(channel, &failure);
        }
        let answers = rest.remove(0);
        say(channel, INSIDE, std::process::id() as i32, &[]);
        // Closes this process's end only: its parent may still have to say the pid.
        if let Err(error) = process::move_to(answers.as_fd(), channel.as_raw_fd()) {
            fail(
                channel,
                &Failure::at("closing the channel of a call")(error),
            );
        }
        let answer = inside::run(message.call, rest);
        let sent = super::wire::send(answers.as_fd(), 0, &answer, &[]);
        process::exit(i32::from(sent.is_err()))
    })
}

/// Tells a failure and ends this process.
fn fail(channel: BorrowedFd<'_>, failure: &Failure) -> ! {
    say_failed(channel, failure);
    process::exit(127)
}

/// Forks twice into the sandbox and runs `inside` there. It never returns: it ends by exec
/// or exit, so that no destructor of this process's past runs there.
fn enter(
    entry: Entry,
    mut fds: Vec<OwnedFd>,
    inside: impl FnOnce(BorrowedFd<'_>, Vec<OwnedFd>),
) -> Result<Entrant, Failure> {
    if fds.len() < entry.count() {
        return Err(Failure::new(
            "receiving the descriptors of a command",
            libc::EBADMSG,
        ));
    }
    let rest = fds.split_off(entry.count());
    let groups = fds.split_off(entry.door.count());
    let door = fds;
    let (ours, theirs) = channel::pair().map_err(Failure::at("making a channel"))?;
    let v2 = entry.cgroups.v2.then(|| groups[0].as_fd());
    // SAFETY: the spawner has one thread.
    #[allow(unsafe_code)]
    let fork = unsafe { process::fork(0, v2) }.map_err(Failure::at("forking into the cgroup"))?;
    match fork {
        Fork::Parent { pid, pidfd } => {
            let (first, command) = match entry.door {
                Door::Init => (Some(pidfd), None),
                Door::Spaces { .. } | Door::Stay => (None, Some(pid)),
            };
            Ok(Entrant {
                channel: ours,
                first,
                command,
                guest_pid: 0,
                mark: 0,
                terminal: None,
            })
        }
        Fork::Child => {
            drop(ours);
            let crossed = match entry.door {
                Door::Init => {
                    let tasks = &groups[usize::from(entry.cgroups.v2)..];
                    cross(door[0].as_fd(), tasks)
                }
                // A process of the same pid namespace: it goes on inside as it is.
                Door::Spaces { .. } => match pod::cross(&door) {
                    Ok(mark) => {
                        say(theirs.as_fd(), MARK, mark as i32, &[]);
                        go_on(theirs, rest, inside)
                    }
                    Err(failure) => Err(failure),
                },
                Door::Stay => match plain::enter() {
                    Ok(()) => {
                        say(theirs.as_fd(), MARK, std::process::id() as i32, &[]);
                        go_on(theirs, rest, inside)
                    }
                    Err(failure) => Err(failure),
                },
            };
            if let Err(failure) = crossed {
                say_failed(theirs.as_fd(), &failure);
                process::exit(1);
            }
            // SAFETY: this process has one thread.
            #[allow(unsafe_code)]
            match unsafe { process::fork_sibling() } {
                Ok(0) => go_on(theirs, rest, inside),
                Ok(pid) => {
                    say(theirs.as_fd(), PID, pid, &[]);
                    process::exit(0);
                }
                Err(error) => {
                    say_failed(theirs.as_fd(), &Failure::at("forking inside")(error));
                    process::exit(1);
                }
            }
        }
    }
}

/// Inside: nothing of the spawner's comes along.
fn go_on(
    channel: OwnedFd,
    rest: Vec<OwnedFd>,
    inside: impl FnOnce(BorrowedFd<'_>, Vec<OwnedFd>),
) -> ! {
    let mut kept: Vec<_> = rest.iter().map(AsFd::as_fd).collect();
    kept.push(channel.as_fd());
    if let Err(error) = process::close_all_but(&kept) {
        fail(channel.as_fd(), &Failure::at("closing descriptors")(error));
    }
    drop(kept);
    inside(channel.as_fd(), rest);
    process::exit(127)
}

/// Into the cgroups and all namespaces of the sandbox.
fn cross(init: BorrowedFd<'_>, tasks: &[OwnedFd]) -> Result<(), Failure> {
    process::set_dumpable(false).map_err(Failure::at("closing the entrant to tracing"))?;
    join(tasks)?;
    let all = process::NEW_USER
        | process::NEW_MOUNT
        | process::NEW_PID
        | process::NEW_IPC
        | process::NEW_UTS
        | process::NEW_NET
        | process::NEW_CGROUP;
    process::enter(init, all).map_err(Failure::at("entering the namespaces"))?;
    process::become_ids(0, 0, &[]).map_err(Failure::at("taking the guest's ids"))
}
