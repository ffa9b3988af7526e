//! Records of images: one file for each image, one for each name.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Removed, Staging, Store, missing_ok, names, staging};
use crate::error::Error;
use crate::id::{Digest, LayerId};
use crate::image::Image;

/// A name and what it stands for. The file's own name is a digest of the name, since names hold
/// slashes and may be long.
#[derive(Debug, Serialize, Deserialize)]
struct NameRecord {
    name: String,
    image: Digest,
}

/// Digits of a digest that are enough to try for.
const SHORTEST_PREFIX: usize = 4;

pub(super) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    let Some(bytes) = missing_ok(fs::read(path)).map_err(Error::io("read", path))? else {
        return Ok(None);
    };
    let parsed = serde_json::from_slice(&bytes);
    parsed.map(Some).map_err(|error| Error::Record {
        path: path.to_owned(),
        why: error.to_string(),
    })
}

pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), Error> {
    let bytes = serde_json::to_vec_pretty(value)
        .map_err(|error| Error::io("written", path)(std::io::Error::other(error)))?;
    fs::write(path, bytes).map_err(Error::io("written", path))
}

/// Replaces a record in one step.
fn replace_json(store: &Store, path: &Path, value: &impl Serialize) -> Result<(), Error> {
    let staging = Staging::create(&store.tmp())?;
    let new = staging.path().join("record");
    let written = write_json(&new, value)
        .and_then(|()| fs::rename(&new, path).map_err(Error::io("put in its place", path)));
    staging.discard()?;
    written
}

fn image_file(store: &Store, digest: &Digest) -> PathBuf {
    store.images().join(format!("{}.json", digest.hex()))
}

fn name_file(store: &Store, name: &str) -> PathBuf {
    store
        .names()
        .join(format!("{}.json", Digest::of(name.as_bytes()).hex()))
}

fn read_folder<T: DeserializeOwned>(folder: &Path) -> Result<Vec<T>, Error> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::io("read", folder))? {
        let path = entry.map_err(Error::io("read", folder))?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            found.extend(read_json::<T>(&path)?);
        }
    }
    Ok(found)
}

pub(super) fn publish(store: &Store, image: &Image, names: &[String]) -> Result<bool, Error> {
    let _lock = store.lock()?;
    for layer in &image.layers {
        if store.find_layer(layer)?.is_none() {
            return Ok(false);
        }
    }
    let nameless = Image {
        names: Vec::new(),
        ..image.clone()
    };
    replace_json(store, &image_file(store, &image.digest), &nameless)?;
    for name in names {
        let record = NameRecord {
            name: name.clone(),
            image: image.digest,
        };
        replace_json(store, &name_file(store, name), &record)?;
    }
    Ok(true)
}

pub(super) fn set_scrub(store: &Store, digest: &Digest, scrub: bool) -> Result<Image, Error> {
    let _lock = store.lock()?;
    let file = image_file(store, digest);
    let image = read_json::<Image>(&file)?.ok_or_else(|| Error::NoImage(digest.to_string()))?;
    let image = Image { scrub, ..image };
    replace_json(store, &file, &image)?;
    let names = names_of(store, digest)?;
    Ok(Image { names, ..image })
}

pub(super) fn list(store: &Store) -> Result<Vec<Image>, Error> {
    let mut names: BTreeMap<Digest, Vec<String>> = BTreeMap::new();
    for record in read_folder::<NameRecord>(&store.names())? {
        names.entry(record.image).or_default().push(record.name);
    }
    let mut images: Vec<Image> = read_folder(&store.images())?;
    for image in &mut images {
        image.names = names.remove(&image.digest).unwrap_or_default();
        image.names.sort();
    }
    images.sort_by(|a, b| {
        (a.names.is_empty(), &a.names, a.digest).cmp(&(b.names.is_empty(), &b.names, b.digest))
    });
    Ok(images)
}

pub(super) fn resolve(store: &Store, given: &str) -> Result<Image, Error> {
    let missing = || Error::NoImage(given.to_owned());
    if let Some((_, digest)) = given.split_once('@') {
        return by_digest(store, digest)?.ok_or_else(missing);
    }
    for candidate in names::candidates(given) {
        if let Some(record) = read_json::<NameRecord>(&name_file(store, &candidate))?
            && let Some(mut image) = read_json::<Image>(&image_file(store, &record.image))?
        {
            image.names = names_of(store, &image.digest)?;
            return Ok(image);
        }
    }
    by_digest(store, given)?.ok_or_else(missing)
}

fn names_of(store: &Store, digest: &Digest) -> Result<Vec<String>, Error> {
    let records = read_folder::<NameRecord>(&store.names())?;
    let mut names: Vec<String> = records
        .into_iter()
        .filter(|record| record.image == *digest)
        .map(|record| record.name)
        .collect();
    names.sort();
    Ok(names)
}

fn by_digest(store: &Store, given: &str) -> Result<Option<Image>, Error> {
    let digits = given.strip_prefix("sha256:").unwrap_or(given);
    if digits.len() < SHORTEST_PREFIX || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Ok(None);
    }
    let digits = digits.to_ascii_lowercase();
    let begins = |digest: &Digest| digest.hex().starts_with(&digits);
    let mut fits = list(store)?;
    fits.retain(|image| {
        begins(&image.digest) || image.manifest_digest.as_ref().is_some_and(begins)
    });
    if fits.len() > 1 {
        let fits = fits.iter().map(|image| image.digest.to_string()).collect();
        return Err(Error::Ambiguous {
            given: given.to_owned(),
            fits,
        });
    }
    Ok(fits.pop())
}

pub(super) fn remove(
    store: &Store,
    given: &str,
    in_use: &dyn Fn(&LayerId) -> bool,
) -> Result<Removed, Error> {
    let _lock = store.lock()?;
    let image = resolve(store, given)?;
    let by_name = names::candidates(given)
        .into_iter()
        .find(|name| image.names.contains(name));
    let gone = match &by_name {
        Some(name) => vec![name.clone()],
        None => image.names.clone(),
    };
    let last = gone.len() == image.names.len();
    for name in &gone {
        let path = name_file(store, name);
        missing_ok(fs::remove_file(&path)).map_err(Error::io("removed", &path))?;
    }
    let mut removed = Removed {
        names: gone,
        ..Removed::default()
    };
    if !last {
        return Ok(removed);
    }
    let path = image_file(store, &image.digest);
    missing_ok(fs::remove_file(&path)).map_err(Error::io("removed", &path))?;
    removed.image = Some(image.digest);
    let wanted = wanted_layers(store)?;
    for layer in image.layers {
        if wanted.contains(&layer) {
            continue;
        }
        if in_use(&layer) {
            removed.in_use.push(layer);
        } else {
            staging::retire(&store.tmp(), &store.layer_folder(&layer))?;
            removed.layers.push(layer);
        }
    }
    Ok(removed)
}

pub(super) fn prune(
    store: &Store,
    in_use: &dyn Fn(&LayerId) -> bool,
) -> Result<Vec<LayerId>, Error> {
    let _lock = store.lock()?;
    let wanted = wanted_layers(store)?;
    let folder = store.layers();
    let mut pruned = Vec::new();
    for entry in fs::read_dir(&folder).map_err(Error::io("read", &folder))? {
        let entry = entry.map_err(Error::io("read", &folder))?;
        let layer: Option<LayerId> = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        if let Some(layer) = layer
            && !wanted.contains(&layer)
            && !in_use(&layer)
        {
            staging::retire(&store.tmp(), &entry.path())?;
            pruned.push(layer);
        }
    }
    pruned.sort();
    Ok(pruned)
}

pub(super) fn forget(store: &Store, layers: &[LayerId]) -> Result<(), Error> {
    let _lock = store.lock()?;
    let wanted = wanted_layers(store)?;
    for layer in layers.iter().filter(|layer| !wanted.contains(layer)) {
        staging::retire(&store.tmp(), &store.layer_folder(layer))?;
    }
    Ok(())
}

fn wanted_layers(store: &Store) -> Result<BTreeSet<LayerId>, Error> {
    Ok(list(store)?
        .into_iter()
        .flat_map(|image| image.layers)
        .collect())
}
