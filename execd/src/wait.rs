//! Ending a sandbox: kill all of it, and wait until nothing is left.

use std::time::Duration;

use tokio::io::Interest;

use crate::live::Live;
use crate::sys::{process, watch};

/// Kills everything in a sandbox and waits until the kernel says that nothing is left:
/// pid 1 has ended, and with it its pid namespace, and no entrant is in the group.
///
/// # Errors
/// A sentence when something is left at the end of `limit`.
pub async fn end(live: &Live, limit: Duration) -> Result<(), String> {
    live.fenced().cancel();
    kill(live)?;
    empty(live, limit).await
}

/// Kills without waiting.
///
/// # Errors
/// When the kernel refuses.
pub fn kill(live: &Live) -> Result<(), String> {
    live.group()
        .kill()
        .map_err(|e| format!("the group of {} cannot be killed: {e}", live.sandbox))?;
    // Already dead is as good.
    let _ = process::signal(live.init(), libc::SIGKILL);
    Ok(())
}

/// Waits until nothing is left.
///
/// # Errors
/// A sentence when something is left at the end of `limit`.
pub async fn empty(live: &Live, limit: Duration) -> Result<(), String> {
    let all = async {
        let pidfd = live
            .init()
            .try_clone_to_owned()
            .map_err(|e| e.to_string())?;
        let watched = watch::watch(pidfd, Interest::READABLE).map_err(|e| e.to_string())?;
        watched
            .readable()
            .await
            .map_err(|e| e.to_string())?
            .retain_ready();
        live.group().empty().await.map_err(|e| e.to_string())
    };
    match tokio::time::timeout(limit, all).await {
        Ok(done) => done,
        Err(_) => Err(format!(
            "processes of {} are left {limit:?} after they were killed",
            live.sandbox
        )),
    }
}
