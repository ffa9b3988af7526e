//! Gradings side by side: each leases, grades, returns, and then writes its report.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use innkeeper_grading::apply::PATCH_FILE;
use innkeeper_grading::{InstanceReport, Patch, Run, RunDir, flags};
use innkeeper_proto::v1::{LeaseReply, LeaseRequest, ReturnReply, ReturnRequest};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::account::Account;
use super::outcome::{Broken, Outcome, Trace};
use super::plan::Job;
use super::pristine::Pristine;
use super::sandbox::Sandbox;
use super::show::Bar;
use super::{apply, attestation, eval};
use crate::cli::connect::Client;
use crate::cli::failure::Failure;

/// Time that a lease outlives the eval script's timeout: for the patch, the report, and a
/// manager that is busy. A worker that is killed leaves its sandbox leased no longer.
const GRACE: Duration = Duration::from_secs(600);

/// What all workers share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) reports: RunDir,
    pub(super) run_id: String,
    pub(super) timeout: Duration,
    pub(super) pristine: bool,
    pub(super) interrupted: CancellationToken,
    pub(super) bar: Bar,
}

/// Grades all jobs, so many at once. After an interruption the running ones give their
/// sandboxes back and the rest is left out.
pub(super) async fn work(
    client: &Client,
    jobs: Vec<Job>,
    workers: usize,
    shared: &Arc<Shared>,
) -> Vec<Outcome> {
    let queue = Arc::new(Mutex::new(VecDeque::from(jobs)));
    let mut running = tokio::task::JoinSet::new();
    for _ in 0..workers {
        let (queue, shared, client) = (Arc::clone(&queue), Arc::clone(shared), client.clone());
        running.spawn(async move {
            let mut outcomes = Vec::new();
            while !shared.interrupted.is_cancelled() {
                let next = queue
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .pop_front();
                let Some(job) = next else { break };
                let outcome = one(&client, &job, &shared).await;
                shared.bar.step(&outcome);
                outcomes.push(outcome);
            }
            outcomes
        });
    }
    let mut outcomes = Vec::new();
    while let Some(done) = running.join_next().await {
        match done {
            Ok(some) => outcomes.extend(some),
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        }
    }
    outcomes
}

/// One grading, from the lease to the written report.
async fn one(client: &Client, job: &Job, shared: &Shared) -> Outcome {
    let (mut account, mut trace) = (Account::default(), Trace::default());
    let judged = leased(client, job, shared, &mut account, &mut trace).await;
    let written = write(job, shared, &judged, &mut account, &trace);
    match (judged, written) {
        (Ok(report), Ok(record)) => Outcome {
            record,
            ..Outcome::graded(job, report.verdict()).with(report)
        },
        (Err(why), Ok(record)) => Outcome {
            record,
            ..Outcome::broken(job, &why)
        },
        (Err(why), Err(_)) => Outcome::broken(job, &why),
        (Ok(_), Err(failure)) => Outcome::broken(job, &Broken::Report(failure.message)),
    }
}

/// Leases, grades and returns.
async fn leased(
    client: &Client,
    job: &Job,
    shared: &Shared,
    account: &mut Account,
    trace: &mut Trace,
) -> Result<InstanceReport, Broken> {
    account.info(format!(
        "Leasing a sandbox of {} for {}...",
        job.image, job.row.instance_id
    ));
    let asked = Instant::now();
    let lease = ask(client, job, shared).await?;
    trace.asked = asked.elapsed();
    on_lease(client, lease, job, shared, account, trace).await
}

/// Asks for a lease of the job's sandbox.
pub(super) async fn ask(client: &Client, job: &Job, shared: &Shared) -> Result<LeaseReply, Broken> {
    let request = LeaseRequest {
        image: job.image.clone(),
        template_json: job.template.clone(),
        job: shared.run_id.clone(),
        holder: format!("innkeeper-grade:{}", std::process::id()),
        ttl_ms: u64::try_from((shared.timeout + GRACE).as_millis()).unwrap_or(u64::MAX),
        ..LeaseRequest::default()
    };
    let mut caller = client.clone();
    tokio::select! {
        granted = caller.lease(request) => granted
            .map(tonic::Response::into_inner)
            .map_err(Failure::from)
            .map_err(|failure| Broken::NoSandbox {
                image: job.image.clone(),
                why: failure.message,
            }),
        () = shared.interrupted.cancelled() => Err(Broken::Interrupted),
    }
}

/// Grades on a lease and returns it, however the grading ends.
pub(super) async fn on_lease(
    client: &Client,
    lease: LeaseReply,
    job: &Job,
    shared: &Shared,
    account: &mut Account,
    trace: &mut Trace,
) -> Result<InstanceReport, Broken> {
    account.info(format!(
        "Lease {} of sandbox {}.{} granted",
        lease.lease, lease.slot, lease.generation
    ));
    let id = lease.lease.clone();
    let mut sandbox = Sandbox::new(client.clone(), lease);
    let began = Instant::now();
    let graded = tokio::select! {
        graded = graded(&mut sandbox, job, shared, account, trace) => graded,
        () = shared.interrupted.cancelled() => Err(Broken::Interrupted),
    };
    trace.graded = began.elapsed();
    let discard = matches!(graded, Err(Broken::Interrupted));
    let stated = attestation::stated(job, shared, &graded, trace);
    let returned = give_back(client.clone(), id, discard, &stated).await;
    match &returned {
        Ok(reply) => account.info(format!("Returned: {} {}", reply.outcome, reply.retired)),
        Err(why) => account.error(format!("The lease could not be returned: {why}")),
    }
    trace.returned = Some(returned);
    graded
}

pub(super) async fn give_back(
    mut client: Client,
    lease: String,
    discard: bool,
    stated: &Map<String, Value>,
) -> Result<ReturnReply, String> {
    let request = ReturnRequest {
        lease,
        discard,
        wait: true,
        verify: String::new(),
        stated_json: Value::from(stated.clone()).to_string(),
    };
    match client.r#return(request).await {
        Ok(reply) => Ok(reply.into_inner()),
        Err(status) => Err(Failure::from(status).message),
    }
}

async fn graded(
    sandbox: &mut Sandbox,
    job: &Job,
    shared: &Shared,
    account: &mut Account,
    trace: &mut Trace,
) -> Result<InstanceReport, Broken> {
    match job.prediction.run() {
        Run::Patch(patch) => {
            trace.flags = flags(&Patch::read(patch.as_bytes()), &job.row);
            let pristine = if shared.pristine {
                Pristine::take(sandbox, &trace.flags).await?
            } else {
                Pristine::default()
            };
            account.info(format!(
                "Patch for {} goes to {PATCH_FILE}, now applying to container...",
                job.row.instance_id
            ));
            apply::apply(sandbox, patch, account).await?;
            pristine.restore(sandbox, account).await?;
        }
        Run::Control | Run::Nothing => {
            account.info(format!("Skipping the patch for {}", job.row.instance_id))
        }
    }
    let script = job
        .row
        .eval_script()
        .map_err(|e| Broken::Task(e.to_string()))?;
    let ran = eval::run(sandbox, script, shared.timeout, account).await?;
    let output = trace.output.insert(ran.output.clone());
    account.info(format!(
        "Grading answer for {} ({} bytes of output)...",
        job.row.instance_id,
        output.len()
    ));
    let report = eval::judge(&job.row, &ran, shared.timeout)?;
    account.info(format!(
        "Result for {}: resolved: {}",
        job.row.instance_id, report.resolved
    ));
    Ok(report)
}

/// Writes everything of one grading, the report last: with it the instance counts as graded.
/// Returns the record.
fn write(
    job: &Job,
    shared: &Shared,
    judged: &Result<InstanceReport, Broken>,
    account: &mut Account,
    trace: &Trace,
) -> Result<Value, Failure> {
    let (model, id) = (&job.prediction.model_name_or_path, &job.row.instance_id);
    let file = |name: &str, content: &[u8]| {
        shared
            .reports
            .write(model, id, name, content)
            .map_err(Failure::failed)
    };
    if let Err(why) = judged {
        account.error(format!("Error in evaluating model for {id}: {why}"));
    }
    file(
        "patch.diff",
        job.prediction
            .model_patch
            .as_deref()
            .unwrap_or_default()
            .as_bytes(),
    )?;
    file(
        "eval.sh",
        job.row
            .eval_script
            .as_deref()
            .unwrap_or_default()
            .as_bytes(),
    )?;
    if let Some(output) = &trace.output {
        file("test_output.txt", output.as_bytes())?;
    }
    file("run_instance.log", account.text().as_bytes())?;
    let record = attestation::document(attestation::stated(job, shared, judged, trace), trace);
    file(attestation::FILE, format!("{record:#}\n").as_bytes())?;
    if let Ok(report) = judged {
        shared
            .reports
            .write_report(model, id, report)
            .map_err(Failure::failed)?;
    }
    Ok(record)
}
