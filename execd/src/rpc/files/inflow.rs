//! Data into a sandbox.

use std::os::fd::OwnedFd;

use bytes::Bytes;
use tokio::io::unix::AsyncFd;
use tonic::{Status, Streaming};

use super::{Place, outflow};
use crate::exec::{watched, write_all};
use crate::inside::Call;
use crate::inside::files::{FileAnswer, frames};

/// Why no more data is sent.
enum Stop {
    /// The call inside takes no more: its answer says why.
    Refused,
    /// The caller broke off.
    Caller(Status),
}

/// Runs a call and sends it the data of a stream in frames. Only a stream that ended as it
/// should gets the last frame.
pub(super) async fn send<M>(
    place: &Place,
    call: Call,
    mut inbound: Streaming<M>,
    data: impl Fn(M) -> Option<Bytes>,
) -> Result<FileAnswer, Status> {
    let (read, write) = outflow::pipe()?;
    let to = watched(write)
        .map_err(|error| Status::resource_exhausted(format!("cannot watch a pipe: {error}")))?;
    let pump = async move {
        loop {
            match inbound.message().await {
                Ok(Some(message)) => {
                    let bytes = data(message).unwrap_or_default();
                    frame(&to, &bytes).await?;
                }
                Ok(None) => {
                    // tonic shows a call that its caller cancelled as one that ended. The
                    // server looks for that whenever this has to wait, and drops it then;
                    // so waiting once tells the two apart.
                    tokio::task::yield_now().await;
                    return write_all(&to, &frames::END)
                        .await
                        .map_err(|_| Stop::Refused);
                }
                Err(status) => return Err(Stop::Caller(status)),
            }
        }
    };
    let answer = place.call(call, Some(read));
    tokio::pin!(answer, pump);
    let stop = tokio::select! {
        // An answer before the end of the data: the call failed, or its archive ended.
        answer = &mut answer => return answer,
        stop = &mut pump => stop,
    };
    let answer = answer.await;
    match stop {
        Err(Stop::Caller(status)) => Err(status),
        Ok(()) | Err(Stop::Refused) => answer,
    }
}

async fn frame(to: &AsyncFd<OwnedFd>, bytes: &[u8]) -> Result<(), Stop> {
    for piece in bytes.chunks(u32::MAX as usize) {
        let length = u32::try_from(piece.len()).map_err(|_| Stop::Refused)?;
        write_all(to, &frames::head(length))
            .await
            .map_err(|_| Stop::Refused)?;
        write_all(to, piece).await.map_err(|_| Stop::Refused)?;
    }
    Ok(())
}
