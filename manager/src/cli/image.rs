//! `image`: the store of this machine. A running manager sees what is imported at once.

mod progress;
mod used;
mod within;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use innkeeper::paths;
use innkeeper_images::{Image, LayerId, Source, Store};
use serde_json::{Value, json};

use super::failure::Failure;
use super::output::{self, short};
use super::table::Table;
use super::{Global, connect};
use progress::Shown;
use used::Used;

/// Import, list and remove images.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  innkeeper image import ./rootfs --name demo")]
pub(crate) struct ImageCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Bring an image into the store
    #[command(
        after_help = "SRC is a folder with a root file system, an OCI layout, an archive of `docker save` or skopeo, or a\nregistry reference.\n\nExamples:\n  innkeeper image import ./rootfs --name demo\n  innkeeper image import docker://registry.example/team/task:1"
    )]
    Import {
        /// Folder, OCI layout, docker or OCI archive, or registry reference
        src: String,
        /// Its name in the store [default: what the source says]
        #[arg(long, value_name = "N")]
        name: Option<String>,
        /// Remove answers that it holds (history after the base commit, leftovers of tests) when a template
        /// of it is prepared
        #[arg(long)]
        scrub: bool,
    },
    /// List the store's images
    #[command(after_help = "Example:\n  innkeeper image ls --json")]
    Ls,
    /// Remove an image, and the layers that no other image has
    #[command(after_help = "Example:\n  innkeeper image rm demo")]
    Rm {
        /// Name or digest
        name: String,
    },
}

impl ImageCommand {
    /// Works on the store.
    pub(crate) async fn run(self, global: &Global) -> Result<i32, Failure> {
        let changes = !matches!(self.action, Action::Ls);
        if changes && !paths::is_root() {
            // What an ordinary user's pods read belongs to ids that only such a process has.
            return within::run(&connect::state_dir(global)).await;
        }
        let (json, store) = (global.json, paths::store_dir(&connect::state_dir(global)));
        match self.action {
            Action::Import { src, name, scrub } => {
                blocking(move || import(json, store, &src, name.as_deref(), scrub)).await
            }
            Action::Ls => blocking(move || list(json, store)).await,
            Action::Rm { name } => {
                let used = used::by_sandboxes(&connect::state_dir(global)).await;
                blocking(move || remove(json, store, &name, &used)).await
            }
        }
    }
}

async fn blocking(
    work: impl FnOnce() -> Result<i32, Failure> + Send + 'static,
) -> Result<i32, Failure> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|e| {
        Err(Failure::failed(format_args!(
            "the work on the store broke off: {e}"
        )))
    })
}

fn import(
    json: bool,
    store: PathBuf,
    src: &str,
    name: Option<&str>,
    scrub: bool,
) -> Result<i32, Failure> {
    let source = Source::parse(src).map_err(Failure::failed)?;
    let store = Store::open(store).map_err(Failure::failed)?;
    let mut shown = Shown::new();
    let image = store.import(&source, name, &mut shown);
    shown.finish();
    let mut image = image.map_err(Failure::failed)?;
    if scrub {
        image = store
            .set_scrub(&image.digest, scrub)
            .map_err(Failure::failed)?;
    }
    if json {
        output::json(&document(&image))?;
    } else {
        output::text(&table(&[image]))?;
    }
    Ok(0)
}

fn list(json: bool, store: PathBuf) -> Result<i32, Failure> {
    let images = Store::open(store)
        .and_then(|store| store.list())
        .map_err(Failure::failed)?;
    if json {
        output::json(&images.iter().map(document).collect::<Vec<_>>().into())?;
    } else {
        output::text(&table(&images))?;
    }
    Ok(0)
}

fn remove(json: bool, store: PathBuf, name: &str, used: &Used) -> Result<i32, Failure> {
    let store = Store::open(store).map_err(Failure::failed)?;
    let in_use = |layer: &LayerId| used.holds(&layer.to_string());
    let removed = store.remove(name, &in_use).map_err(Failure::failed)?;
    // What had to stay at an earlier removal can go as well now.
    let pruned = store.prune(&in_use).map_err(Failure::failed)?;
    let layers: Vec<String> = removed
        .layers
        .iter()
        .chain(&pruned)
        .map(ToString::to_string)
        .collect();
    if json {
        output::json(&json!({
            "names": removed.names,
            "digest": removed.image.map(|digest| digest.to_string()),
            "layers": layers,
            "in_use": removed.in_use.iter().map(ToString::to_string).collect::<Vec<_>>(),
        }))?;
    } else {
        output::text(&format!("removed {} and {} layers\n", name, layers.len()))?;
        if !removed.in_use.is_empty() {
            output::text(&format!(
                "{} layers stay, since sandboxes stand on them: remove another image once none does, and they go too\n",
                removed.in_use.len()
            ))?;
        }
    }
    Ok(0)
}

fn document(image: &Image) -> Value {
    json!({
        "names": image.names,
        "digest": image.digest.to_string(),
        "manifest_digest": image.manifest_digest.map(|digest| digest.to_string()),
        "layers": image.layers.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "bytes": image.bytes,
        "entries": image.entries,
        "user": image.config.user,
        "workdir": image.config.workdir,
        "scrub": image.scrub,
    })
}

fn table(images: &[Image]) -> String {
    let mut table = Table::new(&["NAME", "DIGEST", ">LAYERS", ">ENTRIES", ">MIB"]);
    for image in images {
        table.row([
            if image.names.is_empty() {
                "-".to_owned()
            } else {
                image.names.join(",")
            },
            short(&image.digest.to_string()),
            image.layers.len().to_string(),
            image.entries.to_string(),
            image.bytes.div_ceil(1024 * 1024).to_string(),
        ]);
    }
    table.render()
}
