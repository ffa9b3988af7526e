//! The daemon's end of the spawner: requests out, answers to whoever waits for them.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thiserror::Error;
use tokio::io::Interest;
use tokio::sync::{oneshot, watch as latest};

use super::protocol::{CallMessage, Entry, ExecSpec, Reply, Request, StandBySpec};
use super::standby::Standby;
use super::wire;
use crate::inside;
use crate::live::{ExecGroup, Live};
use crate::pod;
use crate::sys::{channel, watch};

/// A running command.
#[derive(Debug)]
pub struct Started {
    /// Its pid as the guest sees it.
    pub guest_pid: i32,
    /// Its pidfd on the host.
    pub pidfd: OwnedFd,
    /// The master end of its terminal.
    pub terminal: Option<OwnedFd>,
    /// Its raw wait status, as the kernel gave it to its parent, the spawner.
    pub exit: oneshot::Receiver<i32>,
}

/// Why the spawner did not do what was asked.
#[derive(Debug, Error)]
pub enum SpawnError {
    /// The command could not be run; the exit code is the one that shells and Docker give.
    #[error("{message}")]
    NotStarted {
        /// 126 or 127.
        exit_code: i32,
        /// For people.
        message: String,
    },
    /// The sandbox is fenced or has ended.
    #[error("sandbox {sandbox} has ended")]
    Gone {
        /// SLOT.GENERATION.
        sandbox: String,
    },
    /// A step failed.
    #[error("{step} failed")]
    Step {
        /// What was being done.
        step: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// The spawner has ended, and every sandbox with it.
    #[error("the spawner has ended, and all sandboxes with it")]
    Lost,
}

impl From<io::Error> for SpawnError {
    fn from(source: io::Error) -> Self {
        Self::Step {
            step: "preparing a command".to_owned(),
            source,
        }
    }
}

/// A handle; clones share one spawner.
#[derive(Debug, Clone)]
pub struct Spawner(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    socket: OwnedFd,
    sending: Mutex<()>,
    next: AtomicU64,
    waiting: Mutex<HashMap<u64, Waiting>>,
    lost: latest::Sender<bool>,
}

#[derive(Debug)]
enum Waiting {
    Answer(oneshot::Sender<(Reply, Vec<OwnedFd>)>, oneshot::Sender<i32>),
    Exit(oneshot::Sender<i32>),
}

type Answer = (Reply, Vec<OwnedFd>, oneshot::Receiver<i32>);

impl Spawner {
    /// Takes the daemon's end of the socket and starts the thread that reads it.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn attach(socket: OwnedFd) -> io::Result<Self> {
        let inner = Arc::new(Inner {
            socket,
            sending: Mutex::new(()),
            next: AtomicU64::new(1),
            waiting: Mutex::new(HashMap::new()),
            lost: latest::Sender::new(false),
        });
        let reader = Arc::clone(&inner);
        std::thread::Builder::new()
            .name("spawner".to_owned())
            .spawn(move || reader.read())?;
        Ok(Self(inner))
    }

    /// Waits until the spawner has ended. Cancel safe.
    pub async fn lost(&self) {
        let mut lost = self.0.lost.subscribe();
        let _ = lost.wait_for(|lost| *lost).await;
    }

    /// A fresh user namespace and a network namespace of its own. Cancel safe: what a
    /// dropped caller asked for is closed when it comes.
    ///
    /// # Errors
    /// [`SpawnError::Step`], [`SpawnError::Lost`].
    pub async fn kit(&self, base: u32) -> Result<Vec<OwnedFd>, SpawnError> {
        let (_, fds, _) = self.ask(&Request::Kit { base }, &[]).await?;
        Ok(fds)
    }

    /// Makes a pid 1 that stands by. Cancel safe: it ends when its channel closes.
    ///
    /// # Errors
    /// [`SpawnError::Step`], [`SpawnError::Lost`].
    pub async fn stand_by(
        &self,
        spec: StandBySpec,
        fds: &[BorrowedFd<'_>],
    ) -> Result<Standby, SpawnError> {
        let (reply, fds, _) = self.ask(&Request::StandBy(spec), fds).await?;
        let mut fds = fds.into_iter();
        match (reply, fds.next(), fds.next()) {
            (Reply::Forked { pid }, Some(pidfd), Some(channel)) => {
                Standby::await_ready(pid, pidfd, channel).await
            }
            _ => Err(unexpected("building a sandbox")),
        }
    }

    /// Builds a sandbox in a pod: what its builder saw, the pid of its killer, and the
    /// descriptors of [`pod::Recipe`]. Cancel safe: what a dropped caller asked for has no
    /// process but the killer, which ends when its descriptors close.
    ///
    /// # Errors
    /// [`SpawnError::Step`], [`SpawnError::Lost`].
    pub async fn assemble(
        &self,
        recipe: pod::Recipe,
    ) -> Result<(pod::Seen, i32, Vec<OwnedFd>), SpawnError> {
        let (reply, fds, _) = self.ask(&Request::Assemble(recipe), &[]).await?;
        match reply {
            Reply::Assembled { killer, seen } => {
                let seen = serde_json::from_str(seen.get()).map_err(io::Error::from)?;
                Ok((seen, killer, fds))
            }
            _ => Err(unexpected("building a sandbox")),
        }
    }

    /// Waits until nothing is left in the pod but the daemon's own processes. Cancel safe.
    ///
    /// # Errors
    /// [`SpawnError::Step`], [`SpawnError::Lost`].
    pub async fn await_empty(&self) -> Result<(), SpawnError> {
        self.ask(&Request::AwaitEmpty, &[]).await.map(drop)
    }

    /// Runs a command. stdio is the command's ends; none with a terminal. Cancel safe: the
    /// command is then killed by its group when the caller drops it.
    ///
    /// # Errors
    /// [`SpawnError::NotStarted`] where the command is to blame, and all others.
    pub async fn exec(
        &self,
        live: &Live,
        group: &ExecGroup,
        spec: ExecSpec,
        stdio: Option<[OwnedFd; 3]>,
    ) -> Result<Started, SpawnError> {
        let joined = join(live, Some(group))?;
        let message = memory_file(&spec)?;
        let mut fds = joined.descriptors(live);
        fds.push(message.as_fd());
        fds.extend(stdio.iter().flatten().map(AsFd::as_fd));
        let (reply, fds, exit) = self.ask(&Request::Exec(joined.entry), &fds).await?;
        let mut fds = fds.into_iter();
        match (reply, fds.next()) {
            (Reply::Running { guest_pid, mark }, Some(pidfd)) => {
                group.marked(mark);
                Ok(Started {
                    guest_pid,
                    pidfd,
                    terminal: fds.next(),
                    exit,
                })
            }
            _ => Err(unexpected("running a command")),
        }
    }

    /// Runs a call of our own inside. Ends with `Gone` when the sandbox is fenced meanwhile.
    /// Cancel safe: the call ends by itself when its descriptors close, unless the guest has
    /// stopped it; then it ends with its group, where it has one, or with its sandbox.
    ///
    /// # Errors
    /// All of [`SpawnError`] but `NotStarted`.
    pub async fn call(
        &self,
        live: &Live,
        group: Option<&ExecGroup>,
        call: inside::Call,
        descriptors: Vec<OwnedFd>,
    ) -> Result<inside::Answer, SpawnError> {
        let joined = join(live, group)?;
        let step = |source| SpawnError::Step {
            step: "making a channel".to_owned(),
            source,
        };
        let (ours, theirs) = channel::pair().map_err(step)?;
        let message = CallMessage {
            entry: joined.entry,
            call,
            descriptors: descriptors.len(),
        };
        let mut fds = joined.descriptors(live);
        fds.push(theirs.as_fd());
        fds.extend(descriptors.iter().map(AsFd::as_fd));
        let (_, _, exit) = self.ask(&Request::Call(message), &fds).await?;
        drop(fds);
        drop((theirs, descriptors));
        // A thread is taken only once there is something to read: a guest can stop the call's
        // process, and must not tie up threads that other sandboxes need.
        let ours = watch::watch(ours, Interest::READABLE).map_err(step)?;
        let answer = async move {
            let _ = ours.readable().await;
            tokio::task::spawn_blocking(move || {
                let ours = ours.into_inner();
                wire::receive(ours.as_fd())
            })
            .await
        };
        tokio::select! {
            answer = answer => match answer {
                Ok(Ok(Some((_, answer, _)))) => {
                    // Gone before the answer is used, or an observation would see it.
                    let _ = exit.await;
                    Ok(answer)
                }
                _ => Err(SpawnError::Gone { sandbox: live.sandbox.clone() }),
            },
            () = live.fenced().cancelled_owned() => {
                Err(SpawnError::Gone { sandbox: live.sandbox.clone() })
            }
        }
    }

    async fn ask(&self, request: &Request, fds: &[BorrowedFd<'_>]) -> Result<Answer, SpawnError> {
        let (answer, answered) = oneshot::channel();
        let (exited, exit) = oneshot::channel();
        let id = self.0.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.0.waiting).insert(id, Waiting::Answer(answer, exited));
        let sent = {
            let _turn = lock(&self.0.sending);
            wire::send(self.0.socket.as_fd(), id, request, fds)
        };
        if let Err(source) = sent {
            lock(&self.0.waiting).remove(&id);
            return Err(SpawnError::Step {
                step: "asking the spawner".to_owned(),
                source,
            });
        }
        match answered.await {
            Ok((
                Reply::Failed {
                    step,
                    errno,
                    exit_code,
                },
                _,
            )) => Err(failed(step, errno, exit_code)),
            Ok((reply, fds)) => Ok((reply, fds, exit)),
            Err(_) => Err(SpawnError::Lost),
        }
    }
}

impl Inner {
    fn read(&self) {
        while let Ok(Some((id, reply, fds))) = wire::receive::<Reply>(self.socket.as_fd()) {
            let mut waiting = lock(&self.waiting);
            match (waiting.remove(&id), reply) {
                (Some(Waiting::Exit(exit)), Reply::Exited { status }) => {
                    let _ = exit.send(status);
                }
                (Some(Waiting::Answer(answer, exit)), reply) => {
                    if matches!(reply, Reply::Running { .. }) {
                        waiting.insert(id, Waiting::Exit(exit));
                    }
                    let _ = answer.send((reply, fds));
                }
                (Some(Waiting::Exit(_)) | None, _) => {}
            }
        }
        // Dropping the senders tells every waiting caller.
        lock(&self.waiting).clear();
        self.lost.send_replace(true);
    }
}

/// The cgroups of a command, opened for one request.
struct Joined {
    entry: Entry,
    groups: Vec<OwnedFd>,
}

impl Joined {
    fn descriptors<'a>(&'a self, live: &'a Live) -> Vec<BorrowedFd<'a>> {
        let mut fds = live.door();
        fds.extend(self.groups.iter().map(AsFd::as_fd));
        fds
    }
}

fn join(live: &Live, group: Option<&ExecGroup>) -> Result<Joined, SpawnError> {
    if live.fenced().is_cancelled() {
        return Err(SpawnError::Gone {
            sandbox: live.sandbox.clone(),
        });
    }
    let (entry, groups) = live.entry(group).map_err(|source| SpawnError::Step {
        step: "opening the sandbox's cgroups".to_owned(),
        source,
    })?;
    Ok(Joined { entry, groups })
}

/// A message in a file of its own, for the one process that is to read it.
fn memory_file(message: &ExecSpec) -> io::Result<OwnedFd> {
    let file = rustix::fs::memfd_create(c"command", rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut file = File::from(file);
    file.write_all(&serde_json::to_vec(message)?)?;
    Ok(file.into())
}

pub(super) fn failed(step: String, errno: i32, exit_code: i32) -> SpawnError {
    if exit_code == 0 {
        let source = if errno == 0 {
            io::Error::other("no further reason is known")
        } else {
            io::Error::from_raw_os_error(errno)
        };
        return SpawnError::Step { step, source };
    }
    let reason = io::Error::from_raw_os_error(errno).to_string();
    let reason = reason
        .split(" (os error")
        .next()
        .unwrap_or_default()
        .to_lowercase();
    SpawnError::NotStarted {
        exit_code,
        message: format!("{step}: {reason}"),
    }
}

fn unexpected(step: &str) -> SpawnError {
    SpawnError::Step {
        step: step.to_owned(),
        source: io::Error::from(io::ErrorKind::InvalidData),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
