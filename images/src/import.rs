//! Importing: a source becomes a [`Plan`], the plan's layers are unpacked, the image is recorded.

mod archive;
mod docker;
mod files;
mod folder;
mod layer;
mod manifest;
mod oci;
#[cfg(feature = "registry")]
mod registry;

use std::io::Read;
use std::path::Path;

use crate::error::Error;
use crate::id::Digest;
use crate::image::Image;
use crate::progress::{Progress, Step};
use crate::source::{ArchiveFormat, Source};
use crate::store::{Staging, Store, familiar, stored_form};

/// Imports that find a layer removed under their hands start again this often.
const ATTEMPTS: usize = 3;

/// What a source holds, its small parts read and checked.
struct Plan {
    /// The image config, verbatim.
    config: Vec<u8>,
    /// Digest of the manifest, where there is one.
    manifest_digest: Option<Digest>,
    /// Bottom first.
    layers: Vec<LayerSource>,
    /// Names that the source gives the image.
    names: Vec<String>,
    /// A secret was needed to get at it.
    private: bool,
    /// Where a compressed archive was unpacked to.
    staging: Option<Staging>,
}

/// Opens a layer as it is stored; may be called again after a failure.
type OpenLayer = Box<dyn Fn() -> Result<Box<dyn Read + Send>, Error>>;

struct LayerSource {
    diff_id: Digest,
    /// What the stored layer's own digest must be, where the source says so.
    blob: Option<Digest>,
    /// Bytes as stored.
    size: Option<u64>,
    open: OpenLayer,
}

pub(crate) fn import(
    store: &Store,
    source: &Source,
    name: Option<&str>,
    progress: &mut dyn Progress,
) -> Result<Image, Error> {
    let name = name.map(stored_form).transpose()?;
    let mut plan = match source {
        Source::Rootfs(path) => return import_folder(store, path, name, progress),
        Source::Layout { path, tag } => plan_layout(path, tag.as_deref())?,
        Source::Archive { path, format, tag } => {
            plan_archive(store, path, *format, tag.as_deref())?
        }
        Source::Registry(reference) => plan_registry(reference)?,
    };
    let image = unpack_plan(store, &plan, name, progress);
    if let Some(staging) = plan.staging.take() {
        staging.discard()?;
    }
    image
}

fn unpack_plan(
    store: &Store,
    plan: &Plan,
    name: Option<String>,
    progress: &mut dyn Progress,
) -> Result<Image, Error> {
    let names = match name {
        Some(name) => vec![name],
        // A name that the source made up and the store cannot hold is no reason to fail.
        None => plan
            .names
            .iter()
            .filter_map(|name| stored_form(name).ok())
            .collect(),
    };
    let (config, _) = manifest::parse_config(&plan.config, "the image config")?;
    progress.step(Step::Layers {
        total: plan.layers.len(),
    });
    for _ in 0..ATTEMPTS {
        let done = layer::unpack_all(store, &plan.layers, progress)?;
        let image = Image {
            names: names.clone(),
            digest: Digest::of(&plan.config),
            manifest_digest: plan.manifest_digest,
            layers: done.layers,
            config: config.clone(),
            bytes: done.bytes,
            entries: done.entries,
            private: plan.private,
            scrub: false,
        };
        if store.publish_image(&image, &names)? {
            return store.resolve(&image.digest.to_string());
        }
    }
    Err(removed_meanwhile())
}

fn import_folder(
    store: &Store,
    path: &Path,
    name: Option<String>,
    progress: &mut dyn Progress,
) -> Result<Image, Error> {
    progress.step(Step::Layers { total: 1 });
    let names: Vec<String> = name.into_iter().collect();
    for _ in 0..ATTEMPTS {
        let (layer, diff_id, record) = layer::unpack_folder(store, path, progress)?;
        let config = manifest::config_of_folder(diff_id);
        let image = Image {
            names: names.clone(),
            digest: Digest::of(&config),
            manifest_digest: None,
            layers: vec![layer],
            config: manifest::parse_config(&config, "the image config")?.0,
            bytes: record.bytes,
            entries: record.entries,
            private: false,
            scrub: false,
        };
        if store.publish_image(&image, &names)? {
            return store.resolve(&image.digest.to_string());
        }
    }
    Err(removed_meanwhile())
}

fn removed_meanwhile() -> Error {
    Error::Unsupported(
        "another process keeps removing this image's layers from the store; wait for it and import again".to_owned(),
    )
}

fn plan_layout(path: &Path, tag: Option<&str>) -> Result<Plan, Error> {
    if !path.exists() {
        return Err(Error::NoPath {
            path: path.to_owned(),
        });
    }
    oci::plan(files::Files::Folder(path.to_owned()), path, tag)
}

fn plan_archive(
    store: &Store,
    path: &Path,
    format: Option<ArchiveFormat>,
    tag: Option<&str>,
) -> Result<Plan, Error> {
    if !path.exists() {
        return Err(Error::NoPath {
            path: path.to_owned(),
        });
    }
    let (archive, staging) = archive::open(store, path)?;
    let planned = plan_opened(archive, path, format, tag);
    match planned {
        Ok(plan) => Ok(Plan { staging, ..plan }),
        Err(error) => {
            if let Some(staging) = staging {
                staging.discard()?;
            }
            Err(error)
        }
    }
}

fn plan_opened(
    archive: archive::Archive,
    path: &Path,
    format: Option<ArchiveFormat>,
    tag: Option<&str>,
) -> Result<Plan, Error> {
    let found = match (archive.has("manifest.json"), archive.has("index.json")) {
        // Newer `docker save` writes both; its own form has the names.
        (true, _) => ArchiveFormat::Docker,
        (false, true) => ArchiveFormat::Oci,
        (false, false) => {
            let why = "it holds neither manifest.json nor index.json".to_owned();
            return Err(Error::NotAnImage {
                path: path.to_owned(),
                why,
            });
        }
    };
    let files = files::Files::Archive(archive);
    match format.unwrap_or(found) {
        ArchiveFormat::Docker => docker::plan(files, path, tag),
        ArchiveFormat::Oci => oci::plan(files, path, tag),
    }
}

#[cfg(feature = "registry")]
fn plan_registry(reference: &str) -> Result<Plan, Error> {
    let mut plan = registry::plan(reference)?;
    // By digest alone an image has no name but its repository's, which may mean another one.
    plan.names = if reference.contains('@') {
        Vec::new()
    } else {
        vec![familiar(reference)]
    };
    Ok(plan)
}

#[cfg(not(feature = "registry"))]
fn plan_registry(reference: &str) -> Result<Plan, Error> {
    let name = familiar(reference);
    Err(Error::Unsupported(format!(
        "{name} is in a registry, and this build cannot reach registries; fetch it with `skopeo copy` into an archive and import that"
    )))
}
