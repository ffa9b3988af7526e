//! The eval script, unmodified, under its timeout; and what its log amounts to.

use std::time::{Duration, Instant};

use innkeeper_grading::apply::{DIFF, EVAL_COMMAND, EVAL_FILE, timeout_trailer};
use innkeeper_grading::{InstanceReport, Row, decode_output, log_text};

use super::account::Account;
use super::outcome::Broken;
use super::sandbox::Sandbox;

/// What the eval script printed, as `test_output.txt` has it.
#[derive(Debug, Default)]
pub(super) struct Ran {
    /// The output, with the harness's last line where the script was stopped.
    pub(super) output: String,
    /// It was stopped at its timeout.
    pub(super) timed_out: bool,
}

/// Runs a row's eval script.
pub(super) async fn run(
    sandbox: &mut Sandbox,
    script: &str,
    timeout: Duration,
    account: &mut Account,
) -> Result<Ran, Broken> {
    let before = diff(sandbox).await?;
    account.info(format!("Git diff before:\n{before}"));
    sandbox.write(EVAL_FILE, script.as_bytes()).await?;
    let started = Instant::now();
    let outcome = sandbox.run(&EVAL_COMMAND, timeout).await?;
    account.info(format!(
        "Test runtime: {:.2} seconds",
        started.elapsed().as_secs_f64()
    ));
    if let Some(reason) = outcome.not_started() {
        return Err(Broken::NoShell(reason.to_owned()));
    }
    let mut output = decode_output(&outcome.stdout).into_owned();
    let timed_out = outcome.finished.timed_out;
    if timed_out {
        output.push_str(&timeout_trailer(timeout.as_secs()));
    }
    if outcome.finished.truncated {
        account.error("The output was longer than is kept; its end is missing");
    }
    if outcome.finished.oom {
        account.error("The kernel killed a process of the sandbox for its memory");
    }
    if !timed_out {
        let after = diff(sandbox).await?;
        account.info(format!("Git diff after:\n{after}"));
        if after != before {
            account.info("Git diff changed after running eval script");
        }
    }
    Ok(Ran { output, timed_out })
}

/// The report that a log amounts to.
pub(super) fn judge(row: &Row, ran: &Ran, timeout: Duration) -> Result<InstanceReport, Broken> {
    if ran.timed_out {
        return Err(Broken::TimedOut(timeout));
    }
    let spec = row.grading().map_err(|e| Broken::Task(e.to_string()))?;
    let log = log_text(ran.output.as_bytes());
    innkeeper_grading::grade(&spec, &log).map_err(|e| Broken::Task(e.to_string()))
}

async fn diff(sandbox: &mut Sandbox) -> Result<String, Broken> {
    let shown = sandbox.command(&DIFF).await?;
    Ok(decode_output(&shown.stdout).trim().to_owned())
}
