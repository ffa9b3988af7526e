//! The local provider: all slots of this machine live in one execd.
//!
//! A keeper task looks after the daemon: it starts one where none runs, pings it, notices its end
//! at once (by its pidfd) and starts another. A daemon's end takes all of its sandboxes with it,
//! which the engine learns from the changed boot id.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use innkeeper_proto::v1::execd_client::ExecdClient;
use innkeeper_proto::{limits, v1};
use tokio::sync::{mpsc, oneshot, watch};
use tonic::transport::Channel;

use super::{Error, ErrorKind, NewSlot, Provider, Standing};
use crate::template::form::Form;
use crate::template::{Rights, Strategy};
use crate::{client, paths};

mod keeper;
mod launch;

pub use launch::find_execd;

/// Connections for commands and files. One HTTP/2 connection is one task and one socket at each
/// end; four keep two cores busy and a burst from filling one socket's buffer for everybody.
const DATA_CHANNELS: usize = 4;

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

/// The local provider. Dropping it leaves the daemon running.
#[derive(Debug)]
pub struct Local {
    control: ExecdClient<Channel>,
    data: Vec<ExecdClient<Channel>>,
    next: AtomicUsize,
    standing: watch::Sender<Standing>,
    boot: watch::Receiver<String>,
    hold: watch::Sender<u64>,
    keeper: mpsc::Sender<keeper::Stop>,
}

impl Local {
    /// Finds the state directory's daemon or starts one, and waits until it answers.
    pub async fn start(options: Options) -> Result<Self, Error> {
        let socket = paths::execd_socket(&options.state_dir);
        let control = connect(&socket)?;
        let data = (0..DATA_CHANNELS)
            .map(|_| connect(&socket))
            .collect::<Result<_, _>>()?;
        let hold = watch::Sender::new(0);
        let standing = watch::Sender::default();
        let keeping = keeper::start(options, control.clone(), standing.clone(), hold.subscribe());
        let (boot, keeper) = keeping.await?;
        Ok(Self {
            control,
            data,
            next: AtomicUsize::new(0),
            standing,
            boot,
            hold,
            keeper,
        })
    }

    fn control(&self) -> ExecdClient<Channel> {
        self.control.clone()
    }
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
        match (form.strategy(), form.rights()) {
            (Strategy::Layered, Rights::Root) => None,
            (strategy, rights) => Some(format!(
                "strategy {} with rights {} cannot be run here: this version has no local pods",
                strategy.as_str(),
                rights.as_str()
            )),
        }
    }

    async fn list(&self) -> Result<Vec<v1::SlotInfo>, Error> {
        Ok(within(LIST, self.control().list_slots(v1::Empty {}))
            .await?
            .slots)
    }

    async fn create(&self, slot: &NewSlot) -> Result<String, Error> {
        // Read before the call: a daemon that is replaced during it has lost the slot, whichever
        // of the two answered.
        let boot = self.boot.borrow().clone();
        let request = v1::CreateSlotRequest {
            slot: slot.slot.clone(),
            tenant: slot.tenant.clone(),
        };
        self.control().create_slot(request).await?;
        Ok(boot)
    }

    async fn specialise(
        &self,
        request: v1::SpecialiseRequest,
    ) -> Result<v1::SpecialiseReply, Error> {
        Ok(self.control().specialise(request).await?.into_inner())
    }

    async fn health(&self, sandbox: v1::SandboxRef) -> Result<v1::HealthReply, Error> {
        within(HEALTH, self.control().health(sandbox)).await
    }

    async fn reset(&self, request: v1::ResetRequest) -> Result<v1::ResetReply, Error> {
        Ok(self.control().reset(request).await?.into_inner())
    }

    async fn destroy(&self, slot: &str) -> Result<(), Error> {
        let request = v1::SlotRef {
            slot: slot.to_owned(),
        };
        self.control().destroy_slot(request).await?;
        Ok(())
    }

    fn data(&self, _slot: &str) -> Result<ExecdClient<Channel>, Error> {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        Ok(self.data[next % self.data.len()].clone())
    }

    fn hold(&self, until_ms: u64) {
        self.hold.send_replace(until_ms);
    }

    async fn stop(&self) -> Result<(), Error> {
        let (done, answer) = oneshot::channel();
        let gone = || Error::new(ErrorKind::Permanent, "the daemon's keeper is gone");
        self.keeper.send(done).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}
