//! All commands of all live sandboxes, by sandbox and name.
//!
//! A name stands for one run: asking for it again gives that run, whether it still runs or
//! has ended. What has ended is kept for callers that come back, within bounds, and goes
//! with its sandbox.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::rand::{GetRandomFlags, getrandom};
use thiserror::Error;

use super::command::Command;
use super::output::Output;
use super::record::{Caller, Exec};
use super::supervise;
use crate::live::Live;
use crate::slots::Slots;

/// Commands that have ended and are kept, in each sandbox.
const ENDED: usize = 256;

/// Bytes of their output in each sandbox, the last one's not counted.
const ENDED_BYTES: u64 = 32 * 1024 * 1024;

/// Commands that run at once in one sandbox; each takes descriptors and memory of ours.
const RUNNING: usize = 1024;

/// Bytes of a name.
const NAME: usize = 256;

/// The registry.
#[derive(Debug)]
pub struct Execs {
    spill: PathBuf,
    sandboxes: Mutex<HashMap<String, Kept>>,
}

impl Default for Execs {
    /// With the files of long outputs where the system has its temporary ones.
    fn default() -> Self {
        Self::new(std::env::temp_dir())
    }
}

#[derive(Debug, Default)]
struct Kept {
    execs: HashMap<String, Arc<Exec>>,
    /// Those that have ended, oldest first.
    ended: VecDeque<Arc<Exec>>,
}

/// A command and the right to listen to it.
#[derive(Debug)]
pub struct Join {
    /// The command.
    pub exec: Arc<Exec>,
    /// Keeps it alive.
    pub caller: Caller,
}

/// Why no command was started.
#[derive(Debug, Error)]
pub enum StartError {
    /// Too many at once.
    #[error("{RUNNING} commands run in sandbox {sandbox} already; wait for one to end")]
    Full {
        /// The sandbox.
        sandbox: String,
    },
    /// A name that is no name.
    #[error("an exec id has at most {NAME} bytes")]
    Name,
    /// No name could be made.
    #[error("cannot make an exec id: {0}")]
    Random(#[source] rustix::io::Errno),
}

impl Execs {
    /// An empty registry. Output that memory does not hold goes to files without a name
    /// in the directory `spill`.
    pub fn new(spill: PathBuf) -> Self {
        Self {
            spill,
            sandboxes: Mutex::default(),
        }
    }

    fn sandboxes(&self) -> MutexGuard<'_, HashMap<String, Kept>> {
        self.sandboxes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a command, or joins the one that has this name; an empty name makes a new one.
    /// Returns at once: whether it could be started is told by its output.
    ///
    /// # Errors
    /// When nothing was started.
    pub fn start(
        self: &Arc<Self>,
        slots: &Arc<Slots>,
        live: &Arc<Live>,
        id: String,
        command: Command,
    ) -> Result<Join, StartError> {
        if id.len() > NAME {
            return Err(StartError::Name);
        }
        let id = if id.is_empty() {
            new_name().map_err(StartError::Random)?
        } else {
            id
        };
        let mut sandboxes = self.sandboxes();
        if !sandboxes.contains_key(&live.sandbox) {
            self.forget_with(live);
        }
        let kept = sandboxes.entry(live.sandbox.clone()).or_default();
        if let Some(exec) = kept.execs.get(&id) {
            return Ok(Join {
                exec: exec.clone(),
                caller: exec.caller(),
            });
        }
        if kept.execs.len() - kept.ended.len() >= RUNNING {
            return Err(StartError::Full {
                sandbox: live.sandbox.clone(),
            });
        }
        let output = Output::new(self.spill.clone());
        let (exec, wiring) = Exec::new(id.clone(), output, command.detach, command.stdin);
        let exec = Arc::new(exec);
        kept.execs.insert(id, exec.clone());
        let caller = exec.caller();
        let run = supervise::run(exec.clone(), slots.clone(), live.clone(), command, wiring);
        let (execs, sandbox, ended) = (self.clone(), live.sandbox.clone(), exec.clone());
        tokio::spawn(async move {
            run.await;
            execs.keep_ended(&sandbox, ended);
        });
        Ok(Join { exec, caller })
    }

    /// Joins a command by its name.
    pub fn find(&self, sandbox: &str, id: &str) -> Option<Join> {
        let sandboxes = self.sandboxes();
        let exec = sandboxes.get(sandbox)?.execs.get(id)?;
        Some(Join {
            exec: exec.clone(),
            caller: exec.caller(),
        })
    }

    fn keep_ended(&self, sandbox: &str, exec: Arc<Exec>) {
        let mut sandboxes = self.sandboxes();
        let Some(kept) = sandboxes.get_mut(sandbox) else {
            return;
        };
        let older = |ended: &VecDeque<Arc<Exec>>| -> u64 {
            ended.iter().map(|exec| exec.output.size()).sum()
        };
        while kept.ended.len() >= ENDED || older(&kept.ended) > ENDED_BYTES {
            let Some(oldest) = kept.ended.pop_front() else {
                break;
            };
            kept.execs.remove(&oldest.id);
        }
        kept.ended.push_back(exec);
    }

    /// Forgets a sandbox's commands when it is fenced.
    fn forget_with(self: &Arc<Self>, live: &Arc<Live>) {
        let (execs, sandbox, fenced) = (self.clone(), live.sandbox.clone(), live.fenced());
        tokio::spawn(async move {
            fenced.cancelled().await;
            execs.sandboxes().remove(&sandbox);
        });
    }
}

/// A name that nobody else has.
pub(super) fn new_name() -> rustix::io::Result<String> {
    let mut random = [0u8; 12];
    getrandom(&mut random, GetRandomFlags::empty())?;
    Ok(hex::encode(random))
}
