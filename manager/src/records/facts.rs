//! What a record says of a lease. Pure: all of it is known, none of it is guessed; what is not
//! known is null.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use innkeeper_leaks::Report;
use innkeeper_pool::{Baseline, Lease, Outcome, Supplied};
use innkeeper_proto::v1;
use serde_json::{Map, Value, json};

use crate::engine::{OVERALL, how_word};
use crate::template::form::Form;

/// Fields that the manager fills; whoever holds a lease may state none of them.
pub const OWN_FIELDS: [&str; 13] = [
    "format",
    "version",
    "signature",
    "unsigned",
    "kind",
    "stated_by_holder",
    "tenant",
    "image",
    "leaks",
    "lease",
    "return",
    "versions",
    "made_at",
];

/// What the engine knows beside the pool's record of a lease.
#[derive(Debug, Clone, Default)]
pub struct Beside {
    /// How its slot was made; None where the template's definition is gone.
    pub form: Option<Form>,
    /// The build of the daemon that held it and the kernel; None where that daemon is gone.
    pub platform: Option<String>,
    /// The daemon's boot in which the sandbox lived; empty where that is not known.
    pub boot_id: String,
    /// How firmly the disk was limited.
    pub disk_limit: String,
    /// The provider's word.
    pub provider: &'static str,
    /// Whether the template is put back by no strategy.
    pub single_use: bool,
    /// What the reset said, where one ran and answered in this life of the manager.
    pub reset: Option<v1::ResetReply>,
    /// What a scan for answers left in the image found.
    pub leaks: Option<Arc<Report>>,
    /// What the lease's holder states about the work, in fields of its own.
    pub stated: Map<String, Value>,
}

/// The fields of the record of a lease that is over. None while its reset runs.
pub fn of(lease: &Lease, beside: Beside) -> Option<Map<String, Value>> {
    let ended = lease.ended.as_ref()?;
    let outcome = ended.outcome.as_ref()?;
    let Beside {
        form,
        platform,
        boot_id,
        disk_limit,
        provider,
        single_use,
        reset,
        leaks,
        stated,
    } = beside;
    let strategy = match form {
        _ if single_use => Some("none"),
        Some(form) => Some(form.strategy().as_str()),
        None => None,
    };
    let by_holder: Vec<_> = stated.keys().cloned().collect();
    let mut record = stated;
    let mut put = |name: &str, value: Value| drop(record.insert(name.to_owned(), value));
    put(
        "kind",
        if by_holder.is_empty() {
            "return"
        } else {
            "grading"
        }
        .into(),
    );
    put("stated_by_holder", by_holder.into());
    put("tenant", lease.request.tenant.as_str().into());
    put("image", json!({ "digest": lease.image.as_str() }));
    put(
        "leaks",
        leaks
            .and_then(|leaks| serde_json::to_value(&*leaks).ok())
            .unwrap_or_default(),
    );
    put(
        "lease",
        json!({
            "lease": lease.id.as_str(),
            "job": optional(&lease.job),
            "holder": optional(&lease.holder),
            "slot": lease.slot.as_str(),
            "generation": lease.generation,
            "sandbox": lease.sandbox(),
            "supply": supply_word(lease.supply),
            "specialised": lease.specialised,
            "uses": lease.uses,
            "strategy": strategy,
            "rights": form.map(|form| form.rights().as_str()),
            "layout": form.map(|form| form.layout().as_str()),
            "template": lease.template.as_str(),
            "baseline": lease.baseline.as_ref().and_then(overall),
            "components": lease.baseline.as_ref().map(digests),
            "verified": lease.verified.map(innkeeper_pool::Depth::word),
            "boot_id": optional(&boot_id),
            "disk_limit": optional(&disk_limit),
            "granted": moment(lease.granted),
            "deadline": moment(lease.deadline),
        }),
    );
    let mut back = returned(lease, outcome, reset.as_ref());
    back["how"] = how_word(ended.how).into();
    back["ended"] = moment(ended.at);
    put("return", back);
    put(
        "versions",
        json!({
            "innkeeper": env!("CARGO_PKG_VERSION"),
            "provider": provider,
            "platform": platform,
        }),
    );
    Some(record)
}

/// What became of the sandbox. Clean stands on what the pool compared, the rest on what the reset
/// said about itself.
fn returned(lease: &Lease, outcome: &Outcome, reset: Option<&v1::ResetReply>) -> Value {
    let reset_us = reset.map(|reset| micros(reset.ms));
    match outcome {
        Outcome::Clean {
            verified,
            observed,
            retired,
        } => json!({
            "outcome": "clean",
            "uses": lease.uses,
            "verified": verified.word(),
            "digest": overall(observed),
            "baseline": lease.baseline.as_ref().and_then(overall),
            "components": compared(lease.baseline.as_ref(), observed),
            "differs": [],
            "retired": retired.as_ref().map(ToString::to_string),
            "reset_us": reset_us,
        }),
        Outcome::Tainted { cause } => json!({
            "outcome": "tainted",
            "uses": lease.uses,
            "verified": reset.and_then(|reset| depth_word(reset.verified())),
            "digest": reset.and_then(|reset| optional_text(&reset.digest)),
            "baseline": lease.baseline.as_ref().and_then(overall),
            "components": reset.map(|reset| components(&reset.components)).unwrap_or_default(),
            "differs": reset.map(|reset| differences(&reset.differs)).unwrap_or_default(),
            "retired": format!("tainted: {cause}"),
            "reset_us": reset_us,
        }),
        Outcome::Discarded { retired } => json!({
            "outcome": "discarded",
            "uses": lease.uses,
            "verified": null,
            "digest": null,
            "baseline": lease.baseline.as_ref().and_then(overall),
            "components": {},
            "differs": [],
            "retired": retired.to_string(),
            "reset_us": null,
        }),
    }
}

/// Observed digests beside those on record.
fn compared(baseline: Option<&Baseline>, observed: &Baseline) -> Value {
    let recorded = |name: &str| baseline.and_then(|baseline| baseline.components.get(name));
    let digests = observed
        .components
        .iter()
        .filter(|(name, _)| *name != OVERALL);
    let entry = |(name, digest): (&String, &String)| {
        let baseline = recorded(name);
        let equal = baseline == Some(digest);
        (
            name.clone(),
            json!({ "digest": digest, "baseline": baseline, "equal": equal }),
        )
    };
    digests.map(entry).collect::<Map<_, _>>().into()
}

fn components(components: &[v1::ComponentResult]) -> Value {
    let entry = |c: &v1::ComponentResult| {
        let value = json!({ "digest": c.digest, "baseline": c.baseline, "equal": c.equal });
        (c.name.clone(), value)
    };
    components.iter().map(entry).collect::<Map<_, _>>().into()
}

fn differences(differences: &[v1::Difference]) -> Value {
    let entry = |d: &v1::Difference| {
        // Paths are bytes; what is no text is shown as nearly as text can.
        let path = String::from_utf8_lossy(&d.path);
        json!({
            "component": d.component, "path": path, "what": d.what,
            "baseline": d.baseline, "now": d.now,
        })
    };
    differences.iter().map(entry).collect::<Vec<_>>().into()
}

fn digests(baseline: &Baseline) -> Value {
    let digests = baseline
        .components
        .iter()
        .filter(|(name, _)| *name != OVERALL);
    digests
        .map(|(name, digest)| (name.clone(), digest.as_str().into()))
        .collect::<Map<_, _>>()
        .into()
}

fn overall(baseline: &Baseline) -> Option<&str> {
    baseline.components.get(OVERALL).map(String::as_str)
}

fn supply_word(supply: Supplied) -> &'static str {
    crate::events::supply_word(supply)
}

fn depth_word(depth: v1::Depth) -> Option<&'static str> {
    match depth {
        v1::Depth::Unspecified => None,
        v1::Depth::Swap => Some("swap"),
        v1::Depth::Walk => Some("walk"),
        v1::Depth::Full => Some("full"),
    }
}

fn optional(text: &str) -> Value {
    optional_text(text).into()
}

fn optional_text(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

/// A time as RFC 3339 in UTC, to the millisecond.
fn moment(unix_ms: u64) -> Value {
    let time = i64::try_from(unix_ms)
        .ok()
        .and_then(DateTime::from_timestamp_millis);
    time.map(text).into()
}

/// The time now.
pub(super) fn now() -> String {
    text(Utc::now())
}

fn text(time: DateTime<Utc>) -> String {
    time.format("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// Milliseconds as whole microseconds: records hold no fractions.
fn micros(ms: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturates"
    )]
    let micros = (ms * 1000.0).round() as u64;
    micros
}
