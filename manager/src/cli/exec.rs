//! `exec`: a command in a leased sandbox, as if it ran here.

pub(crate) mod call;
pub(crate) mod input;
pub(crate) mod outcome;
pub(crate) mod terminal;

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use innkeeper_proto::v1::{ExecStart, Target, target};

use super::connect::{self, Client};
use super::failure::Failure;
use super::values::Variable;
use super::{Global, output, values};

/// Run a command in a leased sandbox.
#[derive(Debug, Args)]
#[command(
    after_help = "The exit code is the command's own, 128 + N for signal N, 124 for the timeout, 126 and 127 for a\ncommand that cannot be run or is not there, and 125 for a failure of innkeeper's own.\n\nExample:\n  innkeeper exec LEASE --cwd /testbed -- python -m pytest -q"
)]
pub(crate) struct Exec {
    /// The lease's id
    lease: String,
    #[command(flatten)]
    how: How,
    /// Kill the command and all its children after this time
    #[arg(long, value_name = "D", value_parser = values::duration)]
    timeout: Option<Duration>,
    /// The command and its arguments, after --
    #[arg(last = true, required = true, value_name = "ARGV")]
    argv: Vec<OsString>,
}

/// How a command is run: the options that `exec` and `run` share.
#[derive(Debug, Args)]
pub(crate) struct How {
    /// The directory it starts in [default: the template's]
    #[arg(long, value_name = "D")]
    cwd: Option<OsString>,
    /// A variable added to the image's and the template's
    #[arg(long, value_name = "K=V", value_parser = OsStringValueParser::new().try_map(values::variable))]
    env: Vec<Variable>,
    /// Whose rights it gets: name, uid, name:group or uid:gid [default: the template's]
    #[arg(long, value_name = "U")]
    user: Option<String>,
    /// Pass standard input on
    #[arg(short = 'i', long)]
    interactive: bool,
    /// Give it a terminal
    #[arg(short = 't', long)]
    tty: bool,
}

impl Exec {
    /// Runs it to its end. Returns the command's exit code.
    pub(crate) async fn run(self, global: &Global) -> Result<i32, Failure> {
        let mut client = connect::running(global).await.map_err(Failure::of_exec)?;
        in_lease(
            &mut client,
            global,
            &self.lease,
            self.how,
            self.timeout,
            self.argv,
        )
        .await
    }
}

/// Runs a command in a lease, joined to this process's own streams, and prints the
/// document where JSON is wanted. Returns the exit code.
pub(crate) async fn in_lease(
    client: &mut Client,
    global: &Global,
    lease: &str,
    how: How,
    timeout: Option<Duration>,
    argv: Vec<OsString>,
) -> Result<i32, Failure> {
    let mut env: Vec<Vec<u8>> = how.env.into_iter().map(|Variable(text)| text).collect();
    let terminal = how.tty.then(terminal::size);
    if how.tty && !env.iter().any(|v| v.starts_with(b"TERM=")) {
        let term = std::env::var_os("TERM").unwrap_or_else(|| "xterm".into());
        env.push([b"TERM=", term.as_bytes()].concat());
    }
    let start = ExecStart {
        target: Some(of_lease(lease)),
        argv: argv
            .into_iter()
            .map(|word| word.into_vec().into())
            .collect(),
        env: env.into_iter().map(Into::into).collect(),
        cwd: how.cwd.map(OsString::into_vec).unwrap_or_default().into(),
        user: how.user.unwrap_or_default(),
        terminal,
        stdin: how.interactive,
        timeout_ms: values::millis(timeout),
        ..ExecStart::default()
    };
    let raw = if how.tty && how.interactive {
        terminal::Raw::enter()
    } else {
        None
    };
    let ended = call::joined(client, start, global.json).await;
    drop(raw);
    let outcome = ended.map_err(Failure::of_exec)?;
    if global.json {
        output::json(&outcome.document()).map_err(Failure::of_exec)?;
    }
    if let Some(reason) = outcome.not_started() {
        eprintln!("innkeeper: the command could not be started: {reason}");
    } else if outcome.finished.timed_out && !global.json {
        eprintln!("innkeeper: the command ran into its timeout and was killed");
    }
    if outcome.finished.truncated && !global.json {
        eprintln!("innkeeper: the output was longer than is kept of it: its end is missing");
    }
    Ok(outcome.code())
}

/// The target that names a lease.
pub(crate) fn of_lease(lease: &str) -> Target {
    Target {
        of: Some(target::Of::Lease(lease.to_owned())),
    }
}
