//! Answers of operations: what the wire says of baselines, verdicts and errors.

use std::time::Instant;

use innkeeper_proto::v1::{
    ComponentResult, Depth as WireDepth, Difference, ResetReply, SpecialiseReply,
};
use innkeeper_reset::baseline::{Baseline, Verdict};
use innkeeper_reset::files::Depth;
use tonic::Status;

use crate::template::{Template, TemplateError};

pub(super) fn status_of(error: &TemplateError) -> Status {
    let text = innkeeper_reset::layered::Fault::of(error).0;
    match error {
        TemplateError::Invalid(_) => Status::invalid_argument(text),
        TemplateError::NotPrepared { .. } => Status::failed_precondition(text),
        TemplateError::Prepare { .. }
        | TemplateError::BaseCommit(_)
        | TemplateError::Service { .. } => Status::out_of_range(text),
        TemplateError::Build(_)
        | TemplateError::Capture(_)
        | TemplateError::Keep(_)
        | TemplateError::Store(_) => Status::internal(text),
    }
}

pub(super) fn files_digest(baseline: &Baseline) -> String {
    let files = baseline
        .components
        .get(&innkeeper_reset::components::Component::Files);
    files.map(ToString::to_string).unwrap_or_default()
}

/// How a sandbox that was just made was seen to equal its template's baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// The baseline was captured from it.
    AsBaseline,
    /// It was compared, so deep.
    Equal(Depth),
}

pub(super) fn reply_for(
    template: &Template,
    generation: u64,
    seen: Option<Seen>,
    started: Instant,
) -> SpecialiseReply {
    let verified = match seen {
        // Two captures of all of it were equal, or the template is single use.
        Some(Seen::AsBaseline) if template.single_use.is_none() => WireDepth::Full,
        Some(Seen::Equal(depth)) => depth_of(depth),
        Some(Seen::AsBaseline) | None => WireDepth::Unspecified,
    };
    SpecialiseReply {
        generation,
        first: seen == Some(Seen::AsBaseline),
        verified: verified.into(),
        components: components(&template.baseline, |digest| digest),
        baseline: template.baseline.digest().to_string(),
        single_use: template.single_use.clone().unwrap_or_default(),
        disk_limit: template.disk_limit().to_owned(),
        leaks_json: leaks(template),
        ms: started.elapsed().as_secs_f64() * 1000.0,
    }
}

fn leaks(template: &Template) -> String {
    let report = template.leaks.as_ref();
    report
        .and_then(|report| serde_json::to_string(report).ok())
        .unwrap_or_default()
}

/// One result per component of a baseline; `now` gives the digest seen for a baseline's.
fn components(baseline: &Baseline, now: impl Fn(String) -> String) -> Vec<ComponentResult> {
    baseline
        .components
        .iter()
        .map(|(component, digest)| {
            let (baseline, digest) = (digest.to_string(), now(digest.to_string()));
            ComponentResult {
                name: component.name().to_owned(),
                equal: baseline == digest,
                digest,
                baseline,
            }
        })
        .collect()
}

pub(super) fn tainted_reply(
    baseline: &Baseline,
    generation: u64,
    cause: String,
    started: Instant,
) -> ResetReply {
    ResetReply {
        clean: false,
        generation,
        baseline: baseline.digest().to_string(),
        components: components(baseline, |_| String::new()),
        cause,
        ms: started.elapsed().as_secs_f64() * 1000.0,
        ..ResetReply::default()
    }
}

pub(super) fn reset_reply(
    baseline: &Baseline,
    verdict: &Verdict,
    generation: u64,
    started: Instant,
) -> ResetReply {
    match verdict {
        Verdict::Clean(clean) => ResetReply {
            clean: true,
            generation,
            digest: clean.digest().to_string(),
            baseline: baseline.digest().to_string(),
            verified: depth_of(clean.depth()).into(),
            components: components(baseline, |digest| digest),
            ms: started.elapsed().as_secs_f64() * 1000.0,
            ..ResetReply::default()
        },
        Verdict::Tainted(tainted) => {
            let mut reply = tainted_reply(baseline, generation, tainted.cause.to_string(), started);
            for component in &mut reply.components {
                let seen = tainted
                    .digests
                    .iter()
                    .find(|(c, _)| c.name() == component.name);
                component.digest = seen.map(|(_, d)| d.to_string()).unwrap_or_default();
                component.equal = component.digest == component.baseline;
            }
            reply.differs = tainted.differences.iter().map(difference).collect();
            reply
        }
    }
}

fn difference(d: &innkeeper_reset::difference::Difference) -> Difference {
    Difference {
        component: d.component.name().to_owned(),
        path: d.path.clone().into(),
        what: d.what.to_string(),
        baseline: d.baseline.clone().unwrap_or_default(),
        now: d.now.clone().unwrap_or_default(),
    }
}

fn depth_of(depth: Depth) -> WireDepth {
    match depth {
        Depth::Swap => WireDepth::Swap,
        Depth::Walk => WireDepth::Walk,
        Depth::Full => WireDepth::Full,
    }
}
