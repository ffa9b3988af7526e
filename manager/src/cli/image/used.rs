//! Which layers sandboxes stand on.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use innkeeper::paths;
use innkeeper::state::templates;
use innkeeper_proto::v1::execd_client::ExecdClient;
use innkeeper_proto::v1::{Empty, SlotInfo};

/// Layers that must stay.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Used {
    /// Those that sandboxes were made from, by name.
    These(BTreeSet<String>),
    /// It cannot be told which, so every one.
    All,
}

impl Used {
    /// Whether a layer must stay.
    pub(super) fn holds(&self, layer: &str) -> bool {
        match self {
            Self::These(layers) => layers.contains(layer),
            Self::All => true,
        }
    }
}

/// Asks every execd of a state directory what stands in its slots. The layers of a template are
/// what its record says. A slot whose template has no record holds everything, and so does an
/// execd that does not answer though it runs, and a pod that carries one image: that is its root,
/// whatever stands in it.
pub(super) async fn by_sandboxes(state_dir: &Path) -> Used {
    let mut layers = BTreeSet::new();
    for socket in sockets(state_dir) {
        let address = format!("unix://{}", socket.display());
        let Ok(mut execd) = ExecdClient::connect(address).await else {
            // Nobody listens: it has ended.
            continue;
        };
        let Ok(slots) = execd.list_slots(Empty {}).await else {
            return Used::All;
        };
        for SlotInfo {
            template_key,
            state,
            ..
        } in &slots.get_ref().slots
        {
            if state == "blank" {
                continue;
            }
            // One that is being made has none yet, and so holds everything.
            match templates::layers(state_dir, template_key) {
                Some(of_template) => layers.extend(of_template),
                None => return Used::All,
            }
        }
    }
    match carried(state_dir) {
        Some(carried) => layers.extend(carried),
        None => return Used::All,
    }
    Used::These(layers)
}

fn sockets(state_dir: &Path) -> Vec<PathBuf> {
    let pods = folders(&state_dir.join("pods"));
    let pods = pods.into_iter().map(|pod| pod.join("run/execd.sock"));
    std::iter::once(paths::execd_socket(state_dir))
        .chain(pods)
        .collect()
}

/// Layers that are the roots of pods; None where one does not say.
fn carried(state_dir: &Path) -> Option<BTreeSet<String>> {
    let mut layers = BTreeSet::new();
    for pod in folders(&state_dir.join("pods")) {
        let record = std::fs::read(pod.join("pod.json")).ok()?;
        let record: serde_json::Value = serde_json::from_slice(&record).ok()?;
        let of_pod = record["layers"].as_array()?;
        layers.extend(
            of_pod
                .iter()
                .filter_map(|layer| Some(layer.as_str()?.to_owned())),
        );
    }
    Some(layers)
}

fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries
        .filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."))
        .map(|entry| entry.path())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn without_sandboxes_nothing_must_stay_and_a_pod_that_says_nothing_keeps_all() {
        let dir = tempfile::tempdir().unwrap();
        let used = by_sandboxes(dir.path()).await;
        assert!(!used.holds("a"));
        let pod = dir.path().join("pods/s-1");
        std::fs::create_dir_all(&pod).unwrap();
        assert_eq!(by_sandboxes(dir.path()).await, Used::All);
        std::fs::write(pod.join("pod.json"), r#"{"layers": ["a"]}"#).unwrap();
        let used = by_sandboxes(dir.path()).await;
        assert!(used.holds("a") && !used.holds("b"));
    }
}
