//! Feeding a command.

use std::os::fd::OwnedFd;

use bytes::Bytes;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::stdio::write_all;

/// What a terminal takes as the end of input: control D, VEOF of a new terminal (termios(3)).
const END_OF_INPUT: u8 = 4;

/// Writes what comes until the caller ends it, the command closes its stdin, or `done`.
pub(super) async fn feed(
    to: AsyncFd<OwnedFd>,
    mut from: mpsc::Receiver<Bytes>,
    terminal: bool,
    done: CancellationToken,
) {
    let pump = async {
        while let Some(bytes) = from.recv().await {
            if write_all(&to, &bytes).await.is_err() {
                return;
            }
        }
        if terminal {
            // A failure means that the command is gone.
            let _ = write_all(&to, &[END_OF_INPUT]).await;
        }
    };
    tokio::select! {
        () = pump => {}
        () = done.cancelled() => {}
    }
}
