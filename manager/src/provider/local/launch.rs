//! Starting execd so that it outlives the manager.

use std::ffi::OsString;
use std::fs::{DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::provider::{Error, ErrorKind};

/// How much of the daemon's log is shown when it fails to start.
const SHOWN: usize = 600;

/// Where execd is: `given`, INNKEEPER_EXECD, or beside this executable.
pub fn find_execd(given: Option<&Path>) -> Result<PathBuf, Error> {
    let named = given
        .map(Path::to_owned)
        .or_else(|| std::env::var_os("INNKEEPER_EXECD").map(PathBuf::from));
    if let Some(path) = named {
        if path.is_file() {
            return Ok(path);
        }
        let message = format!(
            "execd is not at {}: correct INNKEEPER_EXECD",
            path.display()
        );
        return Err(Error::new(ErrorKind::Permanent, message));
    }
    let own = std::env::current_exe().unwrap_or_default();
    // Test programs lie one directory below the binaries.
    let folders = own.ancestors().skip(1).take(2);
    folders
        .map(|folder| folder.join("execd"))
        .find(|path| path.is_file())
        .ok_or_else(|| {
            let message = format!(
                "execd is not beside {}: put it there or name it in INNKEEPER_EXECD",
                own.display()
            );
            Error::new(ErrorKind::Permanent, message)
        })
}

/// A daemon that was started and its log.
#[derive(Debug)]
pub(super) struct Launched {
    pub(super) child: tokio::process::Child,
    log: PathBuf,
    /// Where this daemon's part of the log begins.
    start: u64,
}

impl Launched {
    /// What the daemon wrote since it was started, its end where it is long.
    pub(super) fn said(&self) -> String {
        let bytes = std::fs::read(&self.log).unwrap_or_default();
        let own = bytes.get(self.start as usize..).unwrap_or_default();
        let tail = &own[own.len().saturating_sub(SHOWN)..];
        String::from_utf8_lossy(tail).trim().to_owned()
    }
}

/// Starts `execd --state DIR` in a session of its own. Output goes to `DIR/execd/log`.
pub(super) fn launch(
    execd: &Path,
    state_dir: &Path,
    orphan_ttl: Duration,
) -> Result<Launched, Error> {
    let mut command = in_session(execd);
    command.arg("--state").arg(state_dir).env(
        "INNKEEPER_ORPHAN_TTL_MS",
        orphan_ttl.as_millis().to_string(),
    );
    start(command, execd, &state_dir.join("execd"), "log")
}

/// Starts `execd pod` with these words in a session of its own. Output goes to a file of `logs`.
pub(super) fn launch_pod(
    execd: &Path,
    words: &[OsString],
    logs: &Path,
    name: &str,
) -> Result<Launched, Error> {
    let mut command = in_session(execd);
    command.arg("pod").args(words);
    start(command, execd, logs, name)
}

fn start(command: Command, execd: &Path, folder: &Path, log: &str) -> Result<Launched, Error> {
    let mut command = tokio::process::Command::from(command);
    let log = folder.join(log);
    let permanent = |what: &str, path: &Path, error: std::io::Error| {
        Error::new(
            ErrorKind::Permanent,
            format!("{what} {} failed: {error}", path.display()),
        )
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|error| permanent("creating", folder, error))?;
    let open = || {
        OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&log)
    };
    let (out, start) = open()
        .and_then(|file| Ok((file.try_clone()?, file.metadata()?.len())))
        .map_err(|error| permanent("opening", &log, error))?;
    let err = out
        .try_clone()
        .map_err(|error| permanent("opening", &log, error))?;

    let child = command
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .spawn()
        .map_err(|error| permanent("starting", execd, error))?;
    Ok(Launched { child, log, start })
}

/// Execd in a session of its own, so that neither a terminal's signals nor the manager's end
/// reach it. A session can only be begun by the process itself; the setsid program does that and
/// then becomes execd, with the same pid. Without it a process group at least keeps the terminal's
/// signals away.
fn in_session(execd: &Path) -> Command {
    match program("setsid") {
        Some(setsid) => {
            let mut command = Command::new(setsid);
            command.arg(execd);
            command
        }
        None => {
            let mut command = Command::new(execd);
            command.process_group(0);
            command
        }
    }
}

/// What a short call of execd answers on standard output; it is waited for.
pub(super) async fn ask(execd: &Path, words: &[OsString]) -> Result<String, Error> {
    let failed = |sentence: String| Error::new(ErrorKind::Permanent, sentence);
    let output = tokio::process::Command::new(execd)
        .args(words)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .map_err(|error| failed(format!("starting {} failed: {error}", execd.display())))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(failed(said))
}

fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_execd_is_said_with_what_to_do() {
        let error = find_execd(Some(Path::new("/nowhere/execd")))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("/nowhere/execd") && error.contains("INNKEEPER_EXECD"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn a_daemon_is_started_in_its_own_session_and_its_words_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("daemon");
        let text = "#!/bin/sh\necho \"$@\" $(cut -d' ' -f6 /proc/$$/stat) $$\n";
        std::fs::write(&script, text).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&script, mode).unwrap();
        let mut launched = launch(&script, dir.path(), Duration::from_secs(1)).unwrap();
        assert!(launched.child.wait().await.unwrap().success());
        let said = launched.said();
        let words: Vec<_> = said.split(' ').collect();
        assert_eq!(words[..2], ["--state", dir.path().to_str().unwrap()]);
        if program("setsid").is_some() {
            assert_eq!(words[2], words[3], "session id and pid are the same");
        }
    }
}
