//! Providers make and remove sandboxes. The engine decides, a provider does.

use std::collections::BTreeSet;
use std::fmt::Debug;

use innkeeper_proto::v1;
use innkeeper_proto::v1::execd_client::ExecdClient;
use tokio::sync::watch;
use tonic::transport::Channel;

use crate::template::form::Form;

pub mod local;

/// What an error of a provider means for the one who asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The daemon was not reached, or is going away. Whether the work was done is unknown.
    Unreachable,
    /// It was not done; trying again may help.
    Transient,
    /// It was not done; trying again will not help.
    Permanent,
}

/// A provider's call that failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// What it means.
    pub kind: ErrorKind,
    /// The cause, a sentence for people.
    pub message: String,
}

impl Error {
    /// An error with its parts.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }
}

impl From<tonic::Status> for Error {
    fn from(status: tonic::Status) -> Self {
        use tonic::Code;
        if let Some(source) = std::error::Error::source(&status) {
            let cause = crate::client::innermost(source);
            return Self::new(
                ErrorKind::Unreachable,
                format!("execd does not answer: {cause}"),
            );
        }
        let kind = match status.code() {
            Code::Unavailable | Code::Cancelled => ErrorKind::Unreachable,
            Code::ResourceExhausted | Code::Aborted | Code::DeadlineExceeded => {
                ErrorKind::Transient
            }
            Code::Ok
            | Code::Unknown
            | Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::Unimplemented
            | Code::Internal
            | Code::DataLoss
            | Code::Unauthenticated => ErrorKind::Permanent,
        };
        Self::new(kind, status.message())
    }
}

/// The daemons that a provider's slots live in, as of now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// The boot id of each daemon that runs. Slots of any other boot are gone.
    pub boots: BTreeSet<String>,
    /// The build of execd and the kernel, the same for all of them.
    pub platform: String,
}

/// A slot to be made: what it is for life.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSlot {
    /// Its name.
    pub slot: String,
    /// Whose it is.
    pub tenant: String,
    /// How it is made.
    pub form: Form,
    /// Its limits.
    pub resources: v1::Resources,
    /// Its network.
    pub network: v1::Network,
    /// Layers of the one image that it carries, bottom first; empty where it carries any.
    pub layers: Vec<String>,
}

/// Makes and removes sandboxes. Every call may be repeated: the same slot (and generation) is the
/// same piece of work, and doing it twice ends as doing it once.
///
/// Dropping a call's future does not undo it: the work may be done all the same.
#[tonic::async_trait]
pub trait Provider: Debug + Send + Sync + 'static {
    /// The word for it: local or kubernetes.
    fn name(&self) -> &'static str;

    /// The daemons; changes when one has started or ended. A slot's daemon is in it before its
    /// create is answered.
    fn standing(&self) -> watch::Receiver<Standing>;

    /// Why slots of this form cannot be made here, and what to do, as a sentence; None where
    /// they can.
    fn refusal(&self, form: Form) -> Option<String>;

    /// All slots that exist.
    async fn list(&self) -> Result<Vec<v1::SlotInfo>, Error>;

    /// Makes a slot; one that exists is fine. Answers with the boot id of its daemon.
    async fn create(&self, slot: &NewSlot) -> Result<String, Error>;

    /// Makes a sandbox of a template in a slot, in place of what is there.
    async fn specialise(
        &self,
        request: v1::SpecialiseRequest,
    ) -> Result<v1::SpecialiseReply, Error>;

    /// Whether a sandbox is what it should be.
    async fn health(&self, sandbox: v1::SandboxRef) -> Result<v1::HealthReply, Error>;

    /// Puts a sandbox back and observes it.
    async fn reset(&self, request: v1::ResetRequest) -> Result<v1::ResetReply, Error>;

    /// Removes a slot. Ok means that nothing of it is left.
    async fn destroy(&self, slot: &str) -> Result<(), Error>;

    /// A connection for commands and files in a slot, apart from the one that control calls use,
    /// so that a flood of output delays none of them.
    fn data(&self, slot: &str) -> Result<ExecdClient<Channel>, Error>;

    /// Says until when the latest of the leases may live, in milliseconds since the Unix epoch, so
    /// that no daemon whose manager died ends under one of them. Told in the background.
    fn hold(&self, until_ms: u64);

    /// Ends the daemons, whoever started them. Their slots must be gone before: they take the rest
    /// along.
    async fn stop(&self) -> Result<(), Error>;
}
