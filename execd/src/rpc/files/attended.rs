//! One file call from its start to its answer, or to its end when nobody waits for it.
//!
//! A call ends by itself when its pipe closes. But the guest can stop its process, which then
//! hears of nothing: so it has a group of its own, which is killed when the caller leaves.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Place;
use crate::inside::{Answer, Call};
use crate::spawner::client::SpawnError;

/// A call that is killed while it is being started is killed again after this.
const AGAIN: Duration = Duration::from_millis(20);

/// Runs a call. Cancel safe: when the caller leaves, the call's processes are killed.
pub(super) async fn call(
    place: &Place,
    call: Call,
    pipes: Vec<OwnedFd>,
) -> Result<Answer, SpawnError> {
    let left = CancellationToken::new();
    let running = tokio::spawn(attend(place.clone(), call, pipes, left.clone()));
    let _leaving = left.drop_guard();
    match running.await {
        Ok(Some(answer)) => answer,
        Ok(None) => Err(failed(io::Error::from(io::ErrorKind::Interrupted))),
        Err(error) => Err(failed(io::Error::other(error))),
    }
}

/// The call's answer; none when its caller has left and it was ended.
async fn attend(
    place: Place,
    call: Call,
    pipes: Vec<OwnedFd>,
    left: CancellationToken,
) -> Option<Result<Answer, SpawnError>> {
    let Place { live, spawner } = place;
    let group = match live.exec_group() {
        Ok(group) => group,
        Err(error) => return Some(Err(failed(error))),
    };
    {
        let mut answer = Box::pin(spawner.call(&live, Some(&group), call, pipes));
        tokio::select! {
            answer = &mut answer => return Some(answer),
            () = left.cancelled() => group.kill(),
        }
        // What was forked after the last kill has not heard it.
        while tokio::time::timeout(AGAIN, &mut answer).await.is_err() {
            group.kill();
        }
    }
    // Not removed before that: a group with processes in it stays until its sandbox ends.
    group.empty().await;
    None
}

fn failed(source: io::Error) -> SpawnError {
    SpawnError::Step {
        step: "running a file call".to_owned(),
        source,
    }
}
