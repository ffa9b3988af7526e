//! What a command ends with when it does not succeed: one sentence and an exit code.

use std::fmt::Display;

use innkeeper::client::{CallError, Kind};
use tonic::Code;

/// Exit code of a command that failed.
pub(crate) const FAILED: i32 = 1;
/// Exit code of a command that was asked for in a way that cannot be.
pub(crate) const USAGE: i32 = 2;
/// Exit code of a grading that left instances without a verdict.
pub(crate) const INFRA: i32 = 3;
/// Exit code where a manager is needed and none runs.
pub(crate) const NO_MANAGER: i32 = 69;
/// Exit code of `exec` and `run` when the command ran into its timeout.
pub(crate) const TIMED_OUT: i32 = 124;
/// Exit code of what SIGINT ended.
pub(crate) const INTERRUPTED: i32 = 128 + 2;
/// Exit code of what SIGTERM ended.
pub(crate) const TERMINATED: i32 = 128 + 15;
/// Exit code of `exec` and `run` for a failure of innkeeper's own.
pub(crate) const OWN_FAILURE: i32 = 125;

/// Why a command did not succeed.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The exit code.
    pub(crate) code: i32,
    /// One sentence for people that says what to do.
    pub(crate) message: String,
}

impl Failure {
    /// The command failed: exit code 1.
    pub(crate) fn failed(message: impl Display) -> Self {
        Self {
            code: FAILED,
            message: message.to_string(),
        }
    }

    /// Nobody reads standard output any more: the exit code of a program that SIGPIPE ended,
    /// and as silent.
    pub(crate) fn unread() -> Self {
        Self {
            code: 141,
            message: String::new(),
        }
    }

    /// A second signal ended it: the exit code of a program that the signal ended.
    pub(crate) fn insisted(signal: i32) -> Self {
        Self {
            code: 128 + signal,
            message: "ended by a second signal: the command is killed".to_owned(),
        }
    }

    /// It was asked for wrongly: exit code 2.
    pub(crate) fn usage(message: impl Display) -> Self {
        Self {
            code: USAGE,
            message: message.to_string(),
        }
    }

    /// Something that this version does not have: exit code 2.
    pub(crate) fn absent(what: &str) -> Self {
        Self::usage(format_args!("this version does not have {what} yet"))
    }

    /// Something that this build was made without: exit code 2.
    #[cfg(not(feature = "fuzz"))]
    pub(crate) fn left_out(what: &str, feature: &str) -> Self {
        Self::usage(format_args!(
            "this build does not have {what}: build with the feature `{feature}`"
        ))
    }

    /// No manager answers at `endpoint`: exit code 69.
    pub(crate) fn no_manager(endpoint: impl Display, why: impl Display) -> Self {
        Self {
            code: NO_MANAGER,
            message: format!(
                "no manager answers at {endpoint} ({why}): start one with `innkeeper serve`, or name a running one with --endpoint or INNKEEPER_ENDPOINT"
            ),
        }
    }

    /// The same failure as `exec` and `run` report it, whose other codes are the command's own.
    /// A missing manager, wrong usage and a signal's end keep their codes.
    pub(crate) fn of_exec(self) -> Self {
        match self.code {
            USAGE | NO_MANAGER | INTERRUPTED | TERMINATED => self,
            _ => Self {
                code: OWN_FAILURE,
                ..self
            },
        }
    }
}

impl From<tonic::Status> for Failure {
    fn from(status: tonic::Status) -> Self {
        Self::from(CallError::from(status))
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        let CallError {
            kind,
            code,
            message,
        } = error;
        match kind {
            Kind::Usage => Self::usage(message),
            Kind::Transient if code == Code::Unavailable => Self {
                code: NO_MANAGER,
                message,
            },
            Kind::Transient | Kind::Permanent | Kind::Tainted => Self::failed(message),
        }
    }
}
