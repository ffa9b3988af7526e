//! `attestation.json`: the manager's signed record of the sandbox, with what the grader states.
//!
//! The grader states the verdict as it returns the lease; the manager adds what the sandbox was
//! and what became of it, and signs both together. What could not be signed says why.

use innkeeper_grading::{InstanceReport, RunDir, Verdict};
use innkeeper_records::{FORMAT, VERSION, canonical};
use serde_json::{Map, Value, json};

use super::account;
use super::outcome::{Broken, Trace};
use super::plan::Job;
use super::worker::Shared;

/// Its name, beside the report.
pub(super) const FILE: &str = "attestation.json";

/// What the grader states of one grading: fields of the record.
pub(super) fn stated(
    job: &Job,
    shared: &Shared,
    judged: &Result<InstanceReport, Broken>,
    trace: &Trace,
) -> Map<String, Value> {
    let (verdict, cause) = match judged {
        Ok(report) => match report.verdict() {
            Verdict::Resolved => ("resolved", Value::Null),
            Verdict::Unresolved => ("unresolved", Value::Null),
            Verdict::InfraError { cause } => ("infra-error", cause.into()),
        },
        Err(why) => ("infra-error", why.word().into()),
    };
    let patch = job.prediction.model_patch.as_deref().unwrap_or_default();
    let stated = json!({
        "run_id": shared.run_id,
        "instance_id": job.row.instance_id,
        "model_name_or_path": job.prediction.model_name_or_path,
        "image_name": job.image,
        "verdict": verdict,
        "cause": cause,
        "patch": {
            "blake3": hash(patch.as_bytes()),
            "bytes": patch.len(),
            "flags": trace.flags,
            "pristine_runner": shared.pristine,
        },
        "eval_script_blake3": job.row.eval_script.as_deref().map(|script| hash(script.as_bytes())),
        "test_output_blake3": trace.output.as_deref().map(|output| hash(output.as_bytes())),
        "tests_status_blake3": judged.as_ref().ok().and_then(tests_status),
        "timeout_ms": u64::try_from(shared.timeout.as_millis()).unwrap_or(u64::MAX >> 11),
        "times": trace.times(),
    });
    match stated {
        Value::Object(stated) => stated,
        other => Map::from_iter([("stated".to_owned(), other)]),
    }
}

/// The hash of the report's `tests_status` in canonical JSON; null where the log shows no tests.
fn tests_status(report: &InstanceReport) -> Option<String> {
    let status = serde_json::to_value(report.tests_status.as_ref()?).ok()?;
    let text = canonical::text(&status).ok()?;
    Some(hash(text.as_bytes()))
}

fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_string()
}

/// The document of one grading: the manager's record where it signed what was stated, else what
/// is known, unsigned, with the reason.
pub(super) fn document(stated: Map<String, Value>, trace: &Trace) -> Value {
    let why = match &trace.returned {
        None => "no sandbox was leased".to_owned(),
        Some(Err(why)) => format!("the lease was not returned ({why})"),
        Some(Ok(reply)) => {
            let record = serde_json::from_str::<Value>(&reply.record_json).unwrap_or_default();
            let signed = stated
                .keys()
                .all(|field| record.get(field) == stated.get(field));
            if record.is_object() && signed {
                return record;
            }
            "the manager signed no record of this grading: its log says why, or it was started anew in between".to_owned()
        }
    };
    let mut document = stated;
    document.insert("format".to_owned(), FORMAT.into());
    document.insert("version".to_owned(), VERSION.into());
    document.insert("kind".to_owned(), "grading".into());
    document.insert("made_at".to_owned(), account::now().into());
    document.insert("signature".to_owned(), Value::Null);
    document.insert("unsigned".to_owned(), why.into());
    document.into()
}

/// The record of an earlier run; null where there is none to read.
pub(super) fn read(reports: &RunDir, model: &str, id: &str) -> Value {
    let path = reports.instance(model, id).map(|dir| dir.join(FILE));
    let text = path.ok().and_then(|path| std::fs::read(path).ok());
    text.and_then(|text| serde_json::from_slice(&text).ok())
        .unwrap_or(Value::Null)
}
