//! `grade`: predictions on SWE-bench tasks, verdict by verdict, in leased sandboxes.

mod account;
mod apply;
mod attestation;
mod canary;
mod eval;
mod outcome;
mod plan;
mod pristine;
mod sandbox;
mod show;
mod template;
mod worker;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use innkeeper_grading::RunDir;
use tokio_util::sync::CancellationToken;

use crate::cli::connect;
use crate::cli::failure::{Failure, INFRA};
use crate::cli::form::FormArgs;
use crate::cli::{Global, output, values};
use outcome::Outcome;
use plan::Plan;
use show::Bar;

/// Grade predictions on SWE-bench tasks.
#[derive(Debug, Args)]
#[command(
    after_help = "Reports lie under OUT in the layout of the SWE-bench harness, each beside an attestation. A second\nrun with the same --run-id skips what is reported. Exit code 3: some were not graded, and the\ncause stands with each; run again to try them again.\n\nExample:\n  innkeeper grade --tasks tasks.jsonl --predictions gold --out ./graded --workers 4"
)]
pub(crate) struct Grade {
    /// SWE-bench rows: parquet, JSON or JSON lines
    #[arg(long, value_name = "F")]
    tasks: PathBuf,
    /// Predictions as JSON or JSON lines, or the word gold or empty
    #[arg(long, value_name = "F|gold|empty")]
    predictions: String,
    /// Where reports go
    #[arg(long, value_name = "D")]
    out: PathBuf,
    /// How many are graded at once [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    workers: Option<u16>,
    /// Image names, with {instance_id}, {repo} and {version} [default: the row's, else the harness's]
    #[arg(long, value_name = "PATTERN")]
    images: Option<String>,
    /// A template file; image and base commit come from the row
    #[arg(long, value_name = "F")]
    template: Option<PathBuf>,
    #[command(flatten)]
    form: FormArgs,
    /// How long a row's eval script may run
    #[arg(long, value_name = "D", default_value = "1800s", value_parser = values::duration)]
    timeout: Duration,
    /// Names the run
    #[arg(long, value_name = "R", default_value = "innkeeper")]
    run_id: String,
    /// Grade again what got a sandbox that was never used, one patch an image, in a sandbox after N uses
    /// (1 to 8), and raise an alarm when the two differ
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=8))]
    canary: Option<u32>,
    /// Put files that judge the patch back from the image after it is applied
    #[arg(long)]
    pristine_runner: bool,
}

impl Grade {
    /// Grades what is not reported yet. Returns 0 when all were graded, 3 with infra-errors.
    pub(crate) async fn run(self, global: &Global) -> Result<i32, Failure> {
        let plan = Plan::make(&self)?;
        let reports = RunDir::new(&self.out, &self.run_id).map_err(Failure::usage)?;
        // Before anything is leased: gradings without a place for their reports are lost.
        std::fs::create_dir_all(&self.out).map_err(|e| {
            Failure::failed(format_args!(
                "cannot write reports to {} ({e}): name a directory that can be written with --out",
                self.out.display()
            ))
        })?;
        let (mut outcomes, left) = plan.split(&reports)?;
        let interrupted = CancellationToken::new();
        let mut canaries = Vec::new();
        if !left.is_empty() {
            let workers = self.workers.map_or_else(
                || std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
                usize::from,
            );
            let bar = Bar::new(left.len());
            let session = connect::own(global).await?;
            let shared = Arc::new(worker::Shared {
                reports: reports.clone(),
                run_id: self.run_id.clone(),
                timeout: self.timeout,
                pristine: self.pristine_runner,
                interrupted: interrupted.clone(),
                bar,
            });
            let watch = tokio::spawn({
                let interrupted = interrupted.clone();
                async move {
                    innkeeper::embedded::interrupted().await;
                    interrupted.cancel();
                }
            });
            let client = session.manager();
            let graded = worker::work(&client, left.clone(), workers, &shared).await;
            if let Some(uses) = self.canary {
                canaries = canary::run(&client, &left, &graded, uses, &shared).await;
            }
            drop(client);
            outcomes.extend(graded);
            watch.abort();
            shared.bar.finish();
            session.close().await.map_err(Failure::failed)?;
        }
        outcomes.sort_by(|a, b| (&a.instance_id, &a.model).cmp(&(&b.instance_id, &b.model)));
        if interrupted.is_cancelled() {
            return Err(Failure {
                code: 130,
                message: "interrupted: run the same command again for the rest".to_owned(),
            });
        }
        let summary = reports
            .summarise(&plan.rows, &plan.predictions)
            .map_err(Failure::failed)?;
        let summary = reports
            .write_summary(&plan.predictions, &summary)
            .map_err(Failure::failed)?;
        self.report(global, &plan, &outcomes, &canaries, &summary)
    }

    fn report(
        &self,
        global: &Global,
        plan: &Plan,
        outcomes: &[Outcome],
        canaries: &[canary::Canary],
        summary: &std::path::Path,
    ) -> Result<i32, Failure> {
        if global.json {
            let mut document =
                show::document(&self.run_id, summary, plan.without_patch(), outcomes);
            let told: Vec<_> = canaries.iter().map(canary::Canary::document).collect();
            document["canary"] = self.canary.map(|_| told).into();
            output::json(&document)?;
        } else {
            output::text(&show::table(outcomes))?;
            output::text(&show::closing(
                summary,
                plan.without_patch().len(),
                outcomes,
            ))?;
            for canary in canaries {
                output::text(&canary.line())?;
            }
            if self.canary.is_some() && canaries.is_empty() {
                output::text(
                    "canary: not run: no grading of this run had a sandbox that was never used\n",
                )?;
            }
        }
        let mut broken = outcomes
            .iter()
            .filter_map(|o| o.cause().map(|cause| (o, cause)))
            .peekable();
        let code = if broken.peek().is_some() { INFRA } else { 0 };
        for (outcome, cause) in broken {
            eprintln!("innkeeper: {} was not graded: {cause}", outcome.instance_id);
        }
        Ok(code)
    }
}
