//! One file call from its start to its answer, or to its end when nobody waits for it.
//!
//! A call ends by itself when its pipe closes. But the guest can stop its process, which then
//! hears of nothing: so it has a group of its own, which is killed when it is still there a while
//! after the caller has left.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Place;
use crate::inside::{Answer, Call};
use crate::spawner::client::SpawnError;

/// How long a call may take to end by itself once its pipe has closed. It removes then what it
/// had begun, such as the file of an upload that was broken off.
const GRACE: Duration = Duration::from_secs(2);

/// A call that is killed while it is being started is killed again after this.
const AGAIN: Duration = Duration::from_millis(20);

/// Runs a call. Cancel safe: when the caller leaves, the call ends by itself, or is killed where
/// it does not.
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
            () = left.cancelled() => {}
        }
        if tokio::time::timeout(GRACE, &mut answer).await.is_ok() {
            return None;
        }
        group.kill();
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
