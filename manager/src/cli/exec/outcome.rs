//! How a command ended, as exit code and as the contract's JSON.

use innkeeper_proto::v1::ExecFinished;
use serde_json::{Map, Value};

use crate::cli::failure::{OWN_FAILURE, TIMED_OUT};
use crate::cli::output::put_bytes;

/// The last frame of an exec, with what was collected of its output.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// The last frame.
    pub(crate) finished: ExecFinished,
    /// Standard output, where it was collected; with a terminal or merged output, all of it.
    pub(crate) stdout: Vec<u8>,
    /// Standard error, where it was collected.
    pub(crate) stderr: Vec<u8>,
}

impl Outcome {
    /// The exit code that `exec` ends with.
    pub(crate) fn code(&self) -> i32 {
        let end = &self.finished;
        if end.timed_out {
            return TIMED_OUT;
        }
        match end.exit_code {
            Some(code) => code,
            None if end.signal > 0 => 128 + end.signal,
            None => OWN_FAILURE,
        }
    }

    /// Why the command never ran, where it did not.
    pub(crate) fn not_started(&self) -> Option<&str> {
        Some(self.finished.not_started.as_str()).filter(|reason| !reason.is_empty())
    }

    /// The contract's JSON.
    pub(crate) fn document(&self) -> Value {
        let end = &self.finished;
        let mut object = Map::new();
        object.insert("exit_code".to_owned(), end.exit_code.into());
        let signal = (end.signal != 0).then_some(end.signal);
        object.insert("signal".to_owned(), signal.into());
        for (name, flag) in [
            ("timed_out", end.timed_out),
            ("oom", end.oom),
            ("pipe_held", end.pipe_held),
            ("truncated", end.truncated),
        ] {
            object.insert(name.to_owned(), flag.into());
        }
        put_bytes(&mut object, "stdout", &self.stdout);
        put_bytes(&mut object, "stderr", &self.stderr);
        object.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(finished: ExecFinished) -> Outcome {
        Outcome {
            finished,
            ..Outcome::default()
        }
    }

    #[test]
    fn exit_codes_are_those_of_docker() {
        assert_eq!(
            ended(ExecFinished {
                exit_code: Some(3),
                ..Default::default()
            })
            .code(),
            3
        );
        assert_eq!(
            ended(ExecFinished {
                signal: 9,
                oom: true,
                ..Default::default()
            })
            .code(),
            137
        );
        assert_eq!(
            ended(ExecFinished {
                signal: 9,
                timed_out: true,
                ..Default::default()
            })
            .code(),
            124
        );
        assert_eq!(
            ended(ExecFinished {
                exit_code: Some(127),
                not_started: "none".into(),
                ..Default::default()
            })
            .code(),
            127
        );
        // A last frame that says nothing is no success.
        assert_eq!(ended(ExecFinished::default()).code(), 125);
    }

    #[test]
    fn the_document_has_the_fields_of_the_contract() {
        let mut outcome = ended(ExecFinished {
            signal: 15,
            ..Default::default()
        });
        outcome.stdout = b"\xfe".to_vec();
        assert_eq!(
            outcome.document().to_string(),
            r#"{"exit_code":null,"oom":false,"pipe_held":false,"signal":15,"stderr":"","stdout_b64":"/g==","timed_out":false,"truncated":false}"#
        );
    }
}
