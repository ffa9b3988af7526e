//! A state directory of its own, and the binaries run on it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// How long anything that has to happen may take before the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// A state directory, perhaps with a manager. What runs on it ends with it.
pub struct Inn {
    folder: TempDir,
    state: PathBuf,
    binaries: PathBuf,
    execd: PathBuf,
    manager: Option<Child>,
}

/// What a command said and how it ended.
#[derive(Debug)]
pub struct Ran {
    /// The exit code; -1 for a signal.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Ran {
    /// What a command that a test ran by itself said.
    pub fn of(output: std::process::Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Standard output as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("no JSON ({e}): {self:?}"))
    }

    /// The same command, which must have succeeded.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{self:?}");
        self
    }

    /// The same command, which must have failed like this, with one sentence.
    #[track_caller]
    pub fn fails(self, code: i32, saying: &str) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        assert!(
            self.stderr.contains(saying),
            "{saying:?} is not in {self:?}"
        );
        assert!(!self.stderr.contains("panicked"), "{self:?}");
        self
    }
}

impl Default for Inn {
    fn default() -> Self {
        Self::new()
    }
}

impl Inn {
    /// An empty one.
    pub fn new() -> Self {
        let folder = tempfile::Builder::new()
            .prefix("innkeeper-test-")
            .tempdir()
            .expect("a folder");
        let state = folder.path().join("state");
        Self::on(folder, state)
    }

    /// One whose state lies elsewhere, such as on a disk of its own.
    pub fn with_state(state: &Path) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("innkeeper-test-")
            .tempdir()
            .expect("a folder");
        Self::on(folder, state.to_owned())
    }

    fn on(folder: TempDir, state: PathBuf) -> Self {
        let binaries = crate::binaries().expect("checked before");
        Self {
            folder,
            state,
            execd: binaries.join("execd"),
            binaries,
            manager: None,
        }
    }

    /// The same with another execd, such as one that is linked statically.
    pub fn with_execd(mut self, execd: PathBuf) -> Self {
        self.execd = execd;
        self
    }

    /// A path outside the state directory for the test's own files.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes one of the test's own files.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).expect("written");
        path
    }

    /// The state directory.
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// `innkeeper` with these arguments.
    pub fn command<I>(&self, arguments: I) -> Command
    where
        I: IntoIterator,
        I::Item: AsRef<OsStr>,
    {
        let mut command = Command::new(self.binaries.join("innkeeper"));
        command
            .args(arguments)
            .env("INNKEEPER_STATE_DIR", &self.state);
        command.env("INNKEEPER_EXECD", &self.execd);
        command
            .env_remove("INNKEEPER_ENDPOINT")
            .env_remove("INNKEEPER_TOKEN")
            .stdin(Stdio::null());
        command
    }

    /// Runs it to its end.
    pub fn run<I>(&self, arguments: I) -> Ran
    where
        I: IntoIterator,
        I::Item: AsRef<OsStr>,
    {
        ended(self.command(arguments))
    }

    /// Runs a line of words.
    pub fn line(&self, line: &str) -> Ran {
        self.run(line.split_whitespace())
    }

    /// Runs a line of words with this on its standard input.
    pub fn fed(&self, line: &str, input: &[u8]) -> Ran {
        let mut command = self.command(line.split_whitespace());
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("started");
        let mut stdin = child.stdin.take().expect("piped");
        let input = input.to_vec();
        let feeding = std::thread::spawn(move || stdin.write_all(&input));
        let output = child.wait_with_output().expect("ended");
        // A command that does not read all of it is none of the test's failures.
        let _ = feeding.join().expect("no panic");
        Ran::of(output)
    }

    /// Starts a manager and waits until it answers.
    #[track_caller]
    pub fn serve(&mut self, more: &[&str]) {
        let started = self.try_serve(more);
        started.unwrap_or_else(|said| panic!("the manager does not start: {said}"));
    }

    /// Starts a manager and waits until it answers or ends.
    ///
    /// # Errors
    /// What it said when it ended.
    #[track_caller]
    pub fn try_serve(&mut self, more: &[&str]) -> Result<(), String> {
        let log = File::create(self.path("serve.log")).expect("a log");
        let mut command = self.command(["serve"].iter().chain(more));
        let child = command
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .spawn()
            .expect("started");
        self.manager = Some(child);
        let start = Instant::now();
        loop {
            let manager = self.manager.as_mut().expect("just started");
            if manager.try_wait().expect("asked").is_some() {
                self.manager = None;
                return Err(self.said());
            }
            let answer = self.line("ps --json");
            if answer.code == 0 {
                return Ok(());
            }
            assert!(
                start.elapsed() < PATIENCE,
                "the manager does not answer: {answer:?}\n{}",
                self.said()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What the manager printed.
    fn said(&self) -> String {
        let log = std::fs::read_to_string(self.path("serve.log")).unwrap_or_default();
        log.trim().to_owned()
    }

    /// Kills the manager the hard way.
    pub fn kill_manager(&mut self) {
        let mut manager = self.manager.take().expect("a manager runs");
        manager.kill().expect("killed");
        manager.wait().expect("reaped");
    }

    /// Asks the manager to stop. Returns its exit code.
    pub fn stop_manager(&mut self) -> Option<i32> {
        let mut manager = self.manager.take()?;
        signal(i32::try_from(manager.id()).ok(), Signal::TERM);
        manager.wait().expect("reaped").code()
    }

    /// Waits until something is so.
    #[track_caller]
    pub fn until(&self, what: &str, mut check: impl FnMut() -> Result<(), String>) {
        let start = Instant::now();
        loop {
            match check() {
                Ok(()) => return,
                Err(why) if start.elapsed() > PATIENCE => panic!("waited in vain: {what}: {why}"),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Ids of the execds that run on this state directory.
    pub fn daemons(&self) -> Vec<i32> {
        let Ok(processes) = std::fs::read_dir("/proc") else {
            return Vec::new();
        };
        let state = self.state.as_os_str().as_encoded_bytes();
        let runs_here = |pid: &i32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let mut words = line.split(|byte| *byte == 0);
            words
                .next()
                .is_some_and(|program| program.ends_with(b"execd"))
                && words.any(|word| word == state)
        };
        processes
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter(runs_here)
            .collect()
    }
}

impl Drop for Inn {
    fn drop(&mut self) {
        self.stop_manager();
        for pid in self.daemons() {
            signal(Some(pid), Signal::TERM);
        }
        let start = Instant::now();
        while !self.daemons().is_empty() {
            if start.elapsed() > PATIENCE {
                self.daemons()
                    .into_iter()
                    .for_each(|pid| signal(Some(pid), Signal::KILL));
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Runs a command to its end.
fn ended(mut command: Command) -> Ran {
    Ran::of(command.output().expect("started"))
}

fn signal(pid: Option<i32>, signal: Signal) {
    if let Some(pid) = pid.and_then(Pid::from_raw) {
        // It may have ended by itself.
        let _ = kill_process(pid, signal);
    }
}
