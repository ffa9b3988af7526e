//! `fuzz`: a search for false cleans, with hostile rollouts that follow from a seed.

mod guest;
mod image;
mod pool;
mod scripts;
mod show;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use innkeeper_test_fuzz::{Run, RunError, Source, Wish};
use tokio::task::JoinSet;

use crate::cli::connect::Client;
use crate::cli::failure::{FAILED, Failure};
use crate::cli::form::FormArgs;
use crate::cli::{Global, connect, output};
use pool::Pool;
use show::{Bar, Ended};

/// Search for false cleans with hostile rollouts.
#[derive(Debug, Args)]
#[command(
    after_help = "Each rollout acts out a script of hostile operations as root inside; what its sandbox shows after the\nreset is compared with fresh sandboxes by code that shares nothing with the reset. A reset that was\ncalled clean and left something is cut down to a small script, saved, and makes the exit code 1.\nSandboxes have limits of their own where the template sets none, so that what is used up is theirs.\nThe program that acts inside is put into an image beside the one that is named, innkeeper-fuzz:DIGEST.\n\nExamples:\n  innkeeper fuzz --image demo --seed 1 --iterations 100\n  innkeeper fuzz --image demo --strategy layered --rights root --iterations 20000\n  innkeeper fuzz --image demo --script fuzz-failures/seed-1-iteration-77.act"
)]
pub(crate) struct Fuzz {
    /// The image, by name or digest
    #[arg(long, value_name = "I")]
    image: String,
    /// From which all scripts follow [default: the time]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Number of rollouts
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    iterations: u64,
    #[command(flatten)]
    form: FormArgs,
    /// A template file, YAML or JSON
    #[arg(long, value_name = "F")]
    template: Option<PathBuf>,
    /// Act out these scripts, or those of these folders, instead of drawing any
    #[arg(long, value_name = "F", num_args = 1.., conflicts_with = "iterations")]
    script: Vec<PathBuf>,
    /// Rollouts at the same time [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    workers: Option<u16>,
    /// Every so many observations one reads all contents, the others those of small files
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..))]
    full_every: u64,
    /// Where scripts that failed go
    #[arg(long, value_name = "D", default_value = "fuzz-failures")]
    out: PathBuf,
    /// Stop after so many false cleans
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    failures: u16,
}

impl Fuzz {
    /// Searches and prints what was found. Returns 1 on a false clean.
    pub(crate) async fn run(self, global: &Global) -> Result<i32, Failure> {
        let seed = self.seed.unwrap_or_else(of_time);
        let source = match self.script.as_slice() {
            [] => Source::Drawn(self.iterations),
            paths => Source::Given(scripts::read(paths)?),
        };
        let template = pool::template(self.template.as_deref(), self.form)?;
        let guest = guest::read()?;
        let wish = Wish {
            seed,
            source,
            full_every: self.full_every,
            failures: self.failures.into(),
            in_place: false,
        };
        let workers = self.workers.map_or_else(
            || std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            usize::from,
        );
        let image = self.image.clone();
        let ended = connect::within(global, |client: Client| async move {
            let pool = Pool::new(client, image, template, guest).await?;
            search(pool, wish, workers).await
        })
        .await?;
        let again = format!("innkeeper fuzz --image {}{}", self.image, self.form.words());
        let saved = show::save(&ended.failures, &self.out, &again)?;
        if global.json {
            output::json(&show::document(&ended, &saved))?;
        } else {
            output::text(&show::text(seed, &ended, &saved))?;
        }
        let sound = ended.tally.false_clean == 0 && ended.tally.odd_fresh == 0;
        Ok(if sound { 0 } else { FAILED })
    }
}

/// A seed that nobody chose.
fn of_time() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(1, |since| since.as_secs())
}

async fn search(mut pool: Pool, mut wish: Wish, workers: usize) -> Result<Ended, Failure> {
    wish.in_place = pool.is_in_place().await?;
    let count = wish.source.count();
    let run = Arc::new(Run::prepare(&mut pool, wish).await.map_err(failed)?);
    let bar = Arc::new(Bar::new(count));
    let start = Instant::now();
    let mut working = JoinSet::new();
    for _ in 0..workers {
        let (run, bar, mut pool) = (Arc::clone(&run), Arc::clone(&bar), pool.clone());
        working.spawn(async move { run.work(&mut pool, &*bar).await });
    }
    while let Some(worked) = working.join_next().await {
        worked.map_err(Failure::failed)?.map_err(failed)?;
    }
    run.settle(&mut pool).await.map_err(failed)?;
    let seconds = start.elapsed().as_secs_f64();
    bar.shrinks(run.failures().len());
    run.shrink(&mut pool).await.map_err(failed)?;
    bar.finish();
    Ok(Ended {
        tally: run.tally(),
        failures: run.failures(),
        seconds,
    })
}

fn failed(error: RunError) -> Failure {
    Failure::failed(error)
}
