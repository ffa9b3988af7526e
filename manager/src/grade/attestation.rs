//! `attestation.json`: what a grading stood on. Not signed yet, and it says so.

use innkeeper_grading::{InstanceReport, RunDir, Verdict};
use innkeeper_proto::v1::{LeaseReply, ReturnReply};
use serde_json::{Value, json};

use super::account;
use super::outcome::{Broken, Trace};
use super::plan::Job;
use super::worker::Shared;
use crate::cli::output::{optional, seconds};
use crate::cli::returning;

/// Its name, beside the report.
pub(super) const FILE: &str = "attestation.json";

/// Version of this document.
const VERSION: u32 = 1;

/// The record of one grading.
pub(super) fn make(
    job: &Job,
    shared: &Shared,
    judged: &Result<InstanceReport, Broken>,
    trace: &Trace,
) -> Value {
    let (verdict, cause) = match judged {
        Ok(report) => match report.verdict() {
            Verdict::Resolved => ("resolved", Value::Null),
            Verdict::Unresolved => ("unresolved", Value::Null),
            Verdict::InfraError { cause } => ("infra-error", cause.into()),
        },
        Err(why) => ("infra-error", why.word().into()),
    };
    let patch = job.prediction.model_patch.as_deref().unwrap_or_default();
    json!({
        "format": "innkeeper-attestation",
        "version": VERSION,
        "signature": null,
        "made_at": account::now(),
        "run_id": shared.run_id,
        "instance_id": job.row.instance_id,
        "model_name_or_path": job.prediction.model_name_or_path,
        "verdict": verdict,
        "cause": cause,
        "image": {
            "name": job.image,
            "digest": optional(trace.lease.as_ref().map_or("", |lease| lease.image_digest.as_str())),
        },
        "lease": trace.lease.as_ref().map(lease),
        "return": match &trace.returned {
            Some(Ok(reply)) => returned(reply),
            Some(Err(why)) => json!({ "outcome": null, "error": why }),
            None => Value::Null,
        },
        "patch": {
            "blake3": blake3::hash(patch.as_bytes()).to_string(),
            "bytes": patch.len(),
            "flags": trace.flags,
            "pristine_runner": shared.pristine,
        },
        "eval_script_blake3": job.row.eval_script.as_deref().map(|s| blake3::hash(s.as_bytes()).to_string()),
        "test_output_blake3": trace.output.as_deref().map(|o| blake3::hash(o.as_bytes()).to_string()),
        "timeout_s": shared.timeout.as_secs_f64(),
        "times": trace.times(),
        "versions": {
            "innkeeper": env!("CARGO_PKG_VERSION"),
            "manager": optional(&shared.manager.version),
            "provider": optional(&shared.manager.provider),
        },
    })
}

/// The record of an earlier run; null where there is none to read.
pub(super) fn read(reports: &RunDir, model: &str, id: &str) -> Value {
    let path = reports.instance(model, id).map(|dir| dir.join(FILE));
    let text = path.ok().and_then(|path| std::fs::read(path).ok());
    text.and_then(|text| serde_json::from_slice(&text).ok())
        .unwrap_or(Value::Null)
}

fn lease(lease: &LeaseReply) -> Value {
    json!({
        "lease": lease.lease,
        "slot": lease.slot,
        "generation": lease.generation,
        "sandbox": format!("{}.{}", lease.slot, lease.generation),
        "supply": lease.supply,
        "specialised": lease.specialised,
        "uses": lease.uses,
        "strategy": lease.strategy,
        "rights": lease.rights,
        "template": lease.template,
        "baseline": lease.baseline,
        "verified": optional(&lease.verified),
        "boot_id": lease.boot_id,
        "disk_limit": optional(&lease.disk_limit),
        "deadline": seconds(lease.deadline_ms),
    })
}

fn returned(reply: &ReturnReply) -> Value {
    let mut document = returning::document(reply);
    if let Some(object) = document.as_object_mut() {
        object.remove("record");
    }
    document
}
