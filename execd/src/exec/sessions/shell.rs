//! One session's shell and the task that owns it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use innkeeper_proto::limits;
use innkeeper_proto::v1::{SessionResult, Stream};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::SessionError;
use super::script::{self, Marks};
use crate::exec::registry::new_name;
use crate::exec::stdio::{Now, Pipes, Sources, watched, write_all};
use crate::exec::{gone, outcome};
use crate::live::{ExecGroup, Live};
use crate::slots::Slots;
use crate::spawner::ExecSpec;
use crate::spawner::client::SpawnError;

/// A shell that has not taken its first command after this is none.
const GREETING: Duration = Duration::from_secs(10);

/// When all that a command started was killed, its shell says so within this, or it is
/// busy itself and the session ends.
const RECOVERY: Duration = Duration::from_secs(2);

/// Bytes of output in one result: it travels as one message.
const OUTPUT: usize = limits::MESSAGE - 64 * 1024;

/// A command that waits for its turn.
#[derive(Debug)]
pub(super) struct Run {
    pub command: Vec<u8>,
    pub timeout: Duration,
    pub reply: oneshot::Sender<SessionResult>,
}

/// A shell that takes commands.
#[derive(Debug)]
pub(super) struct Shell {
    live: Arc<Live>,
    group: Arc<ExecGroup>,
    stdin: AsyncFd<OwnedFd>,
    sources: Sources,
    marks: Sources,
    pidfd: OwnedFd,
    exit: oneshot::Receiver<i32>,
    /// Status of the last command.
    last: i32,
    output: Vec<u8>,
    truncated: bool,
    buffer: Vec<u8>,
}

/// How a command's turn ended.
enum Turn {
    /// With its mark.
    Status(i32),
    /// The shell ended, with this wait status; none where that is unknown.
    Ended(Option<i32>),
}

impl Shell {
    /// Starts the first of `shells` that exists and waits for its first mark.
    pub(super) async fn start(
        slots: &Slots,
        live: &Arc<Live>,
        shells: &[Vec<u8>],
        spec: ExecSpec,
    ) -> Result<Self, SessionError> {
        let mut missing = None;
        for path in shells {
            let shell = String::from_utf8_lossy(path).into_owned();
            let failed = |why: String| SessionError::Shell {
                shell: shell.clone(),
                why,
            };
            let spec = ExecSpec {
                argv: vec![path.clone()],
                ..spec.clone()
            };
            let group = live
                .exec_group()
                .map_err(|error| failed(step(error).to_string()))?;
            let group = Arc::new(group);
            let mut opening = Opening(Some(group.clone()));
            let spawned = timeout(GREETING, Self::spawn(slots, live, group, spec)).await;
            let seconds = GREETING.as_secs();
            match spawned.map_err(|_| failed(format!("it has not started in {seconds} s")))? {
                Ok(mut started) => {
                    started.greet().await.map_err(failed)?;
                    opening.0 = None;
                    return Ok(started);
                }
                Err(SpawnError::NotStarted {
                    exit_code: 127,
                    message,
                }) => {
                    missing = Some(failed(message));
                }
                Err(SpawnError::Gone { .. }) => {
                    return Err(SessionError::Gone(gone(&live.sandbox)));
                }
                Err(other) => {
                    let full = outcome::processes_used_up(&other).map(str::to_owned);
                    return Err(failed(full.unwrap_or_else(|| other.to_string())));
                }
            }
        }
        Err(missing.unwrap_or_else(|| SessionError::Invalid("no shell was named".to_owned())))
    }

    async fn spawn(
        slots: &Slots,
        live: &Arc<Live>,
        group: Arc<ExecGroup>,
        spec: ExecSpec,
    ) -> Result<Self, SpawnError> {
        let pipes = Pipes::new(true, true).map_err(step)?;
        let (marks, to_marks) = pipe_with(PipeFlags::CLOEXEC).map_err(step)?;
        let [stdin, stdout, _merged] = pipes.child;
        let stdio = [stdin, stdout, to_marks];
        let feed = pipes.stdin.ok_or_else(|| step(io::ErrorKind::BrokenPipe))?;
        let started = slots
            .spawner()
            .exec(live, &group, spec, Some(stdio))
            .await?;
        Ok(Self {
            live: live.clone(),
            group,
            stdin: watched(feed).map_err(step)?,
            sources: Sources::new(pipes.outputs).map_err(step)?,
            marks: Sources::new(vec![(marks, Stream::Unspecified)]).map_err(step)?,
            pidfd: started.pidfd,
            exit: started.exit,
            last: 0,
            output: Vec::new(),
            truncated: false,
            buffer: vec![0; limits::CHUNK],
        })
    }

    /// The first turn, which shows that this is a shell.
    async fn greet(&mut self) -> Result<(), String> {
        let fenced = self.live.fenced();
        let (mut reply, _result) = oneshot::channel();
        let turn = tokio::select! {
            () = fenced.cancelled() => return Err(gone(&self.live.sandbox)),
            turn = self.turn(script::PREPARE, b":", GREETING, &mut reply) => turn,
        };
        match turn {
            (Turn::Status(0), false) => Ok(()),
            (Turn::Status(_) | Turn::Ended(_), _) => {
                self.group.kill();
                let said = String::from_utf8_lossy(&self.output).into_owned();
                Err(format!(
                    "it does not take commands as a POSIX shell does: {said}"
                ))
            }
        }
    }

    /// Serves callers until the session is closed, its shell ends or its sandbox goes.
    pub(super) async fn serve(
        mut self,
        mut waiting: mpsc::Receiver<Run>,
        close: CancellationToken,
    ) {
        let fenced = self.live.fenced();
        tokio::select! {
            () = fenced.cancelled() => {}
            () = close.cancelled() => {
                self.group.kill();
                self.group.empty().await;
            }
            () = self.take_turns(&mut waiting) => {}
        }
    }

    async fn take_turns(&mut self, waiting: &mut mpsc::Receiver<Run>) {
        loop {
            tokio::select! {
                run = waiting.recv() => match run {
                    None => return,
                    Some(run) if run.reply.is_closed() => {}
                    Some(run) => if !self.run(run).await {
                        return;
                    },
                },
                // Between commands too, so that no background process is held up.
                Some((_, got)) = self.sources.read(&mut self.buffer), if !self.sources.closed() => {
                    self.keep(got);
                }
                _ = &mut self.exit => return,
            }
        }
    }

    /// One command; false when the session has ended with it.
    async fn run(&mut self, run: Run) -> bool {
        let Run {
            command,
            timeout,
            mut reply,
        } = run;
        let (turn, timed_out) = self.turn(b"", &command, timeout, &mut reply).await;
        let (exit_code, ended) = match turn {
            Turn::Status(status) => {
                self.last = status;
                (Some(status), false)
            }
            Turn::Ended(status) => (
                status
                    .filter(|status| status & 0x7f == 0)
                    .map(|status| (status >> 8) & 0xff),
                true,
            ),
        };
        let result = SessionResult {
            exit_code: exit_code.filter(|_| !timed_out),
            output: std::mem::take(&mut self.output).into(),
            timed_out,
            ended,
            truncated: std::mem::take(&mut self.truncated),
        };
        // Nobody waits any more: the command was killed for that already.
        let _ = reply.send(result);
        !ended
    }

    /// Runs one command to its mark. True beside it when its time was up, or its caller
    /// went away.
    async fn turn(
        &mut self,
        before: &[u8],
        command: &[u8],
        timeout: Duration,
        reply: &mut oneshot::Sender<SessionResult>,
    ) -> (Turn, bool) {
        let Ok(token) = new_name() else {
            return (Turn::Ended(None), false);
        };
        let text = [before, &script::wrap(command, self.last, &token)].concat();
        let mut found = Marks::default();
        let mut mark = [0; 512];
        let mut deadline = Instant::now() + timeout;
        let mut killed = false;
        let mut written = false;
        let Self {
            stdin,
            sources,
            marks,
            exit,
            buffer,
            ..
        } = self;
        let write = write_all(stdin, &text);
        tokio::pin!(write);
        let mut kept = Kept {
            output: &mut self.output,
            truncated: &mut self.truncated,
        };
        let turn = loop {
            tokio::select! {
                _ = &mut write, if !written => written = true,
                Some((_, got)) = marks.read(&mut mark), if !marks.closed() => {
                    if let Some(status) = found.take(&mark[..got], &token) {
                        break Turn::Status(status);
                    }
                }
                Some((_, got)) = sources.read(buffer), if !sources.closed() => {
                    kept.add(&buffer[..got]);
                }
                status = &mut *exit => break Turn::Ended(status.ok()),
                () = reply.closed(), if !killed => {
                    killed = true;
                    deadline = Instant::now() + RECOVERY;
                    kill_others(&self.group, &self.pidfd).await;
                }
                () = sleep_until(deadline) => {
                    if killed {
                        self.group.kill();
                        break Turn::Ended(None);
                    }
                    killed = true;
                    deadline = Instant::now() + RECOVERY;
                    kill_others(&self.group, &self.pidfd).await;
                }
            }
        };
        // The mark was written after the command's output, so all of that is there; what
        // background processes add meanwhile must not keep us.
        let mut left = 2 * 1024 * 1024;
        while let Now::Got(_, got) = sources.read_now(buffer) {
            kept.add(&buffer[..got]);
            left -= got.min(left);
            if left == 0 {
                break;
            }
        }
        (turn, killed)
    }

    fn keep(&mut self, got: usize) {
        let mut kept = Kept {
            output: &mut self.output,
            truncated: &mut self.truncated,
        };
        kept.add(&self.buffer[..got]);
    }
}

/// Kills a shell that has not taken its first command when this is dropped: its time was up,
/// or its caller went away. A guest can stop a shell even before it runs.
struct Opening(Option<Arc<ExecGroup>>);

impl Drop for Opening {
    fn drop(&mut self) {
        if let Some(group) = &self.0 {
            group.kill();
        }
    }
}

fn step(source: impl Into<io::Error>) -> SpawnError {
    SpawnError::Step {
        step: "making the pipes of a session".to_owned(),
        source: source.into(),
    }
}

/// The output of one turn, up to its bound.
struct Kept<'a> {
    output: &'a mut Vec<u8>,
    truncated: &'a mut bool,
}

impl Kept<'_> {
    fn add(&mut self, bytes: &[u8]) {
        let room = OUTPUT - self.output.len();
        *self.truncated |= bytes.len() > room;
        self.output
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

/// Kills all of a group but its shell. A process is killed by a descriptor that was opened
/// between two sights of it in the group, so never one that only got its number.
async fn kill_others(group: &ExecGroup, shell: &OwnedFd) {
    let Ok(shell) = host_pid(shell) else {
        group.kill();
        return;
    };
    let others = || -> io::Result<Vec<i32>> {
        Ok(group
            .pids()?
            .into_iter()
            .filter(|pid| *pid != shell)
            .collect())
    };
    for _ in 0..50 {
        let Ok(seen) = others() else { return };
        if seen.is_empty() {
            return;
        }
        let opened: Vec<_> = seen
            .into_iter()
            .filter_map(|pid| {
                Some((
                    pid,
                    pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?,
                ))
            })
            .collect();
        let Ok(still) = others() else { return };
        for (pid, pidfd) in &opened {
            if still.contains(pid) {
                // It fails only for one that has ended.
                let _ = pidfd_send_signal(pidfd, Signal::KILL);
            }
        }
        sleep(Duration::from_millis(2)).await;
    }
    group.kill();
}

/// The pid of a pidfd's process as we see it (fdinfo of proc(5)).
fn host_pid(pidfd: &OwnedFd) -> io::Result<i32> {
    let path = format!("/proc/self/fdinfo/{}", pidfd.as_fd().as_raw_fd());
    let text = std::fs::read_to_string(path)?;
    let pid = text
        .lines()
        .find_map(|line| line.strip_prefix("Pid:")?.trim().parse().ok());
    pid.filter(|pid| *pid > 0)
        .ok_or(io::ErrorKind::NotFound.into())
}
