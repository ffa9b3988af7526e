//! How one grading came out.

use std::time::Duration;

use innkeeper_grading::{Flag, InstanceReport, Verdict};
use innkeeper_proto::v1::ReturnReply;
use serde_json::{Value, json};

use super::plan::Job;
use crate::cli::failure::Failure;

/// Why an instance has no verdict.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    /// No sandbox was to be had.
    #[error("no sandbox of image {image}: {why}")]
    NoSandbox {
        /// The image.
        image: String,
        /// Why.
        why: String,
    },
    /// The harness has no verdict on a patch that does not apply.
    #[error(
        "the patch does not apply to the base commit: make it with git diff against that commit (the attempts stand in run_instance.log)"
    )]
    PatchDoesNotApply,
    /// The script did not end in time.
    #[error("the eval script ran into its timeout of {}: give it more with --timeout", humantime(*.0))]
    TimedOut(Duration),
    /// The image has no shell to run the script with.
    #[error("the eval script could not be started ({0}): the image needs /bin/bash")]
    NoShell(String),
    /// The row cannot be graded.
    #[error("{0}")]
    Task(String),
    /// The report could not be written.
    #[error("{0}")]
    Report(String),
    /// A call on the sandbox failed.
    #[error("{0}")]
    Call(String),
    /// The user wants to stop.
    #[error("interrupted")]
    Interrupted,
}

impl Broken {
    /// A short word for the cause.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::NoSandbox { .. } => "no_sandbox",
            Self::PatchDoesNotApply => "patch_does_not_apply",
            Self::TimedOut(_) => "timeout",
            Self::NoShell(_) => "no_shell",
            Self::Task(_) => "task",
            Self::Report(_) => "report",
            Self::Call(_) => "sandbox",
            Self::Interrupted => "interrupted",
        }
    }
}

impl From<Failure> for Broken {
    fn from(failure: Failure) -> Self {
        Self::Call(failure.message)
    }
}

fn humantime(duration: Duration) -> String {
    if duration.subsec_millis() > 0 {
        format!("{}ms", duration.as_millis())
    } else {
        format!("{}s", duration.as_secs())
    }
}

/// One grading, as tables and records show it.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    /// The instance.
    pub(super) instance_id: String,
    /// The model, as the prediction names it.
    pub(super) model: String,
    /// `resolved`, `unresolved` or `infra-error`.
    pub(super) verdict: &'static str,
    /// With `infra-error`: a short word, and a sentence.
    pub(super) broken: Option<(String, String)>,
    /// It was on disk from an earlier run.
    pub(super) skipped: bool,
    /// Test by test; None for a grading without a report, or of an earlier run.
    pub(super) report: Option<InstanceReport>,
    /// The record, as it stands in attestation.json: supply, uses, digests and times.
    pub(super) record: Value,
}

impl Outcome {
    /// A grading that came to a report.
    pub(super) fn graded(job: &Job, verdict: Verdict) -> Self {
        let (verdict, broken) = match verdict {
            Verdict::Resolved => ("resolved", None),
            Verdict::Unresolved => ("unresolved", None),
            Verdict::InfraError { cause } => {
                let sentence = format!(
                    "its log shows a broken environment ({cause}), not a fair trial of the patch"
                );
                ("infra-error", Some((cause, sentence)))
            }
        };
        Self {
            verdict,
            broken,
            ..Self::of(job)
        }
    }

    /// The same with what it was judged by.
    pub(super) fn with(self, report: InstanceReport) -> Self {
        Self {
            report: Some(report),
            ..self
        }
    }

    /// A grading that came to none.
    pub(super) fn broken(job: &Job, why: &Broken) -> Self {
        Self {
            verdict: "infra-error",
            broken: Some((why.word().to_owned(), why.to_string())),
            ..Self::of(job)
        }
    }

    /// A grading of an earlier run.
    pub(super) fn reported(job: &Job, verdict: Verdict, record: Value) -> Self {
        Self {
            skipped: true,
            record,
            ..Self::graded(job, verdict)
        }
    }

    fn of(job: &Job) -> Self {
        Self {
            instance_id: job.row.instance_id.clone(),
            model: job.prediction.model_name_or_path.clone(),
            ..Self::default()
        }
    }

    /// Why there is no verdict, as a sentence.
    pub(super) fn cause(&self) -> Option<&str> {
        self.broken.as_ref().map(|(_, sentence)| sentence.as_str())
    }
}

/// What was learned on the way, for the record.
#[derive(Debug, Default)]
pub(super) struct Trace {
    /// How it was returned, or why it was not.
    pub(super) returned: Option<Result<ReturnReply, String>>,
    /// Files of the patch that judge it.
    pub(super) flags: Vec<Flag>,
    /// What the eval script printed.
    pub(super) output: Option<String>,
    /// Until the lease was granted.
    pub(super) asked: Duration,
    /// From the lease to the end of the eval script.
    pub(super) graded: Duration,
}

impl Trace {
    /// The times in whole microseconds, as records have them.
    pub(super) fn times(&self) -> Value {
        json!({ "lease_us": micros(self.asked), "grade_us": micros(self.graded) })
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX >> 11)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_says_what_to_do_or_what_happened() {
        let late = Broken::TimedOut(Duration::from_millis(1500));
        assert_eq!(late.word(), "timeout");
        assert!(late.to_string().contains("1500ms") && late.to_string().contains("--timeout"));
        assert!(
            Broken::TimedOut(Duration::from_secs(1800))
                .to_string()
                .contains("1800s")
        );
        assert!(Broken::PatchDoesNotApply.to_string().contains("git diff"));
    }
}
