//! OCI image layouts: `index.json`, and everything else under `blobs/` by digest.

use std::path::Path;
use std::rc::Rc;

use oci_spec::image::{Descriptor, ImageIndex, ImageManifest};

use super::files::Files;
use super::manifest::{self, digest_of, layers_of, parse, verify};
use super::{LayerSource, Plan};
use crate::error::Error;
use crate::id::Digest;
use crate::store::same_name;

const REF_NAME: &str = "org.opencontainers.image.ref.name";
/// What containerd's exporter writes beside it: the whole name.
const FULL_NAME: &str = "io.containerd.image.name";
/// An index may point to an index; real ones do so once.
const MAX_NESTING: usize = 4;

pub(super) fn plan(files: Files, path: &Path, tag: Option<&str>) -> Result<Plan, Error> {
    let source = path.display().to_string();
    let index: ImageIndex = parse(&files.read("index.json")?, &source, "index.json")?;
    let entry = select(&index, &source, tag)?.clone();
    let names = names_of(&entry, path);
    let mut descriptor = entry;
    for _ in 0..MAX_NESTING {
        if !manifest::is_index(&descriptor) {
            break;
        }
        let index: ImageIndex = parse(&blob(&files, &descriptor, &source)?, &source, "an index")?;
        descriptor = manifest::choose(&index, &source)?.clone();
    }
    let manifest_digest = digest_of(&descriptor, &source)?;
    let read: ImageManifest = parse(
        &blob(&files, &descriptor, &source)?,
        &source,
        "the manifest",
    )?;
    let config = blob(&files, read.config(), &source)?;
    let (_, diff_ids) = manifest::parse_config(&config, &source)?;
    let files = Rc::new(files);
    let mut layers = Vec::new();
    for (diff_id, stored) in layers_of(&read, &diff_ids, &source)? {
        let digest = digest_of(stored, &source)?;
        let files = Rc::clone(&files);
        layers.push(LayerSource {
            diff_id,
            blob: Some(digest),
            size: Some(stored.size()),
            open: Box::new(move || files.open(&blob_name(&digest)).map(|(reader, _)| reader)),
        });
    }
    Ok(Plan {
        config,
        manifest_digest: Some(manifest_digest),
        layers,
        names,
        private: false,
        staging: None,
    })
}

fn blob_name(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

/// A small blob whole, checked.
fn blob(files: &Files, descriptor: &Descriptor, source: &str) -> Result<Vec<u8>, Error> {
    let digest = digest_of(descriptor, source)?;
    let name = blob_name(&digest);
    let bytes = files.read(&name)?;
    verify(&bytes, digest, &format!("`{name}` of {source}"))?;
    Ok(bytes)
}

fn annotation<'a>(descriptor: &'a Descriptor, key: &str) -> Option<&'a str> {
    descriptor
        .annotations()
        .as_ref()?
        .get(key)
        .map(String::as_str)
}

fn select<'a>(
    index: &'a ImageIndex,
    source: &str,
    tag: Option<&str>,
) -> Result<&'a Descriptor, Error> {
    let source_name = source.to_owned();
    let entries: Vec<&Descriptor> = index.manifests().iter().collect();
    let shown =
        |entry: &&Descriptor| match annotation(entry, REF_NAME).or(annotation(entry, FULL_NAME)) {
            Some(name) => name.to_owned(),
            None => entry.digest().to_string(),
        };
    let choices: Vec<String> = entries.iter().map(shown).collect();
    let mut fits = entries.clone();
    if let Some(tag) = tag {
        fits.retain(|entry| {
            annotation(entry, REF_NAME) == Some(tag)
                || annotation(entry, FULL_NAME).is_some_and(|name| same_name(name, tag))
                || entry.digest().to_string() == tag
        });
        if fits.is_empty() {
            return Err(Error::NotInSource {
                source_name,
                wanted: tag.to_owned(),
                choices,
            });
        }
    }
    let offered = fits.clone();
    fits.retain(|entry| manifest::fits_host(entry));
    fits.dedup_by_key(|entry| entry.digest().to_string());
    match fits.as_slice() {
        [one] => Ok(one),
        [] if entries.is_empty() => Err(Error::Damaged {
            source_name,
            what: "its index lists no image".to_owned(),
        }),
        [] => Err(manifest::no_platform(source, &offered)),
        _ => Err(Error::PickOne {
            source_name,
            choices,
        }),
    }
}

/// Names from the annotations. A bare tag is put behind the name of the file or folder.
fn names_of(entry: &Descriptor, path: &Path) -> Vec<String> {
    if let Some(name) = annotation(entry, FULL_NAME) {
        return vec![name.to_owned()];
    }
    let Some(name) = annotation(entry, REF_NAME) else {
        return Vec::new();
    };
    if name.contains(['/', ':']) {
        return vec![name.to_owned()];
    }
    let stem = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let stem = stem.split('.').next().unwrap_or_default();
    if stem.is_empty() {
        Vec::new()
    } else {
        vec![format!("{stem}:{name}")]
    }
}
