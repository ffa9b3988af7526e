//! A prepared template on disk: `prepared/KEY/{tree/, files, about, baseline}`. The
//! baseline is written last, by rename: without it the rest does not count.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use innkeeper_proto::v1::TemplateSpec;
use innkeeper_reset::baseline::Baseline;
use innkeeper_reset::tree::Tree;
use serde::{Deserialize, Serialize};

use super::{Template, TemplateError, baseline, image_lowers, marks, workdir};
use crate::sandbox::Machine;

/// Bytes of a stored tree at most: some 10 million entries.
const LARGEST_TREE: u64 = 2 << 30;

/// What is kept beside baseline and files.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct About {
    pub(super) lower_digests: Vec<String>,
    /// The slices of the root over which it was prepared: a prepared layer has a part for each.
    #[serde(default)]
    pub(super) slices: Vec<Vec<u8>>,
    /// The directory that is copied into every upper.
    #[serde(default)]
    pub(super) copied: Option<Vec<u8>>,
    pub(super) single_use: Option<String>,
    #[serde(default)]
    pub(super) leaks: Option<innkeeper_leaks::Report>,
}

/// The lowers of a template, topmost first, once its prepared layer is in place.
pub(super) fn lowers(machine: &Machine, spec: &TemplateSpec) -> Vec<String> {
    if machine.plain().is_some() {
        return Vec::new();
    }
    let prepared = format!("prepared/{}/tree", spec.key);
    std::iter::once(prepared)
        .chain(image_lowers(machine, spec))
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
pub(super) fn read(machine: &Machine, spec: &TemplateSpec) -> Option<Template> {
    let directory = machine.store.path(&format!("prepared/{}", spec.key));
    let baseline = Baseline::decode(&fs::read(directory.join("baseline")).ok()?).ok()?;
    let tree = Tree::decode(&fs::read(directory.join("files")).ok()?, LARGEST_TREE).ok()?;
    let about: About = serde_json::from_slice(&fs::read(directory.join("about")).ok()?).ok()?;
    let files = baseline
        .components
        .get(&innkeeper_reset::components::Component::Files)?;
    let other_parts = about.slices != machine.slices();
    if baseline.template_key != spec.key || tree.root() != *files || other_parts {
        return None;
    }
    // What is put back in place has no layer.
    let has_layer = machine.is_pod() && machine.plain().is_none();
    if has_layer && !is_intact(machine, spec, &about) {
        return None;
    }
    let prefilled = workdir::prefilled(&tree, about.copied.as_deref()).ok()?;
    let lowers = lowers(machine, spec);
    let opened = machine.open_lowers(&lowers).ok()?;
    Some(Template {
        spec: spec.clone(),
        lower_marks: marks(&opened).ok()?,
        lowers,
        lower_digests: about.lower_digests,
        baseline,
        tree: Arc::new(tree),
        copied: about.copied,
        prefilled,
        leaks: about.leaks,
        single_use: about.single_use,
    })
}

/// Whether a prepared layer is the one that was recorded. In a pod another one has made it, and
/// more hands than this daemon's have carried it here.
fn is_intact(machine: &Machine, spec: &TemplateSpec, about: &About) -> bool {
    let digest = baseline::prepared_layer(machine, &spec.key)
        .and_then(|layer| baseline::layer_digest(layer.as_fd()));
    let recorded = about.lower_digests.first();
    let same = digest.is_ok_and(|digest| recorded == Some(&format!("prepared:{digest}")));
    if !same {
        tracing::warn!(
            key = spec.key,
            "a prepared layer is not the one that was recorded"
        );
    }
    same
}
