//! The machine's own execd, with root's rights: it holds every slot of the layout `local`.

use std::sync::atomic::{AtomicUsize, Ordering};

use innkeeper_proto::v1;
use innkeeper_proto::v1::execd_client::ExecdClient;
use tokio::sync::{mpsc, oneshot, watch};
use tonic::transport::Channel;

use super::{Error, ErrorKind, NewSlot, Options, Standing, connect, keeper};
use crate::paths;

/// Connections for commands and files. One HTTP/2 connection is one task and one socket at each
/// end; four keep two cores busy and a burst from filling one socket's buffer for everybody.
const DATA_CHANNELS: usize = 4;

/// A connection to the machine's execd, which is kept running.
#[derive(Debug)]
pub(super) struct Machine {
    control: ExecdClient<Channel>,
    data: Vec<ExecdClient<Channel>>,
    next: AtomicUsize,
    boot: watch::Receiver<String>,
    keeper: mpsc::Sender<keeper::Stop>,
}

impl Machine {
    /// Finds the state directory's daemon or starts one, and waits until it answers.
    pub(super) async fn start(
        options: Options,
        standing: watch::Sender<Standing>,
        hold: watch::Receiver<u64>,
    ) -> Result<Self, Error> {
        let socket = paths::execd_socket(&options.state_dir);
        let control = connect(&socket)?;
        let data = (0..DATA_CHANNELS)
            .map(|_| connect(&socket))
            .collect::<Result<_, _>>()?;
        let (boot, keeper) = keeper::start(options, control.clone(), standing, hold).await?;
        Ok(Self {
            control,
            data,
            next: AtomicUsize::new(0),
            boot,
            keeper,
        })
    }

    /// For control calls.
    pub(super) fn control(&self) -> ExecdClient<Channel> {
        self.control.clone()
    }

    /// For commands and files.
    pub(super) fn data(&self) -> ExecdClient<Channel> {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        self.data[next % self.data.len()].clone()
    }

    /// Makes a slot in it; answers with its boot id.
    pub(super) async fn create(&self, slot: &NewSlot) -> Result<String, Error> {
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

    /// Ends it, whoever started it.
    pub(super) async fn stop(&self) -> Result<(), Error> {
        let (done, answer) = oneshot::channel();
        let gone = || Error::new(ErrorKind::Permanent, "the daemon's keeper is gone");
        self.keeper.send(done).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}
