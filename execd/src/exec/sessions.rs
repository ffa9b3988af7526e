//! Sessions: a shell that keeps its directory, variables and functions between commands.
//!
//! One task owns each shell, so callers of one session take turns in the order they came.
//! Commands go in by the shell's stdin, wrapped so that they cannot read it; their output
//! comes by one pipe; and after each command the shell writes its status and a word that
//! cannot be guessed to a third pipe that no command inherits. `script` has that wrapping,
//! `shell` the task.

mod script;
mod shell;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use innkeeper_proto::v1::SessionResult;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::registry::new_name;
use crate::live::Live;
use crate::slots::Slots;
use crate::spawner::ExecSpec;
use shell::{Run, Shell};

/// Sessions in one sandbox at once.
const SESSIONS: usize = 64;

/// Callers that wait for their turn in one session.
const WAITING: usize = 256;

/// All sessions, by sandbox and name.
#[derive(Debug, Default)]
pub struct Sessions {
    open: Mutex<HashMap<(String, String), Session>>,
}

/// One session, as callers reach it.
#[derive(Debug, Clone)]
struct Session {
    runs: mpsc::Sender<Run>,
    close: CancellationToken,
    closed: CancellationToken,
}

/// Why a session call failed.
#[derive(Debug, Error)]
pub enum SessionError {
    /// It has ended, or never was.
    #[error("there is no session {0}: it was closed, or its shell ended; open another")]
    Unknown(String),
    /// Its sandbox is gone.
    #[error("{0}")]
    Gone(String),
    /// Too many.
    #[error("{SESSIONS} sessions are open in the sandbox already; close one")]
    Full,
    /// Too many callers.
    #[error("{WAITING} callers wait for session {0} already")]
    Busy(String),
    /// The shell could not be started.
    #[error("cannot start the shell {shell}: {why}")]
    Shell {
        /// Its path.
        shell: String,
        /// What went wrong.
        why: String,
    },
    /// What cannot be a command.
    #[error("{0}")]
    Invalid(String),
}

impl Sessions {
    fn open_sessions(&self) -> MutexGuard<'_, HashMap<(String, String), Session>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a shell and waits until it takes commands. `shells` are tried in order until
    /// one exists. Its name is the answer.
    ///
    /// # Errors
    /// When no shell takes commands.
    pub async fn open(
        self: &Arc<Self>,
        slots: &Slots,
        live: &Arc<Live>,
        shells: &[Vec<u8>],
        spec: ExecSpec,
    ) -> Result<String, SessionError> {
        let in_sandbox = |(sandbox, _): &&(String, String)| *sandbox == live.sandbox;
        if self.open_sessions().keys().filter(in_sandbox).count() >= SESSIONS {
            return Err(SessionError::Full);
        }
        let name = new_name().map_err(|errno| SessionError::Invalid(errno.to_string()))?;
        let shell = Shell::start(slots, live, shells, spec).await?;
        let (runs, waiting) = mpsc::channel(WAITING);
        let session = Session {
            runs,
            close: CancellationToken::new(),
            closed: CancellationToken::new(),
        };
        let key = (live.sandbox.clone(), name.clone());
        self.open_sessions().insert(key.clone(), session.clone());
        let sessions = self.clone();
        tokio::spawn(async move {
            shell.serve(waiting, session.close).await;
            sessions.open_sessions().remove(&key);
            session.closed.cancel();
        });
        Ok(name)
    }

    /// Runs a command when its turn has come; the timeout counts from then. A caller that
    /// drops this has the command killed, not the session.
    ///
    /// # Errors
    /// When the session is not there, or goes before the end is known.
    pub async fn run(
        &self,
        live: &Live,
        name: &str,
        command: Vec<u8>,
        timeout: Duration,
    ) -> Result<SessionResult, SessionError> {
        let session = self.find(&live.sandbox, name)?;
        if command.contains(&0) {
            return Err(SessionError::Invalid(
                "the command has a zero byte in it".to_owned(),
            ));
        }
        let (reply, result) = oneshot::channel();
        let unknown = || SessionError::Unknown(name.to_owned());
        session
            .runs
            .try_send(Run {
                command,
                timeout,
                reply,
            })
            .map_err(|error| match error {
                mpsc::error::TrySendError::Full(_) => SessionError::Busy(name.to_owned()),
                mpsc::error::TrySendError::Closed(_) => unknown(),
            })?;
        match result.await {
            Ok(result) => Ok(result),
            Err(_) if live.fenced().is_cancelled() => {
                Err(SessionError::Gone(super::gone(&live.sandbox)))
            }
            Err(_) => Err(unknown()),
        }
    }

    /// Ends a session with all that it started, and waits for that. None by that name is
    /// no error.
    pub async fn close(&self, sandbox: &str, name: &str) {
        if let Ok(session) = self.find(sandbox, name) {
            session.close.cancel();
            session.closed.cancelled().await;
        }
    }

    fn find(&self, sandbox: &str, name: &str) -> Result<Session, SessionError> {
        let key = (sandbox.to_owned(), name.to_owned());
        let found = self.open_sessions().get(&key).cloned();
        found.ok_or_else(|| SessionError::Unknown(name.to_owned()))
    }
}
