//! The daemon's hold on a pid 1 that stands by.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use serde::de::DeserializeOwned;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::SpawnError;
use super::build::{Dress, Said};
use super::wire;
use crate::inside::observe::Inside;
use crate::sys::watch;

/// A pid 1 with its namespaces and mounts, which waits for a root. It ends when this is
/// dropped.
#[derive(Debug)]
pub struct Standby {
    pid: i32,
    pidfd: OwnedFd,
    channel: AsyncFd<OwnedFd>,
}

/// Pid 1 of a sandbox.
#[derive(Debug)]
pub struct Init {
    /// Its pid on the host.
    pub pid: i32,
    /// Its pidfd.
    pub pidfd: OwnedFd,
    /// What it saw inside before anything of the guest ran.
    pub seen: Inside,
}

impl Standby {
    /// Waits until it says that it stands by.
    pub(super) async fn await_ready(
        pid: i32,
        pidfd: OwnedFd,
        channel: OwnedFd,
    ) -> Result<Self, SpawnError> {
        let channel = watch::watch(channel, Interest::READABLE)?;
        hear::<()>(&channel).await?;
        Ok(Self {
            pid,
            pidfd,
            channel,
        })
    }

    /// Gives it a root; answers when it is confined and has looked around. Not cancel safe:
    /// a caller that goes away must kill the sandbox's cgroup.
    ///
    /// # Errors
    /// [`SpawnError::Step`], [`SpawnError::Lost`]; it has ended then, or is ending.
    pub async fn dress(
        self,
        overlay: BorrowedFd<'_>,
        no_nested_users: bool,
    ) -> Result<Init, SpawnError> {
        let call = Dress { no_nested_users };
        wire::send(self.channel.get_ref().as_fd(), 0, &call, &[overlay])?;
        let seen = hear(&self.channel).await?;
        Ok(Init {
            pid: self.pid,
            pidfd: self.pidfd,
            seen,
        })
    }
}

/// Reads what it says. Once there is something, all of it is there: it is our own code, and
/// sends each message at once.
async fn hear<T: DeserializeOwned>(channel: &AsyncFd<OwnedFd>) -> Result<T, SpawnError> {
    let mut ready = channel.readable().await?;
    let said = wire::receive::<Said<T>>(channel.get_ref().as_fd())?;
    ready.clear_ready();
    match said {
        Some((_, Ok(said), _)) => Ok(said),
        Some((_, Err(failure), _)) => Err(failure.into()),
        None => Err(SpawnError::Step {
            step: "building a sandbox".to_owned(),
            source: std::io::Error::other("its pid 1 has ended"),
        }),
    }
}
