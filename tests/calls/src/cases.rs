//! Running cases one after the other against one daemon.

use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::daemon::Daemon;

/// A case: its name and what it does.
pub type Case = (&'static str, fn(Arc<Daemon>) -> Running);

/// A case under way.
pub type Running = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// No case takes longer, or it hangs.
const PATIENCE: Duration = Duration::from_secs(180);

/// Runs the cases whose names contain the program's first word, or all.
///
/// Without root nothing is run, and that is said by name.
pub fn main(cases: &[Case]) -> ExitCode {
    let wanted = std::env::args()
        .skip(1)
        .find(|word| !word.starts_with('-'))
        .unwrap_or_default();
    let cases: Vec<_> = cases
        .iter()
        .filter(|(name, _)| name.contains(&wanted))
        .collect();
    if std::env::args().any(|word| word == "--list") {
        for (name, _) in cases {
            println!("{name}: test");
        }
        return ExitCode::SUCCESS;
    }
    if !rustix::process::geteuid().is_root() {
        for (name, _) in cases {
            println!("not run: {name}: sandboxes need root here");
        }
        return ExitCode::SUCCESS;
    }
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("no runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(run(&cases)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(cases: &[&Case]) -> Result<bool> {
    let daemon = Arc::new(Daemon::start().await?);
    let mut failed = Vec::new();
    for (name, case) in cases {
        let begin = Instant::now();
        // A task of its own, so that a failed assertion ends the case and no more.
        let task = tokio::spawn(case(daemon.clone()));
        let abort = task.abort_handle();
        let verdict = match tokio::time::timeout(PATIENCE, task).await {
            Ok(Ok(Ok(()))) => None,
            Ok(Ok(Err(error))) => Some(format!("{error:#}")),
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => {
                abort.abort();
                Some(format!("no end after {} s", PATIENCE.as_secs()))
            }
        };
        let word = if verdict.is_none() { "ok" } else { "FAILED" };
        println!(
            "test {name} ... {word} ({:.2} s)",
            begin.elapsed().as_secs_f64()
        );
        if let Some(why) = verdict {
            println!("    {why}");
            failed.push(*name);
        }
    }
    println!(
        "{} passed, {} failed",
        cases.len() - failed.len(),
        failed.len()
    );
    let log = daemon.log();
    if !failed.is_empty() {
        println!("failed: {}\nexecd said:\n{log}", failed.join(", "));
    }
    if let Ok(daemon) = Arc::try_unwrap(daemon) {
        daemon.stop().await?;
    }
    Ok(failed.is_empty())
}
