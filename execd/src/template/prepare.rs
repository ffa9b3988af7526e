//! The prepare of a template: its private files and its commands, run once in a sandbox
//! of their own over an upper on disk, which is then frozen as a layer.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::time::Duration;

use innkeeper_proto::v1::TemplateSpec;

use super::{TemplateError, defaults, image_lowers, own_network, workdir};
use crate::cgroup::Limits;
use crate::inside::{self, furnish::Furnish};
use crate::sandbox::{Machine, Plan, Sandbox, upper};
use crate::spawner::ExecSpec;
use crate::wait;

/// A prepare command that runs longer than this has failed.
const LONGEST: Duration = Duration::from_secs(3600);
/// Bytes of a failed command's output that its error shows.
const TAIL: usize = 2000;
/// After the last command, how long what it left behind may take to end.
const SETTLE: Duration = Duration::from_millis(50);

/// A prepared upper, not yet frozen.
#[derive(Debug)]
pub(super) struct Prepared {
    /// The dead sandbox; its upper lies at the store's `uppers/NAME/u`.
    pub(super) name: String,
    /// Processes that the prepare left running, where it did.
    pub(super) leftovers: Option<String>,
    /// The directory that is to be copied into every upper.
    pub(super) copied: Option<Vec<u8>>,
    /// Answers that the image was seen to hold.
    pub(super) leaks: innkeeper_leaks::Report,
}

/// Runs the prepare on behalf of the slot `slot`.
pub(super) async fn run(
    machine: &Machine,
    spec: &TemplateSpec,
    slot: &str,
) -> Result<Prepared, TemplateError> {
    let sandbox = machine
        .build(Plan {
            slot: format!("{slot}-prepare"),
            generation: 1,
            lowers: image_lowers(machine, spec),
            upper: upper::Kind::Disk,
            copied: None,
            own_network: own_network(spec.prepare_network()),
            limits: Limits {
                pids: super::PIDS,
                ..Limits::default()
            },
            defaults: defaults(spec),
        })
        .await?;
    let done = steps(machine, spec, &sandbox).await;
    let ended = wait::end(&sandbox.live, Duration::from_secs(10)).await;
    let done = done.and_then(|seen| Ok((seen, workdir::decide(machine, spec, &sandbox)?)));
    let name = sandbox.live.sandbox.clone();
    match (done, ended) {
        (Ok(((leftovers, leaks), copied)), Ok(())) => {
            machine.release(sandbox);
            Ok(Prepared {
                name,
                leftovers,
                copied,
                leaks,
            })
        }
        (Err(error), _) => {
            machine.dispose(sandbox);
            Err(error)
        }
        (Ok(_), Err(reason)) => {
            machine.dispose(sandbox);
            Err(TemplateError::Capture(reason))
        }
    }
}

async fn steps(
    machine: &Machine,
    spec: &TemplateSpec,
    sandbox: &Sandbox,
) -> Result<(Option<String>, innkeeper_leaks::Report), TemplateError> {
    let resolv = if own_network(spec.network()) {
        Vec::new()
    } else {
        std::fs::read("/etc/resolv.conf").unwrap_or_default()
    };
    let furnish = Furnish {
        hostname: crate::sandbox::HOSTNAME.to_owned(),
        resolv,
        workdir: spec.workdir.clone(),
    };
    match machine
        .spawner
        .call(
            &sandbox.live,
            None,
            inside::Call::Furnish(furnish),
            Vec::new(),
        )
        .await
    {
        Ok(inside::Answer::Furnished) => {}
        Ok(inside::Answer::Failed { message, .. }) => return Err(TemplateError::Invalid(message)),
        Ok(_) => {
            return Err(TemplateError::Capture(
                "furnishing gave another answer".to_owned(),
            ));
        }
        Err(error) => return Err(TemplateError::Build(error.into())),
    }
    for argv in &spec.prepare {
        let command = argv.words.join(" ");
        let (status, output) = command_output(machine, sandbox, &argv.words).await?;
        if status != Some(0) {
            let outcome = status.map_or("did not end".to_owned(), |c| format!("ended with {c}"));
            return Err(TemplateError::Prepare {
                command,
                outcome,
                output,
            });
        }
    }
    check_commit(machine, spec, sandbox).await?;
    let left = leftovers(sandbox).await?;
    let leaks = super::leaks::look(machine, spec, sandbox).await;
    Ok((left, leaks))
}

/// Runs a command as the template's user: its exit code (none: a signal or the time limit)
/// and the end of its output.
pub(super) async fn command_output(
    machine: &Machine,
    sandbox: &Sandbox,
    words: &[String],
) -> Result<(Option<i32>, String), TemplateError> {
    let live = &sandbox.live;
    let step = |error: std::io::Error| TemplateError::Capture(error.to_string());
    let group = live.exec_group().map_err(step)?;
    let mut output = tempfile::tempfile().map_err(step)?;
    let null: OwnedFd = std::fs::File::open("/dev/null").map_err(step)?.into();
    let out = || output.try_clone().map(OwnedFd::from).map_err(step);
    let spec = ExecSpec {
        argv: words.iter().map(|w| w.clone().into_bytes()).collect(),
        env: live.env.clone(),
        cwd: live.workdir.clone(),
        user: live.user.clone(),
        umask: 0o022,
        terminal: None,
    };
    let stdio = [null, out()?, out()?];
    let started = machine.spawner.exec(live, &group, spec, Some(stdio)).await;
    let started = match started {
        Ok(started) => started,
        Err(crate::spawner::client::SpawnError::NotStarted { exit_code, message }) => {
            return Ok((Some(exit_code), message));
        }
        Err(error) => return Err(TemplateError::Build(error.into())),
    };
    let status = tokio::time::timeout(LONGEST, started.exit).await;
    let code = match status {
        Ok(Ok(status)) => libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
        Ok(Err(_)) | Err(_) => {
            group.kill();
            None
        }
    };
    let mut bytes = Vec::new();
    std::io::Seek::rewind(&mut output).map_err(step)?;
    output.read_to_end(&mut bytes).map_err(step)?;
    let from = bytes.len().saturating_sub(TAIL);
    Ok((
        code,
        String::from_utf8_lossy(&bytes[from..]).trim().to_owned(),
    ))
}

/// HEAD must be the base commit, or a commit of the same tree: images put an empty commit
/// on top, and test trees name theirs by a replace ref.
async fn check_commit(
    machine: &Machine,
    spec: &TemplateSpec,
    sandbox: &Sandbox,
) -> Result<(), TemplateError> {
    if spec.base_commit.is_empty() {
        return Ok(());
    }
    let wanted = &spec.base_commit;
    let git = |what: String| {
        let words = [
            "git",
            "-c",
            "safe.directory=*",
            "-C",
            &spec.workdir,
            "rev-parse",
            "--verify",
            &what,
        ]
        .map(str::to_owned);
        async move { command_output(machine, sandbox, &words).await }
    };
    let (code, head) = git("HEAD".to_owned()).await?;
    if code != Some(0) {
        return Err(TemplateError::BaseCommit(format!(
            "HEAD of {} cannot be read to compare it with base commit {wanted}: {head}",
            spec.workdir
        )));
    }
    if &head == wanted {
        return Ok(());
    }
    let (_, head_tree) = git("HEAD^{tree}".to_owned()).await?;
    let (code, tree) = git(format!("{wanted}^{{tree}}")).await?;
    if code == Some(0) && tree == head_tree {
        return Ok(());
    }
    Err(TemplateError::BaseCommit(format!(
        "HEAD of {} is {head}, not base commit {wanted} nor a commit of the same tree: use the image of this task",
        spec.workdir
    )))
}

/// What runs beside pid 1 once the prepare has ended, seen twice.
async fn leftovers(sandbox: &Sandbox) -> Result<Option<String>, TemplateError> {
    let look = || -> Result<Vec<i32>, TemplateError> {
        let pids = sandbox
            .live
            .pids()
            .map_err(|e| TemplateError::Capture(e.to_string()))?;
        Ok(pids
            .into_iter()
            .filter(|pid| Some(*pid) != sandbox.live.init_pid())
            .collect())
    };
    if look()?.is_empty() && look()?.is_empty() {
        return Ok(None);
    }
    tokio::time::sleep(SETTLE).await;
    let left = look()?;
    if left.is_empty() && look()?.is_empty() {
        return Ok(None);
    }
    let names: Vec<String> = left
        .iter()
        .map(|pid| {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            name.trim().to_owned()
        })
        .collect();
    Ok(Some(format!(
        "prepare left processes running: {}",
        names.join(", ")
    )))
}
