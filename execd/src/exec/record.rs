//! One command, as its callers hold it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use innkeeper_proto::v1::TerminalSize;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::output::Output;

/// Pieces of stdin that wait for the command; each is at most one message.
const STDIN_PIECES: usize = 2;

/// Signals and resizes that wait for the command to be started.
const CONTROLS: usize = 16;

/// A command that runs or has ended.
#[derive(Debug)]
pub struct Exec {
    /// Its name among those of its sandbox.
    pub id: String,
    /// Everything it says.
    pub output: Output,
    /// Cancelled when the command is to be killed.
    pub(super) cancel: CancellationToken,
    /// Cancelled when it has ended.
    pub(super) done: CancellationToken,
    detach: bool,
    stdin: Mutex<Option<mpsc::Sender<Bytes>>>,
    controls: mpsc::Sender<Control>,
    callers: AtomicUsize,
}

/// What a caller may do to a running command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// Tell its terminal a size in rows and columns.
    Resize(u16, u16),
    /// Send it a signal; SIGKILL goes to all that it started.
    Signal(i32),
}

impl Control {
    /// A new size, as it stands in a call.
    pub fn resize(size: &TerminalSize) -> Self {
        let side = |asked: u32| u16::try_from(asked).unwrap_or(u16::MAX);
        Self::Resize(side(size.rows), side(size.columns))
    }
}

/// The other ends of what `Exec` has.
#[derive(Debug)]
pub(super) struct Wiring {
    pub stdin: mpsc::Receiver<Bytes>,
    pub controls: mpsc::Receiver<Control>,
}

impl Exec {
    pub(super) fn new(id: String, output: Output, detach: bool, fed: bool) -> (Self, Wiring) {
        let (to_stdin, stdin) = mpsc::channel(STDIN_PIECES);
        let (to_controls, controls) = mpsc::channel(CONTROLS);
        let exec = Self {
            id,
            output,
            cancel: CancellationToken::new(),
            done: CancellationToken::new(),
            detach,
            stdin: Mutex::new(fed.then_some(to_stdin)),
            controls: to_controls,
            callers: AtomicUsize::new(0),
        };
        (exec, Wiring { stdin, controls })
    }

    /// Counts a caller in until the answer is dropped.
    pub fn caller(self: &Arc<Self>) -> Caller {
        self.callers.fetch_add(1, Ordering::SeqCst);
        Caller { exec: self.clone() }
    }

    /// Hands bytes to the command's stdin; waits while it does not read. What comes after
    /// the command closed its stdin is thrown away. Not cancel safe: a piece is lost.
    pub async fn feed(&self, bytes: Bytes) {
        let stdin = self
            .stdin
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some(stdin) = stdin {
            // An error means that it reads no more, which is its own business.
            let _ = stdin.send(bytes).await;
        }
    }

    /// Ends the command's stdin.
    pub fn end_stdin(&self) {
        self.stdin
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
    }

    /// Does something to the command; nothing if it has ended. Waits for its start.
    pub async fn control(&self, control: Control) {
        let _ = self.controls.send(control).await;
    }

    /// Waits for the end. Cancel safe.
    pub async fn ended(&self) {
        self.done.cancelled().await;
    }
}

/// Somebody who listens to a command. When the last one goes, a command that is not
/// detached is killed.
#[derive(Debug)]
pub struct Caller {
    exec: Arc<Exec>,
}

impl Drop for Caller {
    fn drop(&mut self) {
        if self.exec.callers.fetch_sub(1, Ordering::SeqCst) == 1 && !self.exec.detach {
            self.exec.cancel.cancel();
        }
    }
}
