//! The canary: what was graded in a sandbox that was never used is graded again in one that was
//! reused often, and verdict and tests must come out alike.

use std::collections::{BTreeMap, BTreeSet};

use innkeeper_grading::{InstanceReport, TestsStatus, Verdict};
use innkeeper_proto::v1::CanaryRequest;
use serde_json::{Map, Value, json};

use super::account::Account;
use super::outcome::{Broken, Outcome, Trace};
use super::plan::Job;
use super::worker::{self, Shared};
use crate::cli::connect::Client;
use crate::cli::failure::Failure;

/// Leases that are given back unused until one is of a sandbox reused often enough: the pool hands
/// out the most used one first, so that one pass through its life is enough when nobody else asks.
const PATIENCE: u32 = 32;

/// Tests that an explanation names.
const NAMED: usize = 3;

/// One comparison.
#[derive(Debug)]
pub(super) struct Canary {
    pub(super) instance_id: String,
    pub(super) fresh: String,
    pub(super) reused: Option<String>,
    pub(super) uses: u32,
    /// same, differs, or not_run.
    pub(super) outcome: String,
    /// What differs, or why nothing was compared.
    pub(super) cause: Option<String>,
}

impl Canary {
    /// As the run's JSON document has it.
    pub(super) fn document(&self) -> Value {
        json!({
            "instance_id": self.instance_id, "fresh_lease": self.fresh,
            "reused_lease": self.reused, "uses": self.uses,
            "outcome": self.outcome, "cause": self.cause,
        })
    }

    /// As a person reads it.
    pub(super) fn line(&self) -> String {
        let cause = self.cause.as_deref().unwrap_or_default();
        match self.outcome.as_str() {
            "same" => format!(
                "canary {}: the same after {} uses\n",
                self.instance_id, self.uses
            ),
            "not_run" => format!("canary {}: not run: {cause}\n", self.instance_id),
            _ => format!(
                "canary {}: DIFFERS after {} uses: {cause}\n",
                self.instance_id, self.uses
            ),
        }
    }
}

/// Compares, for each image, the first grading that got a sandbox which was never used.
pub(super) async fn run(
    client: &Client,
    jobs: &[Job],
    outcomes: &[Outcome],
    uses: u32,
    shared: &Shared,
) -> Vec<Canary> {
    let mut canaries = Vec::new();
    let mut images = BTreeSet::new();
    for outcome in outcomes {
        let (Some(report), Some(lease)) = (&outcome.report, fresh_lease(&outcome.record)) else {
            continue;
        };
        let of = |job: &&Job| {
            job.row.instance_id == outcome.instance_id
                && job.prediction.model_name_or_path == outcome.model
        };
        let Some(job) = jobs.iter().find(of) else {
            continue;
        };
        if shared.interrupted.is_cancelled() || !images.insert(&job.image) {
            continue;
        }
        canaries.push(one(client, job, lease, report, uses, shared).await);
    }
    canaries
}

/// The lease of a signed record whose sandbox was never used.
fn fresh_lease(record: &Value) -> Option<&str> {
    let signed = record["signature"].is_object() && record["lease"]["uses"] == 0;
    record["lease"]["lease"].as_str().filter(|_| signed)
}

async fn one(
    client: &Client,
    job: &Job,
    fresh: &str,
    report: &InstanceReport,
    uses: u32,
    shared: &Shared,
) -> Canary {
    let mut canary = Canary {
        instance_id: job.row.instance_id.clone(),
        fresh: fresh.to_owned(),
        reused: None,
        uses: 0,
        outcome: "not_run".to_owned(),
        cause: None,
    };
    if let Err(why) = compare(client, job, report, uses, shared, &mut canary).await {
        canary.cause = Some(why);
    }
    canary
}

async fn compare(
    client: &Client,
    job: &Job,
    fresh: &InstanceReport,
    uses: u32,
    shared: &Shared,
    canary: &mut Canary,
) -> Result<(), String> {
    let mut tries = 0;
    let lease = loop {
        let lease = worker::ask(client, job, shared)
            .await
            .map_err(|e| e.to_string())?;
        if lease.uses >= uses {
            break lease;
        }
        worker::give_back(client.clone(), lease.lease, false, &Map::new()).await?;
        tries += 1;
        if tries == PATIENCE {
            return Err(format!(
                "no sandbox of {} came to {uses} uses: others use the pool, or its slots are not reused as often",
                job.image
            ));
        }
    };
    canary.reused = Some(lease.lease.clone());
    canary.uses = lease.uses;
    let (mut account, mut trace) = (Account::default(), Trace::default());
    let again = worker::on_lease(client, lease, job, shared, &mut account, &mut trace).await;
    if matches!(again, Err(Broken::Interrupted)) {
        return Err("interrupted".to_owned());
    }
    let request = CanaryRequest {
        fresh: canary.fresh.clone(),
        reused: canary.reused.clone().unwrap_or_default(),
        cause: differences(fresh, &again),
    };
    let told = client.clone().canary(request).await;
    let told = told.map_err(|status| Failure::from(status).message)?;
    let told: Value = serde_json::from_str(&told.into_inner().json).unwrap_or_default();
    canary.outcome = told["outcome"].as_str().unwrap_or("not_run").to_owned();
    canary.cause = told["cause"].as_str().map(str::to_owned);
    Ok(())
}

/// What differs between two gradings, in words.
fn differences(fresh: &InstanceReport, again: &Result<InstanceReport, Broken>) -> String {
    let again = match again {
        Ok(again) => again,
        Err(why) => return format!("{} fresh, and reused: {why}", word(fresh)),
    };
    let mut said = Vec::new();
    if fresh.verdict() != again.verdict() {
        said.push(format!("{} fresh, {} reused", word(fresh), word(again)));
    }
    let (before, after) = (statuses(fresh), statuses(again));
    let names: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let changed: Vec<_> = names
        .into_iter()
        .filter(|name| before.get(*name) != after.get(*name))
        .collect();
    for name in changed.iter().take(NAMED) {
        let say = |status: Option<&bool>| match status {
            Some(true) => "passed",
            Some(false) => "failed",
            None => "not seen",
        };
        let (was, is) = (say(before.get(*name)), say(after.get(*name)));
        said.push(format!("{name} {was} fresh, {is} reused"));
    }
    if changed.len() > NAMED {
        said.push(format!("and {} more tests", changed.len() - NAMED));
    }
    said.join("; ")
}

fn word(report: &InstanceReport) -> &'static str {
    match report.verdict() {
        Verdict::Resolved => "resolved",
        Verdict::Unresolved => "unresolved",
        Verdict::InfraError { .. } => "infra-error",
    }
}

/// Whether each test came out as it should.
fn statuses(report: &InstanceReport) -> BTreeMap<&str, bool> {
    let Some(TestsStatus {
        fail_to_pass,
        pass_to_pass,
        ..
    }) = &report.tests_status
    else {
        return BTreeMap::new();
    };
    let mut statuses = BTreeMap::new();
    for outcomes in [fail_to_pass, pass_to_pass] {
        statuses.extend(outcomes.success.iter().map(|test| (test.as_str(), true)));
        statuses.extend(outcomes.failure.iter().map(|test| (test.as_str(), false)));
    }
    statuses
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(success: &[&str], failure: &[&str]) -> InstanceReport {
        let mut status = TestsStatus::default();
        status.pass_to_pass.success = success.iter().map(ToString::to_string).collect();
        status.pass_to_pass.failure = failure.iter().map(ToString::to_string).collect();
        InstanceReport {
            patch_exists: true,
            patch_successfully_applied: true,
            resolved: failure.is_empty(),
            tests_status: Some(status),
            ..InstanceReport::default()
        }
    }

    #[test]
    fn differences_name_verdict_and_tests() {
        let fresh = report(&["a", "b"], &[]);
        assert_eq!(differences(&fresh, &Ok(fresh.clone())), "");
        assert_eq!(
            differences(&fresh, &Ok(report(&["a"], &["b"]))),
            "resolved fresh, unresolved reused; b passed fresh, failed reused"
        );
        assert_eq!(
            differences(&fresh, &Ok(report(&[], &["a", "b", "c", "d"]))),
            "resolved fresh, unresolved reused; a passed fresh, failed reused; b passed fresh, failed reused; c not seen fresh, failed reused; and 1 more tests"
        );
        assert!(differences(&fresh, &Err(Broken::PatchDoesNotApply)).contains("does not apply"));
    }
}
