//! Keeps one execd running: finds or starts it, pings it, starts another when it has ended.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use innkeeper_proto::v1;
use innkeeper_proto::v1::execd_client::ExecdClient;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::sync::{mpsc, oneshot, watch};
use tonic::transport::Channel;

use super::launch::{Launched, find_execd, launch};
use super::{Error, ErrorKind, Options, Standing, within};

/// How often the daemon hears of its manager; well below the shortest sensible orphan ttl.
const PING: Duration = Duration::from_secs(30);

/// How long a ping may take before it is reported. It ends nothing: only the daemon's exit does.
const HELLO: Duration = Duration::from_secs(10);

/// How long a daemon may take to answer its first call. It sweeps what an earlier one left, on a
/// disk that may be busy.
const READY: Duration = Duration::from_secs(60);

/// How long a daemon may take to end when asked to; it removes what is left of its slots.
const END: Duration = Duration::from_secs(30);

/// Pauses between looks at a daemon that is starting: it takes some 10 ms.
const LOOK: Duration = Duration::from_millis(5);

/// Pause before a daemon that ended is started again, doubled each time it fails.
const RESTART: Duration = Duration::from_millis(200);

/// The longest such pause.
const RESTART_MAX: Duration = Duration::from_secs(30);

pub(super) type Stop = oneshot::Sender<Result<(), Error>>;

struct Keeper {
    execd: Result<PathBuf, Error>,
    options: Options,
    control: ExecdClient<Channel>,
    /// The boot id of the daemon that runs; empty where none does.
    boot: watch::Sender<String>,
    standing: watch::Sender<Standing>,
    /// The latest end of a lease.
    hold: watch::Receiver<u64>,
}

/// A daemon that answers.
struct Running {
    hello: v1::HelloReply,
    pidfd: Arc<OwnedFd>,
    /// Resolves at its end.
    ended: oneshot::Receiver<()>,
}

/// Makes a daemon answer, then keeps one running in a task that ends with the provider.
pub(super) async fn start(
    options: Options,
    control: ExecdClient<Channel>,
    standing: watch::Sender<Standing>,
    hold: watch::Receiver<u64>,
) -> Result<(watch::Receiver<String>, mpsc::Sender<Stop>), Error> {
    let execd = find_execd(options.execd.as_deref());
    let mut keeper = Keeper {
        execd,
        options,
        control,
        boot: watch::Sender::default(),
        standing,
        hold,
    };
    let running = keeper.make_run().await?;
    let boot = keeper.boot.subscribe();
    let (stop, stops) = mpsc::channel(1);
    tokio::spawn(keeper.keep(running, stops));
    Ok((boot, stop))
}

impl Keeper {
    async fn hello(&self) -> Result<v1::HelloReply, Error> {
        within(HELLO, self.control.clone().hello(v1::Empty {})).await
    }

    /// The daemon that runs, or a new one; tells its boot id once it answers.
    async fn make_run(&mut self) -> Result<Running, Error> {
        let hello = match self.hello().await {
            Ok(hello) => hello,
            Err(_) => self.launch().await?,
        };
        let (pidfd, ended) = watch_pid(hello.pid)?;
        let running = Running {
            hello,
            pidfd,
            ended,
        };
        self.boot.send_replace(running.hello.boot_id.clone());
        self.standing.send_modify(|standing| {
            standing.boots.insert(running.hello.boot_id.clone());
            standing.platform.clone_from(&running.hello.platform);
        });
        Ok(running)
    }

    /// Says how long the daemon is needed at least. Said again at the next change or start.
    async fn tell_hold(&mut self) {
        let until_ms = *self.hold.borrow_and_update();
        let request = v1::HoldRequest { until_ms };
        if let Err(error) = within(HELLO, self.control.clone().hold(request)).await {
            tracing::warn!(%error, "execd was not told how long leases last");
        }
    }

    /// At least three pings per orphan ttl.
    fn ping_every(&self) -> Duration {
        (self.options.orphan_ttl / 3).clamp(LOOK, PING)
    }

    async fn launch(&self) -> Result<v1::HelloReply, Error> {
        let execd = self.execd.clone()?;
        let Options {
            state_dir,
            orphan_ttl,
            ..
        } = &self.options;
        let mut launched = launch(&execd, state_dir, *orphan_ttl)?;
        let answered = tokio::time::timeout(READY, self.first_hello(&mut launched)).await;
        let Launched { mut child, .. } = match answered {
            Ok(Ok(hello)) => {
                // Only to take its exit status when it ends, so that no zombie is left.
                tokio::spawn(async move { launched.child.wait().await });
                return Ok(hello);
            }
            Ok(Err(error)) => return Err(error),
            Err(_) => launched,
        };
        // It is this manager's own child and has answered nobody: no sandbox is in it.
        let _ = child.kill().await;
        let message = format!(
            "execd did not answer within {} s of its start",
            READY.as_secs()
        );
        Err(Error::new(ErrorKind::Transient, message))
    }

    async fn first_hello(&self, launched: &mut Launched) -> Result<v1::HelloReply, Error> {
        loop {
            if let Ok(hello) = self.hello().await {
                return Ok(hello);
            }
            match launched.child.try_wait() {
                // It found another one running, which will answer.
                Ok(Some(status)) if status.success() => {}
                Ok(Some(status)) => {
                    let said = launched.said();
                    let message = format!("execd ended as it started ({status}): {said}");
                    return Err(Error::new(ErrorKind::Permanent, message));
                }
                Ok(None) | Err(_) => {}
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn keep(mut self, mut running: Running, mut stops: mpsc::Receiver<Stop>) {
        let mut pause = RESTART;
        let mut ping = tokio::time::interval(self.ping_every());
        ping.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = &mut running.ended => {
                    tracing::error!(pid = running.hello.pid, "execd ended; its sandboxes are lost");
                    // Told first: whatever was in it is gone now, whether or not another can be
                    // started.
                    self.boot.send_replace(String::new());
                    self.standing.send_modify(|standing| {
                        standing.boots.remove(&running.hello.boot_id);
                    });
                    let Some(next) = self.run_again(&mut pause, &mut stops).await else { return };
                    running = next;
                }
                _ = ping.tick() => match self.hello().await {
                    Ok(_) => pause = RESTART,
                    Err(error) => tracing::warn!(%error, "execd was pinged in vain"),
                },
                changed = self.hold.changed() => match changed {
                    Ok(()) => self.tell_hold().await,
                    Err(_) => return,
                },
                stop = stops.recv() => {
                    let Some(stop) = stop else { return };
                    let result = end(running).await;
                    // Whoever asked has gone when this fails; there is nobody else to tell.
                    let _ = stop.send(result);
                    return;
                }
            }
        }
    }

    /// Tries until a daemon runs; None where the provider is given up meanwhile.
    async fn run_again(
        &mut self,
        pause: &mut Duration,
        stops: &mut mpsc::Receiver<Stop>,
    ) -> Option<Running> {
        loop {
            tokio::select! {
                () = tokio::time::sleep(*pause) => {}
                stop = stops.recv() => {
                    if let Some(stop) = stop {
                        let _ = stop.send(Ok(()));
                    }
                    return None;
                }
            }
            *pause = (*pause * 2).min(RESTART_MAX);
            match self.make_run().await {
                Ok(running) => return Some(running),
                Err(error) => tracing::error!(%error, "execd could not be started again"),
            }
        }
    }
}

/// Watches a process that need not be a child, from a thread of its own: it sleeps in the kernel
/// until the process ends, or, looking every second, until nobody listens any more.
fn watch_pid(pid: i32) -> Result<(Arc<OwnedFd>, oneshot::Receiver<()>), Error> {
    let failed = |what: String| {
        Error::new(
            ErrorKind::Transient,
            format!("execd (pid {pid}) cannot be watched: {what}"),
        )
    };
    let id = Pid::from_raw(pid).ok_or_else(|| failed("it did not say its pid".to_owned()))?;
    let pidfd = pidfd_open(id, PidfdFlags::empty()).map_err(|error| failed(error.to_string()))?;
    let pidfd = Arc::new(pidfd);
    let (ended, watcher) = oneshot::channel();
    let watched = Arc::clone(&pidfd);
    std::thread::Builder::new()
        .name("execd-watch".to_owned())
        .spawn(move || {
            let second = rustix::event::Timespec {
                tv_sec: 1,
                tv_nsec: 0,
            };
            while !ended.is_closed() {
                let mut fds = [PollFd::new(&*watched, PollFlags::IN)];
                match poll(&mut fds, Some(&second)) {
                    Ok(0) | Err(rustix::io::Errno::INTR) => {}
                    Ok(_) | Err(_) => {
                        let _ = ended.send(());
                        return;
                    }
                }
            }
        })
        .map_err(|error| failed(error.to_string()))?;
    Ok((pidfd, watcher))
}

async fn end(running: Running) -> Result<(), Error> {
    let failed = |what: String| Error::new(ErrorKind::Transient, format!("execd {what}"));
    match pidfd_send_signal(&*running.pidfd, Signal::TERM) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
        Err(error) => return Err(failed(format!("could not be told to end: {error}"))),
    }
    match tokio::time::timeout(END, running.ended).await {
        Ok(_) => Ok(()),
        Err(_) => Err(failed(format!("did not end within {} s", END.as_secs()))),
    }
}
