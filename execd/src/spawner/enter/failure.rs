//! Why something in the spawner or one of its children failed, small enough for a pipe.

use std::io;

use serde::{Deserialize, Serialize};

use crate::spawner::client::{self, SpawnError};
use crate::spawner::protocol::Reply;

/// A failed step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    step: String,
    errno: i32,
    /// 126 or 127 where the command itself is to blame, else 0.
    exit_code: i32,
}

impl Failure {
    /// A step and an errno (0: none).
    pub fn new(step: &str, errno: i32) -> Self {
        Self {
            step: step.to_owned(),
            errno,
            exit_code: 0,
        }
    }

    /// From an error at a step.
    pub fn of(step: String, error: io::Error) -> Self {
        let errno = error.raw_os_error().unwrap_or(0);
        let step = if errno == 0 {
            format!("{step}: {error}")
        } else {
            step
        };
        Self {
            step,
            errno,
            exit_code: 0,
        }
    }

    /// For `map_err`.
    pub fn at(step: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self::of(step.to_owned(), error)
    }

    /// A command that cannot be run, with the exit code that shells and Docker give.
    pub fn of_command(step: String, error: io::Error, exit_code: i32) -> Self {
        Self {
            exit_code,
            ..Self::of(step, error)
        }
    }

    /// For a channel.
    pub fn encode(&self) -> Vec<u8> {
        let mut step = self.step.clone().into_bytes();
        step.truncate(200);
        let mut out = self.errno.to_le_bytes().to_vec();
        out.extend(self.exit_code.to_le_bytes());
        out.extend(step);
        out
    }

    /// From a channel.
    pub fn decode(bytes: &[u8]) -> Self {
        let number = |at: usize| {
            bytes
                .get(at..at + 4)
                .and_then(|b| b.try_into().ok())
                .map_or(0, i32::from_le_bytes)
        };
        let step = String::from_utf8_lossy(bytes.get(8..).unwrap_or_default()).into_owned();
        Self {
            step,
            errno: number(0),
            exit_code: number(4),
        }
    }

    /// For the daemon.
    pub fn reply(&self) -> Reply {
        Reply::Failed {
            step: self.step.clone(),
            errno: self.errno,
            exit_code: self.exit_code,
        }
    }
}

impl From<Failure> for SpawnError {
    fn from(failure: Failure) -> Self {
        client::failed(failure.step, failure.errno, failure.exit_code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_survives_its_channel() {
        let failure = Failure::of_command(
            "running /nowhere".to_owned(),
            io::Error::from_raw_os_error(libc::ENOENT),
            127,
        );
        assert_eq!(Failure::decode(&failure.encode()), failure);
    }
}
