//! The look for answers that the image holds, once per template, after its prepare and before its
//! first sandbox: what is seen is what rollouts will see.

use std::time::Duration;

use innkeeper_leaks::{Question, Report};
use innkeeper_proto::v1::TemplateSpec;

use crate::inside::{Answer, Call};
use crate::sandbox::{Machine, Sandbox};

/// How long the look may take: some 10 times what the largest repositories of tasks need.
const PATIENCE: Duration = Duration::from_secs(120);

/// Looks. Never fails: what could not be looked at is in the report, and is not "nothing".
pub(super) async fn look(machine: &Machine, spec: &TemplateSpec, sandbox: &Sandbox) -> Report {
    let question = Question {
        workdir: spec.workdir.clone().into_bytes(),
        base_commit: spec.base_commit.clone(),
        patience_ms: PATIENCE.as_millis() as u64,
    };
    let asked = machine
        .spawner
        .call(&sandbox.live, None, Call::Scan(question), Vec::new());
    let why = match asked.await {
        Ok(Answer::Scanned(report)) => return *report,
        Ok(Answer::Failed { message, .. }) => message,
        Ok(_) => "it gave another answer".to_owned(),
        Err(error) => error.to_string(),
    };
    Report {
        unread: vec![format!("the look for answers failed: {why}")],
        ..Report::default()
    }
}
