//! A prepared template on disk: `prepared/KEY/{tree/, files, about, baseline}`. The
//! baseline is written last, by rename: without it the rest does not count.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use innkeeper_proto::v1::TemplateSpec;
use innkeeper_reset::baseline::Baseline;
use innkeeper_reset::tree::Tree;
use serde::{Deserialize, Serialize};

use super::{Template, TemplateError, image_lowers, marks};
use crate::store::Store;

/// Bytes of a stored tree at most: some 10 million entries.
const LARGEST_TREE: u64 = 2 << 30;

/// What is kept beside baseline and files.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct About {
    pub(super) lower_digests: Vec<String>,
    pub(super) single_use: Option<String>,
}

/// The lowers of a template, topmost first, once its prepared layer is in place.
pub(super) fn lowers(spec: &TemplateSpec) -> Vec<String> {
    let prepared = format!("prepared/{}/tree", spec.key);
    std::iter::once(prepared)
        .chain(image_lowers(spec))
        .collect()
}

/// Writes the records of a captured template.
pub(super) fn write(
    directory: &Path,
    baseline: &Baseline,
    tree: &Tree,
    about: &About,
) -> Result<(), TemplateError> {
    let baseline = baseline
        .encode()
        .map_err(|e| TemplateError::Capture(e.to_string()))?;
    let put = |name: &str, bytes: &[u8]| -> io::Result<()> {
        let new = directory.join(format!("{name}.new"));
        fs::write(&new, bytes)?;
        fs::rename(new, directory.join(name))
    };
    let all = || -> io::Result<()> {
        put("files", &tree.encode())?;
        put("about", &serde_json::to_vec(about)?)?;
        put("baseline", &baseline)
    };
    all().map_err(TemplateError::Store)
}

/// Reads a prepared template; none where there is none, or where what is there is
/// incomplete, damaged or of another format: such a one is never used.
pub(super) fn read(store: &Store, spec: &TemplateSpec) -> Option<Template> {
    let directory = store.prepared(&spec.key);
    let baseline = Baseline::decode(&fs::read(directory.join("baseline")).ok()?).ok()?;
    let tree = Tree::decode(&fs::read(directory.join("files")).ok()?, LARGEST_TREE).ok()?;
    let about: About = serde_json::from_slice(&fs::read(directory.join("about")).ok()?).ok()?;
    let files = baseline
        .components
        .get(&innkeeper_reset::components::Component::Files)?;
    if baseline.template_key != spec.key || tree.root() != *files {
        return None;
    }
    let lowers = lowers(spec);
    let opened = lowers
        .iter()
        .map(|path| store.layer(path))
        .collect::<Result<Vec<_>, _>>()
        .ok()?;
    Some(Template {
        spec: spec.clone(),
        lower_marks: marks(&opened).ok()?,
        lowers,
        lower_digests: about.lower_digests,
        baseline,
        tree: Arc::new(tree),
        single_use: about.single_use,
    })
}
