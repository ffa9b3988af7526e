//! How a command ended.

use innkeeper_proto::v1::ExecFinished;

use crate::spawner::client::SpawnError;

/// How a command ended, for all of its readers.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    /// It ran, or could not be started (`not_started`).
    Finished(ExecFinished),
    /// Its sandbox was reset or destroyed.
    Gone,
    /// The outcome is unknown: the sentence says why.
    Lost(String),
}

/// Why a command is being killed by us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Killing {
    /// Its time was up.
    Timeout,
    /// Its last caller went away, or asked for it.
    Cancel,
}

/// What a raw wait status and what we know beside it amount to. The kernel counts its kills for
/// want of memory by sandbox: `oom_moved` says that it made one while the command ran.
pub(super) fn finished(status: i32, killing: Option<Killing>, oom_moved: bool) -> ExecFinished {
    let signal = status & 0x7f;
    let exit_code = (signal == 0).then_some((status >> 8) & 0xff);
    ExecFinished {
        exit_code,
        signal,
        // A command that ended by itself just before the kill has kept its time.
        timed_out: signal == libc::SIGKILL && killing == Some(Killing::Timeout),
        // Whoever was killed: a test runner that lost a worker exits as it likes.
        oom: oom_moved,
        ..ExecFinished::default()
    }
}

/// The sentence for a process that the sandbox's processes limit left no room for; none for
/// another failure. EAGAIN at a fork is what pids.max gives (cgroup-v2, "PID").
pub fn processes_used_up(error: &SpawnError) -> Option<&'static str> {
    match error {
        SpawnError::Step { step, source }
            if step.starts_with("forking") && source.raw_os_error() == Some(libc::EAGAIN) =>
        {
            Some(
                "the sandbox's processes limit (pids) is used up: \
                 end processes in it, or return it and lease another",
            )
        }
        SpawnError::Step { .. }
        | SpawnError::NotStarted { .. }
        | SpawnError::Gone { .. }
        | SpawnError::Lost => None,
    }
}

/// A command that never ran.
pub(super) fn not_started(exit_code: i32, message: String) -> ExecFinished {
    ExecFinished {
        exit_code: Some(exit_code),
        not_started: message,
        ..ExecFinished::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_signal_timeout_and_memory_are_told_apart() {
        let done = finished(3 << 8, None, false);
        assert_eq!(
            (done.exit_code, done.signal, done.timed_out, done.oom),
            (Some(3), 0, false, false)
        );
        let done = finished(9, Some(Killing::Timeout), true);
        assert_eq!(
            (done.exit_code, done.signal, done.timed_out, done.oom),
            (None, 9, true, true)
        );
        let done = finished(9, None, true);
        assert_eq!(
            (done.exit_code, done.signal, done.timed_out, done.oom),
            (None, 9, false, true)
        );
        let done = finished(9, Some(Killing::Cancel), false);
        assert_eq!(
            (done.exit_code, done.signal, done.timed_out, done.oom),
            (None, 9, false, false)
        );
        let done = finished(1 << 8, None, true);
        assert_eq!((done.exit_code, done.oom), (Some(1), true), "a child of it");
        let done = finished(0, Some(Killing::Timeout), false);
        assert_eq!((done.exit_code, done.timed_out), (Some(0), false));
        assert_eq!(
            finished(0x80 | 11, None, false).signal,
            11,
            "with a core dump"
        );
    }
}
