//! `bench`: each speed beside a floor of the kernel's, measured in turn in the same run.

mod figure;
mod floor;
mod measure;
mod sample;
mod show;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use innkeeper::paths;
use innkeeper_images::{Image, Store};
use tokio::task;

use crate::cli::failure::Failure;
use crate::cli::form::FormArgs;
use crate::cli::{Global, connect, output};
use figure::Figure;
use measure::Meter;

/// Measure each speed beside its floor.
#[derive(Debug, Args)]
#[command(
    after_help = "Floors are taken in turn with the figures. Times are medians as a client sees them.\n\nExamples:\n  innkeeper bench\n  innkeeper bench --only reset --json > before.json\n  innkeeper bench --compare before.json"
)]
pub(crate) struct Bench {
    /// Only this figure
    #[arg(long, value_enum, value_name = "NAME")]
    only: Option<Name>,
    /// The JSON of an earlier run, to show what changed
    #[arg(long, value_name = "F")]
    compare: Option<PathBuf>,
    /// The image to measure with [default: the smallest of the store]
    #[arg(long, value_name = "I")]
    image: Option<String>,
    #[command(flatten)]
    form: FormArgs,
    /// Repeats of the quick figures; the slow ones take fewer
    #[arg(short = 'n', long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    repeats: u32,
}

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Name {
    /// A lease of an idle sandbox
    Lease,
    /// `true` in a leased sandbox
    Exec,
    /// A lease where no sandbox stands ready
    Create,
    /// Return, reset and verify (swap) after 100 files were written
    Reset,
    /// The same, verified by a walk
    Walk,
    /// The same, verified by all contents
    Full,
    /// A verifying walk alone, without the reset
    Verify,
    /// 1 GiB out of a sandbox
    Read,
    /// 1 GiB into a sandbox
    Write,
}

impl Bench {
    /// Measures and prints.
    pub(crate) async fn run(self, global: &Global) -> Result<i32, Failure> {
        let before = self.compare.as_deref().map(show::read).transpose()?;
        let store = paths::store_dir(&connect::state_dir(global));
        let image = self.image.clone();
        let (image, layers) = task::spawn_blocking(move || pick(&store, image.as_deref()))
            .await
            .map_err(|e| {
                Failure::failed(format_args!("the image store could not be read: {e}"))
            })??;
        let wanted = |name| self.only.is_none_or(|only| only == name);
        let repeats = self.repeats as usize;
        let figures = connect::within(global, |client| async move {
            let mut meter = Meter::new(client, image, self.form, layers, repeats);
            let mut figures: Vec<Figure> = Vec::new();
            if wanted(Name::Lease) || wanted(Name::Exec) || wanted(Name::Reset) {
                let quick = meter
                    .quick(wanted(Name::Lease), wanted(Name::Exec), wanted(Name::Reset))
                    .await?;
                figures.extend(quick);
            }
            if wanted(Name::Create) {
                figures.push(meter.create().await?);
            }
            if wanted(Name::Walk) {
                figures.push(meter.walk().await?);
            }
            if wanted(Name::Full) {
                figures.push(meter.full().await?);
            }
            if wanted(Name::Verify) {
                figures.push(meter.verify().await?);
            }
            if wanted(Name::Write) || wanted(Name::Read) {
                figures.extend(
                    meter
                        .transfer(wanted(Name::Write), wanted(Name::Read))
                        .await?,
                );
            }
            Ok(figures)
        })
        .await?;
        if global.json {
            output::json(&show::document(&figures, before.as_deref()))?;
        } else {
            output::text(&show::table(&figures, before.as_deref()))?;
        }
        Ok(0)
    }
}

/// The image to measure with, and where its layers lie.
fn pick(store: &std::path::Path, name: Option<&str>) -> Result<(String, Vec<PathBuf>), Failure> {
    let store = Store::open(store).map_err(Failure::failed)?;
    let image = match name {
        Some(name) => store.resolve(name).map_err(Failure::failed)?,
        None => store.list().map_err(Failure::failed)?.into_iter().min_by_key(|image| image.bytes).ok_or_else(|| {
            Failure::failed("the store holds no image to measure with: import one with `innkeeper image import SRC --name NAME`")
        })?,
    };
    let layers = image
        .layers
        .iter()
        .map(|layer| store.layer_path(layer))
        .collect();
    let Image { digest, .. } = image;
    Ok((digest.to_string(), layers))
}
