//! One pod that runs: the connection to its execd, and the task that looks after it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use innkeeper_proto::v1;
use innkeeper_proto::v1::execd_client::ExecdClient;
use rustix::process::{Signal, pidfd_send_signal};
use tokio::sync::watch;
use tonic::transport::Channel;

use super::record::{Processes, Record, Watched, ended};
use super::{Error, ErrorKind, Standing, connect, within};

/// How long a pod's execd may take to answer a ping.
const HELLO: Duration = Duration::from_secs(10);

/// How long it may take to end when asked to, and its parent to remove what it leaves.
const END: Duration = Duration::from_secs(10);

/// A pod that answers.
#[derive(Debug)]
pub(in crate::provider::local) struct Pod {
    /// Of its execd.
    pub(super) boot_id: String,
    control: ExecdClient<Channel>,
    data: ExecdClient<Channel>,
    processes: Processes,
}

impl Pod {
    /// Connects to the pod of a folder.
    pub(super) async fn attach(home: &Path) -> Result<Self, Error> {
        let gone = |what: &str| Error::new(ErrorKind::Transient, format!("the pod {what}"));
        let record = Record::read(home).ok_or_else(|| gone("is not there"))?;
        let processes = record.open();
        if processes.init.is_none() {
            return Err(gone("has ended"));
        }
        let socket = home.join("run/execd.sock");
        let control = connect(&socket)?;
        let hello = within(HELLO, control.clone().hello(v1::Empty {})).await?;
        Ok(Self {
            boot_id: hello.boot_id,
            control,
            data: connect(&socket)?,
            processes,
        })
    }

    /// For control calls.
    pub(in crate::provider::local) fn control(&self) -> ExecdClient<Channel> {
        self.control.clone()
    }

    /// For commands and files.
    pub(in crate::provider::local) fn data(&self) -> ExecdClient<Channel> {
        self.data.clone()
    }

    /// Counts the pod as standing until its end, and pings it meanwhile. The task ends with the
    /// pod or with the provider.
    pub(super) fn tend(
        self: &Arc<Self>,
        standing: watch::Sender<Standing>,
        mut hold: watch::Receiver<u64>,
        every: Duration,
    ) {
        standing.send_modify(|standing| {
            standing.boots.insert(self.boot_id.clone());
        });
        let pod = Arc::clone(self);
        tokio::spawn(async move {
            let mut ping = tokio::time::interval(every);
            ping.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            hold.mark_changed();
            loop {
                tokio::select! {
                    () = ended(pod.processes.init.as_ref()) => break,
                    _ = ping.tick() => {
                        if let Err(error) = within(HELLO, pod.control().hello(v1::Empty {})).await {
                            tracing::warn!(%error, "a pod was pinged in vain");
                        }
                    }
                    changed = hold.changed() => match changed {
                        Ok(()) => {
                            let until_ms = *hold.borrow_and_update();
                            let request = v1::HoldRequest { until_ms };
                            if let Err(error) = within(HELLO, pod.control().hold(request)).await {
                                tracing::warn!(%error, "a pod was not told how long leases last");
                            }
                        }
                        Err(_) => return,
                    }
                }
            }
            standing.send_modify(|standing| {
                standing.boots.remove(&pod.boot_id);
            });
        });
    }

    /// Ends the pod and waits until it and who waits for it are gone.
    pub(super) async fn end(&self) -> Result<(), Error> {
        end(self.processes.init.as_ref()).await?;
        await_parent(&self.processes).await
    }
}

/// Ends what a folder says of a pod, which need not answer.
pub(super) async fn end_recorded(home: &Path) -> Result<(), Error> {
    let Some(record) = Record::read(home) else {
        return Ok(());
    };
    let processes = record.open();
    end(processes.init.as_ref()).await?;
    await_parent(&processes).await
}

/// Asks first, then kills: the kernel ends all of a pod with its pid 1.
async fn end(init: Option<&Watched>) -> Result<(), Error> {
    let Some(init) = init else { return Ok(()) };
    for signal in [Signal::TERM, Signal::KILL] {
        match pidfd_send_signal(&init.signals, signal) {
            Ok(()) => {}
            Err(rustix::io::Errno::SRCH) => return Ok(()),
            Err(error) => {
                let sentence = format!("the pod could not be told to end: {error}");
                return Err(Error::new(ErrorKind::Transient, sentence));
            }
        }
        if tokio::time::timeout(END, ended(Some(init))).await.is_ok() {
            return Ok(());
        }
    }
    let sentence = format!("the pod did not end within {} s", 2 * END.as_secs());
    Err(Error::new(ErrorKind::Transient, sentence))
}

/// Its parent removes what the pod leaves; one that takes too long is left to the next sweep.
async fn await_parent(processes: &Processes) -> Result<(), Error> {
    let parent = ended(processes.parent.as_ref());
    tokio::time::timeout(END, parent).await.map_err(|_| {
        let sentence = "what the pod left could not be removed in time";
        Error::new(ErrorKind::Transient, sentence)
    })
}
