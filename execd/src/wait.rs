//! Ending a sandbox: kill all of it, and wait until nothing is left.

use std::time::Duration;

use crate::live::Live;

/// Kills everything in a sandbox and waits until the kernel says that nothing is left.
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
    live.kill()
        .map_err(|e| format!("the processes of {} cannot be killed: {e}", live.sandbox))
}

/// Waits until nothing is left.
///
/// # Errors
/// A sentence when something is left at the end of `limit`.
pub async fn empty(live: &Live, limit: Duration) -> Result<(), String> {
    match tokio::time::timeout(limit, live.empty()).await {
        Ok(done) => done.map_err(|e| e.to_string()),
        Err(_) => Err(format!(
            "processes of {} are left {limit:?} after they were killed",
            live.sandbox
        )),
    }
}
