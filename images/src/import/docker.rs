//! Docker archives: `manifest.json` names a config and the layers of each image.

use std::path::Path;
use std::rc::Rc;

use serde::Deserialize;

use super::files::Files;
use super::manifest::{self, check_count, parse, verify};
use super::{LayerSource, Plan};
use crate::error::Error;
use crate::id::Digest;
use crate::store::same_name;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Item {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

pub(super) fn plan(files: Files, path: &Path, tag: Option<&str>) -> Result<Plan, Error> {
    let source = path.display().to_string();
    let items: Vec<Item> = parse(&files.read("manifest.json")?, &source, "manifest.json")?;
    let item = select(items, &source, tag)?;
    let config = files.read(&item.config)?;
    if let Some(stated) = digest_in_name(&item.config) {
        verify(&config, stated, &format!("`{}` of {source}", item.config))?;
    }
    let (_, diff_ids) = manifest::parse_config(&config, &source)?;
    check_count(item.layers.len(), diff_ids.len(), &source)?;
    let files = Rc::new(files);
    let mut layers = Vec::new();
    for (diff_id, name) in diff_ids.into_iter().zip(item.layers) {
        let (_, size) = files.open(&name)?;
        let files = Rc::clone(&files);
        layers.push(LayerSource {
            diff_id,
            blob: None,
            size: Some(size),
            open: Box::new(move || files.open(&name).map(|(reader, _)| reader)),
        });
    }
    let names = item.repo_tags.unwrap_or_default();
    Ok(Plan {
        config,
        manifest_digest: None,
        layers,
        names,
        private: false,
        staging: None,
    })
}

/// The config's file is named by its digest: `HEX.json`, or `blobs/sha256/HEX`.
fn digest_in_name(name: &str) -> Option<Digest> {
    let last = name.rsplit('/').next()?;
    format!("sha256:{}", last.strip_suffix(".json").unwrap_or(last))
        .parse()
        .ok()
}

fn select(mut items: Vec<Item>, source: &str, tag: Option<&str>) -> Result<Item, Error> {
    let source_name = source.to_owned();
    let tags = |item: &Item| item.repo_tags.clone().unwrap_or_default();
    let choices: Vec<String> = items
        .iter()
        .map(|item| match tags(item).first() {
            Some(tag) => tag.clone(),
            None => item.config.clone(),
        })
        .collect();
    if let Some(wanted) = tag {
        items.retain(|item| {
            item.config == wanted || tags(item).iter().any(|tag| same_name(tag, wanted))
        });
        if items.is_empty() {
            return Err(Error::NotInSource {
                source_name,
                wanted: wanted.to_owned(),
                choices,
            });
        }
    }
    match (items.len(), items.pop()) {
        (1, Some(item)) => Ok(item),
        (_, None) => Err(Error::Damaged {
            source_name,
            what: "its manifest.json lists no image".to_owned(),
        }),
        (_, Some(_)) => Err(Error::PickOne {
            source_name,
            choices,
        }),
    }
}
