//! Commands in sandboxes: what runs, what has ended, and what they said.
//!
//! A command belongs to the daemon, not to its caller: a task of its own starts it, keeps
//! its output in a log and ends it. Callers read the log, any number of them and from any
//! offset, at their own speed; a slow one never holds the command up.
//!
//! `output` is the log, `supervise` runs one command, `stdio` has the ends of its pipes or
//! terminal, `stdin` feeds it, `outcome` says how it ended. `sessions` keeps a shell between
//! commands.

mod command;
mod outcome;
mod output;
mod record;
mod registry;
pub mod sessions;
mod stdin;
mod stdio;
mod supervise;

pub use command::{Command, Invalid, timeout};
pub use outcome::{Ending, processes_used_up};
pub use output::{Cursor, Next};
pub use record::{Control, Exec};
pub use registry::{Execs, Join, StartError};
pub use sessions::SessionError;
pub(crate) use stdio::{watched, write_all};

/// What a call is told when its sandbox was reset or destroyed under it.
pub fn gone(sandbox: &str) -> String {
    format!("sandbox {sandbox} is gone: it was reset or destroyed; lease another")
}
