//! The templates that were ever asked for, so that a restarted manager can build them again.
//!
//! One file per template key, written and flushed before the template's first lease is asked of
//! the pool, and never changed. It holds what the key was computed from; on reading, the key is
//! computed again, and a file that no longer gives its own name is left alone and not used.

use std::collections::HashMap;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock};

use serde::{Deserialize, Serialize};

use super::{Error, failed, replace};
use crate::template::resolve::{Ground, bind};
use crate::template::{Resolved, Template};

#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    template: Template,
    ground: Ground,
}

/// All known templates, in memory and on disk.
#[derive(Debug)]
pub struct Templates {
    dir: PathBuf,
    known: RwLock<HashMap<String, Arc<Resolved>>>,
    /// One writer at a time: many leases may bring the same template first.
    writing: Mutex<()>,
}

impl Templates {
    /// Reads the folder, making it where it is missing.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(failed("creating", dir))?;
        let mut known = HashMap::new();
        for entry in std::fs::read_dir(dir).map_err(failed("reading", dir))? {
            let path = entry.map_err(failed("reading", dir))?.path();
            let Some(key) = path
                .file_name()
                .and_then(|name| name.to_str()?.strip_suffix(".json"))
            else {
                continue;
            };
            let bytes = std::fs::read(&path).map_err(failed("reading", &path))?;
            let bound = serde_json::from_slice::<Stored>(&bytes)
                .ok()
                .and_then(|s| bind(&s.template, &s.ground).ok());
            match bound.filter(|resolved| resolved.spec.key == key) {
                Some(resolved) => drop(known.insert(key.to_owned(), Arc::new(resolved))),
                None => tracing::warn!(path = %path.display(), "not a template of this version"),
            }
        }
        Ok(Self {
            dir: dir.to_owned(),
            known: RwLock::new(known),
            writing: Mutex::default(),
        })
    }

    /// The template of a key.
    pub fn get(&self, key: &str) -> Option<Arc<Resolved>> {
        self.known
            .read()
            .unwrap_or_else(|lock| lock.into_inner())
            .get(key)
            .cloned()
    }

    /// A template of a slot class: all of them say the same of its slots.
    pub fn of_class(&self, class: &str) -> Option<Arc<Resolved>> {
        let known = self.known.read().unwrap_or_else(|lock| lock.into_inner());
        known
            .values()
            .find(|resolved| resolved.class == class)
            .cloned()
    }

    /// All templates of a class, by key.
    pub fn all_of_class(&self, class: &str) -> Vec<Arc<Resolved>> {
        let known = self.known.read().unwrap_or_else(|lock| lock.into_inner());
        let of_class = known.values().filter(|template| template.class == class);
        let mut found: Vec<_> = of_class.cloned().collect();
        found.sort_by(|a, b| a.spec.key.cmp(&b.spec.key));
        found
    }

    /// Makes a template known. The first time this writes and flushes a file (milliseconds).
    pub fn know(
        &self,
        resolved: &Resolved,
        template: &Template,
        ground: &Ground,
    ) -> Result<Arc<Resolved>, Error> {
        let key = resolved.spec.key.clone();
        if let Some(known) = self.get(&key) {
            return Ok(known);
        }
        let _writing = self.writing.lock().unwrap_or_else(|lock| lock.into_inner());
        if let Some(known) = self.get(&key) {
            return Ok(known);
        }
        let stored = Stored {
            template: template.clone(),
            ground: ground.clone(),
        };
        let bytes = serde_json::to_vec_pretty(&stored).expect("templates have only string keys");
        replace(&self.dir.join(format!("{key}.json")), &bytes)?;
        let resolved = Arc::new(resolved.clone());
        let mut known = self.known.write().unwrap_or_else(|lock| lock.into_inner());
        Ok(known.entry(key).or_insert(resolved).clone())
    }
}

/// The image layers of a template that was ever known in a state directory, by name; None where
/// there is no record of it that can be read.
pub fn layers(state_dir: &Path, key: &str) -> Option<Vec<String>> {
    let path = crate::paths::manager_dir(state_dir)
        .join("templates")
        .join(format!("{key}.json"));
    let stored: Stored = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
    Some(stored.ground.image.layers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_survive_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let ground = Ground {
            tenant: "default".into(),
            ..Ground::default()
        };
        let template: Template = "{image: demo, prepare: [[make]]}".parse().unwrap();
        let resolved = bind(&template, &ground).unwrap();
        let key = resolved.spec.key.clone();
        let templates = Templates::open(dir.path()).unwrap();
        templates.know(&resolved, &template, &ground).unwrap();

        std::fs::write(dir.path().join(format!("{}.json", "0".repeat(64))), "{}").unwrap();
        let again = Templates::open(dir.path()).unwrap();
        assert_eq!(*again.get(&key).unwrap(), resolved);
        assert!(again.get(&"0".repeat(64)).is_none());
    }
}
