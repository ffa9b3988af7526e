//! Providers make and remove sandboxes. The engine decides, a provider does.

use std::fmt::Debug;

use innkeeper_proto::v1;
use innkeeper_proto::v1::execd_client::ExecdClient;
use tokio::sync::watch;
use tonic::transport::Channel;

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

/// The daemon that a provider's slots live in, as of now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Daemon {
    /// Changes with every start; slots of another boot are gone.
    pub boot_id: String,
    /// How it puts sandboxes back.
    pub strategy: String,
    /// With whose rights.
    pub rights: String,
    /// Its build and the kernel.
    pub platform: String,
}

/// Makes and removes sandboxes. Every call may be repeated: the same slot (and generation) is the
/// same piece of work, and doing it twice ends as doing it once.
///
/// Dropping a call's future does not undo it: the work may be done all the same.
#[tonic::async_trait]
pub trait Provider: Debug + Send + Sync + 'static {
    /// The word for it: local or kubernetes.
    fn name(&self) -> &'static str;

    /// The daemon; changes when it was started anew and all of its slots are gone.
    fn daemon(&self) -> watch::Receiver<Daemon>;

    /// All slots that exist.
    async fn list(&self) -> Result<Vec<v1::SlotInfo>, Error>;

    /// Makes a slot; one that exists is fine.
    async fn create(&self, slot: &str, tenant: &str) -> Result<v1::SlotInfo, Error>;

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
    /// that a daemon whose manager died does not end under one of them. Told in the background.
    fn hold(&self, until_ms: u64);

    /// Ends the daemon, whoever started it. Its slots must be gone before: it takes the rest along.
    async fn stop(&self) -> Result<(), Error>;
}
