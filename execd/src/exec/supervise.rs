//! Running one command from its start to its end.
//!
//! The end is that of its first process, whatever it leaves behind. Output that is in the
//! pipes by then is read to the last byte: a pipe has no memory of its writer, so an
//! end of file or nothing to read tells that all of it came. Somebody else who holds a pipe
//! gets a short grace, for `command > >(filter)` and its like; then the call returns, and
//! what the holder writes later is read and thrown away, so that it neither blocks nor
//! dies of a broken pipe.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use innkeeper_proto::limits;
use innkeeper_proto::v1::{ExecFinished, Stream};
use rustix::process::{Signal, pidfd_send_signal};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until};

use super::command::Command;
use super::outcome::{self, Ending, Killing};
use super::record::{Control, Exec, Wiring};
use super::stdio::{Now, Pipes, Sources, watched};
use super::{gone, stdin};
use crate::live::{ExecGroup, Live};
use crate::slots::Slots;
use crate::spawner::client::SpawnError;

/// What is killed is gone after this, or something is wrong with the kernel.
const DEATH: Duration = Duration::from_secs(10);

/// Exit code of a command that we, not it, are to blame for, as Docker gives it.
const OWN_FAILURE: i32 = 125;

/// A command that is killed while it is being started is killed again after this.
const AGAIN: Duration = Duration::from_millis(20);

/// Silence after which a pipe that is still held counts as held by a background process.
const SILENCE: Duration = Duration::from_millis(100);

/// Reading on after the end takes at most this, if a background process keeps writing ...
const GRACE: Duration = Duration::from_secs(1);

/// ... and what all pipes may have held at the end has been read: 1 MiB each, the most that
/// a process without privileges can make a pipe hold (pipe(7)).
const HELD_AT_END: usize = 2 * 1024 * 1024;

/// Runs a command; all that there is to know is in `exec.output` when this returns.
pub(super) async fn run(
    exec: Arc<Exec>,
    slots: Arc<Slots>,
    live: Arc<Live>,
    command: Command,
    wiring: Wiring,
) {
    let ending = match start(&exec, &slots, &live, command, wiring).await {
        Ok(running) => running.run().await,
        Err(ending) => ending,
    };
    exec.output.finish(ending);
    exec.done.cancel();
}

/// A command that runs.
struct Running {
    exec: Arc<Exec>,
    live: Arc<Live>,
    group: ExecGroup,
    sources: Sources,
    terminal: Option<OwnedFd>,
    pidfd: OwnedFd,
    exit: oneshot::Receiver<i32>,
    controls: mpsc::Receiver<Control>,
    deadline: Instant,
    /// Why it was killed while it was being started, if it was.
    killing: Option<Killing>,
    oom_kills: u64,
    buffer: Vec<u8>,
}

async fn start(
    exec: &Arc<Exec>,
    slots: &Slots,
    live: &Arc<Live>,
    command: Command,
    wiring: Wiring,
) -> Result<Running, Ending> {
    let lost =
        |what: &'static str| move |error: io::Error| Ending::Lost(format!("{what}: {error}"));
    let fenced = live.fenced();
    if fenced.is_cancelled() {
        return Err(Ending::Gone);
    }
    let group = live
        .exec_group()
        .map_err(lost("cannot make a control group"))?;
    let oom_kills = live.oom_kills();
    let mut pipes = match command.spec.terminal {
        Some(_) => None,
        None => {
            let made = Pipes::new(command.stdin, command.merge);
            Some(made.map_err(lost("cannot make pipes"))?)
        }
    };
    let stdio = pipes
        .take()
        .map(|pipes| (pipes.child, pipes.stdin, pipes.outputs));
    let (child, feed, outputs) = match stdio {
        Some((child, feed, outputs)) => (Some(child), feed, outputs),
        None => (None, None, Vec::new()),
    };
    let mut deadline = Instant::now() + command.timeout;
    let mut killing = None;
    // A guest can stop the command before it runs: time and cancel count from here on.
    let mut starting = Box::pin(slots.spawner().exec(live, &group, command.spec, child));
    let started = loop {
        let kill = tokio::select! {
            biased;
            () = fenced.cancelled() => {
                group.kill();
                return Err(Ending::Gone);
            }
            started = &mut starting => break started,
            () = exec.cancel.cancelled(), if killing.is_none() => Killing::Cancel,
            () = sleep_until(deadline) => match killing {
                None => Killing::Timeout,
                Some(_) => return Err(Ending::Lost(unkillable(live))),
            },
            // What was forked after the last kill has not heard it.
            () = sleep(AGAIN), if killing.is_some() => {
                group.kill();
                continue;
            }
        };
        killing = Some(kill);
        deadline = Instant::now() + DEATH;
        group.kill();
    };
    drop(starting);
    let started = match (started, killing) {
        (Ok(started), None) => started,
        (Ok(started), Some(_)) => {
            group.kill();
            started
        }
        (Err(SpawnError::Step { .. }), Some(_)) if !fenced.is_cancelled() => {
            return Err(Ending::Finished(outcome::finished(
                libc::SIGKILL,
                killing,
                false,
            )));
        }
        (Err(error), _) => return Err(refused(error, live)),
    };
    exec.output.start(started.guest_pid);
    let (sources, feed, terminal) = match started.terminal {
        None => (Sources::new(outputs), feed, None),
        Some(master) => {
            let copy = || master.try_clone().map_err(lost("cannot copy the terminal"));
            let feed = if command.stdin { Some(copy()?) } else { None };
            (
                Sources::new(vec![(copy()?, Stream::Merged)]),
                feed,
                Some(master),
            )
        }
    };
    let sources = sources.map_err(lost("cannot watch the output"))?;
    if let Some(feed) = feed {
        let feed = watched(feed).map_err(lost("cannot watch the input"))?;
        let done = exec.done.clone();
        tokio::spawn(stdin::feed(feed, wiring.stdin, terminal.is_some(), done));
    }
    Ok(Running {
        exec: exec.clone(),
        live: live.clone(),
        group,
        sources,
        terminal,
        pidfd: started.pidfd,
        exit: started.exit,
        controls: wiring.controls,
        deadline,
        killing,
        oom_kills,
        buffer: vec![0; limits::CHUNK],
    })
}

/// Why a command did not start.
fn refused(error: SpawnError, live: &Live) -> Ending {
    if let Some(sentence) = outcome::processes_used_up(&error) {
        return Ending::Finished(outcome::not_started(OWN_FAILURE, sentence.to_owned()));
    }
    match error {
        SpawnError::NotStarted { exit_code, message } => {
            Ending::Finished(outcome::not_started(exit_code, message))
        }
        SpawnError::Gone { .. } => Ending::Gone,
        SpawnError::Step { .. } | SpawnError::Lost => match live.fenced().is_cancelled() {
            true => Ending::Gone,
            false => Ending::Lost(error.to_string()),
        },
    }
}

impl Running {
    async fn run(mut self) -> Ending {
        let fenced = self.live.fenced();
        let cancel = self.exec.cancel.clone();
        let mut deadline = self.deadline;
        let mut killing = self.killing;
        let status = loop {
            let kill = tokio::select! {
                biased;
                () = fenced.cancelled() => {
                    self.group.kill();
                    return Ending::Gone;
                }
                status = &mut self.exit => break status,
                () = cancel.cancelled(), if killing.is_none() => Some(Killing::Cancel),
                () = sleep_until(deadline) => match killing {
                    None => Some(Killing::Timeout),
                    Some(_) => return Ending::Lost(unkillable(&self.live)),
                },
                Some(control) = self.controls.recv() => self.control(control),
                Some((stream, got)) = self.sources.read(&mut self.buffer),
                    if !self.sources.closed() =>
                {
                    self.exec.output.append(stream, &self.buffer[..got]).await;
                    None
                }
            };
            if let (Some(_), None) = (kill, killing) {
                killing = kill;
                deadline = Instant::now() + DEATH;
                self.group.kill();
            }
        };
        let Ok(status) = status else {
            return match fenced.is_cancelled() {
                true => Ending::Gone,
                false => Ending::Lost("the spawner ended; the outcome is unknown".to_owned()),
            };
        };
        if killing.is_some() {
            let dead = tokio::time::timeout_at(deadline, self.group.empty()).await;
            if dead.is_err() {
                return Ending::Lost(unkillable(&self.live));
            }
        }
        let oom_moved = self.live.oom_kills() > self.oom_kills;
        let done = outcome::finished(status, killing, oom_moved);
        tokio::select! {
            biased;
            () = fenced.cancelled() => Ending::Gone,
            pipe_held = self.drain() => {
                if pipe_held {
                    tokio::spawn(linger(self.sources, self.group, self.live));
                }
                Ending::Finished(ExecFinished { pipe_held, ..done })
            }
        }
    }

    /// Does what a caller asks; a reason to kill where that is it.
    fn control(&self, control: Control) -> Option<Killing> {
        match control {
            Control::Resize(rows, columns) => {
                if let Some(terminal) = &self.terminal {
                    let size = Winsize {
                        ws_row: rows,
                        ws_col: columns,
                        ws_xpixel: 0,
                        ws_ypixel: 0,
                    };
                    // It fails only when the terminal is gone.
                    let _ = tcsetwinsize(terminal.as_fd(), size);
                }
                None
            }
            Control::Signal(libc::SIGKILL) => Some(Killing::Cancel),
            Control::Signal(number) => {
                if let Some(signal) = Signal::from_named_raw(number) {
                    // It fails only when the process has ended.
                    let _ = pidfd_send_signal(&self.pidfd, signal);
                }
                None
            }
        }
    }

    /// Reads what is left in the pipes; true when somebody still holds one.
    async fn drain(&mut self) -> bool {
        let end = Instant::now() + GRACE;
        let mut read = 0;
        loop {
            let (stream, got) = match self.sources.read_now(&mut self.buffer) {
                Now::Closed => return false,
                Now::Got(stream, got) => (stream, got),
                Now::Nothing => {
                    let patience = (Instant::now() + SILENCE).min(end);
                    tokio::select! {
                        more = self.sources.read(&mut self.buffer) => match more {
                            None => return false,
                            Some(more) => more,
                        },
                        () = sleep_until(patience) => return true,
                    }
                }
            };
            self.exec.output.append(stream, &self.buffer[..got]).await;
            read += got;
            if read >= HELD_AT_END && Instant::now() >= end {
                return true;
            }
        }
    }
}

/// Reads what background processes write until nobody can any more, and throws it away.
async fn linger(mut sources: Sources, group: ExecGroup, live: Arc<Live>) {
    let mut buffer = vec![0; limits::CHUNK];
    let fenced = live.fenced();
    tokio::select! {
        () = fenced.cancelled() => {}
        () = async { while sources.read(&mut buffer).await.is_some() {} } => {}
    }
    drop(group);
}

fn unkillable(live: &Live) -> String {
    let seconds = DEATH.as_secs();
    if live.fenced().is_cancelled() {
        return gone(&live.sandbox);
    }
    format!("the command was killed and has not ended after {seconds} s; return the sandbox")
}
