//! The local provider: slots of this machine.
//!
//! With root's rights all slots live in the [`machine`]'s own execd. Slots of fewer rights, and
//! those whose strategy is for such, live in [`pods`] of their own, one each.
//!
//! A [`keeper`] task looks after the machine's daemon: it starts one where none runs, pings it,
//! notices its end at once (by its pidfd) and starts another. A daemon's end takes all of its
//! sandboxes with it, which the engine learns from the boot ids that stand.

use std::path::{Path, PathBuf};
use std::time::Duration;

use innkeeper_proto::v1::execd_client::ExecdClient;
use innkeeper_proto::{limits, v1};
use tokio::sync::watch;
use tonic::transport::Channel;

use super::{Error, ErrorKind, NewSlot, Provider, Standing};
use crate::template::Rights;
use crate::template::form::{Form, Layout};
use crate::{client, paths};

mod keeper;
mod launch;
mod machine;
mod pods;

pub use launch::find_execd;
use machine::Machine;
use pods::Pods;

/// How long a health check may take: it is on a lease's path, and a slot that is this slow is
/// better replaced.
const HEALTH: Duration = Duration::from_secs(5);

/// How long a listing may take.
const LIST: Duration = Duration::from_secs(30);

/// What the local provider is told.
#[derive(Debug, Clone)]
pub struct Options {
    /// The state directory that the daemon uses.
    pub state_dir: PathBuf,
    /// The daemon's program; None: beside this executable, or INNKEEPER_EXECD.
    pub execd: Option<PathBuf>,
    /// After how long without a manager the daemon ends itself.
    pub orphan_ttl: Duration,
}

/// The local provider. Dropping it leaves daemons and pods running.
#[derive(Debug)]
pub struct Local {
    /// The machine's daemon; None without root's rights.
    machine: Option<Machine>,
    pods: Pods,
    standing: watch::Sender<Standing>,
    hold: watch::Sender<u64>,
    /// Why an ordinary user can make no pods here; None where one can.
    missing: Option<String>,
}

impl Local {
    /// Finds the state directory's daemon or starts one, and waits until it answers; finds its
    /// pods. An ordinary user has pods only.
    pub async fn start(options: Options) -> Result<Self, Error> {
        let standing = watch::Sender::<Standing>::default();
        let hold = watch::Sender::new(0);
        let pods = Pods::start(options.clone(), standing.clone(), hold.clone()).await?;
        let (mut machine, mut missing) = (None, None);
        if paths::is_root() {
            let start = Machine::start(options, standing.clone(), hold.subscribe());
            machine = Some(start.await?);
        } else {
            let probe = pods.probe(Rights::User.as_str()).await?;
            standing.send_modify(|standing| standing.platform = probe.platform);
            missing = probe.missing;
        }
        Ok(Self {
            machine,
            pods,
            standing,
            hold,
            missing,
        })
    }

    /// The execd that holds a slot.
    fn control(&self, slot: &str) -> Result<ExecdClient<Channel>, Error> {
        match (self.pods.get(slot), &self.machine) {
            (Some(pod), _) => Ok(pod.control()),
            (None, Some(machine)) => Ok(machine.control()),
            (None, None) => Err(no_pod(slot)),
        }
    }
}

fn no_pod(slot: &str) -> Error {
    Error::new(ErrorKind::Permanent, format!("slot {slot} has no pod"))
}

/// A channel that connects when it is first used, and again after the daemon went away.
fn connect(socket: &Path) -> Result<ExecdClient<Channel>, Error> {
    let uri = format!("unix://{}", socket.display());
    let endpoint = client::endpoint(&uri).map_err(|error| {
        Error::new(
            ErrorKind::Permanent,
            format!("{uri} is no address: {error}"),
        )
    })?;
    Ok(ExecdClient::new(endpoint.connect_lazy())
        .max_decoding_message_size(limits::MESSAGE)
        .max_encoding_message_size(limits::MESSAGE))
}

/// Bounds a call; running out counts as not reached, since the work may still be done.
async fn within<T>(
    time: Duration,
    call: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>,
) -> Result<T, Error> {
    match tokio::time::timeout(time, call).await {
        Ok(reply) => Ok(reply?.into_inner()),
        Err(_) => Err(Error::new(
            ErrorKind::Unreachable,
            format!("execd did not answer within {} s", time.as_secs()),
        )),
    }
}

#[tonic::async_trait]
impl Provider for Local {
    fn name(&self) -> &'static str {
        "local"
    }

    fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.subscribe()
    }

    fn refusal(&self, form: Form) -> Option<String> {
        match (form.rights(), &self.machine) {
            (Rights::Root | Rights::Pod | Rights::Auto, Some(_)) => None,
            (Rights::User, None) => self.missing.clone(),
            (Rights::User, Some(_)) => Some(
                "rights user are an ordinary user's, and this manager is root: run innkeeper as \
                 that user, or write rights pod"
                    .to_owned(),
            ),
            (Rights::Root | Rights::Pod | Rights::Auto, None) => Some(format!(
                "rights {} need a manager that is root: run innkeeper as root, or write rights user",
                form.rights().as_str()
            )),
        }
    }

    async fn list(&self) -> Result<Vec<v1::SlotInfo>, Error> {
        let mut slots = self.pods.list().await;
        if let Some(machine) = &self.machine {
            let mut execd = machine.control();
            let list = within(LIST, execd.list_slots(v1::Empty {})).await?;
            slots.extend(list.slots);
        }
        Ok(slots)
    }

    async fn create(&self, slot: &NewSlot) -> Result<String, Error> {
        match (slot.form.layout(), &self.machine) {
            (Layout::Local, Some(machine)) => machine.create(slot).await,
            (Layout::Local, None) => Err(no_pod(&slot.slot)),
            (Layout::Mounted | Layout::Sliced | Layout::Plain, _) => self.pods.create(slot).await,
        }
    }

    async fn specialise(
        &self,
        request: v1::SpecialiseRequest,
    ) -> Result<v1::SpecialiseReply, Error> {
        if let Some(pod) = self.pods.get(&request.slot) {
            return self.pods.specialise(&pod, request).await;
        }
        let mut execd = self.control(&request.slot)?;
        Ok(execd.specialise(request).await?.into_inner())
    }

    async fn health(&self, sandbox: v1::SandboxRef) -> Result<v1::HealthReply, Error> {
        let mut execd = self.control(&sandbox.slot)?;
        within(HEALTH, execd.health(sandbox)).await
    }

    async fn reset(&self, request: v1::ResetRequest) -> Result<v1::ResetReply, Error> {
        let slot = request
            .sandbox
            .as_ref()
            .map(|sandbox| sandbox.slot.as_str());
        let mut execd = self.control(slot.unwrap_or_default())?;
        Ok(execd.reset(request).await?.into_inner())
    }

    async fn destroy(&self, slot: &str) -> Result<(), Error> {
        if self.pods.knows(slot) {
            return self.pods.destroy(slot).await;
        }
        if let Some(machine) = &self.machine {
            let request = v1::SlotRef {
                slot: slot.to_owned(),
            };
            machine.control().destroy_slot(request).await?;
        }
        Ok(())
    }

    fn data(&self, slot: &str) -> Result<ExecdClient<Channel>, Error> {
        match (self.pods.get(slot), &self.machine) {
            (Some(pod), _) => Ok(pod.data()),
            (None, Some(machine)) => Ok(machine.data()),
            (None, None) => Err(no_pod(slot)),
        }
    }

    fn hold(&self, until_ms: u64) {
        self.hold.send_replace(until_ms);
    }

    async fn stop(&self) -> Result<(), Error> {
        self.pods.stop().await?;
        match &self.machine {
            Some(machine) => machine.stop().await,
            None => Ok(()),
        }
    }
}
