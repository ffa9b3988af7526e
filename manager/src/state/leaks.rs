//! What was seen of answers in templates' images, by template key, kept for the template's life.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use innkeeper_leaks::Report;

use super::{Error, failed, replace};

/// All known reports, in memory and on disk.
#[derive(Debug)]
pub struct Leaks {
    dir: PathBuf,
    known: RwLock<HashMap<String, Arc<Report>>>,
}

impl Leaks {
    /// Reads the folder, making it where it is missing. A file that cannot be understood counts
    /// as none: execd tells it again.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        std::fs::create_dir_all(dir).map_err(failed("creating", dir))?;
        let mut known = HashMap::new();
        for entry in std::fs::read_dir(dir).map_err(failed("reading", dir))? {
            let path = entry.map_err(failed("reading", dir))?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            let Some(key) = name.and_then(|name| name.strip_suffix(".json")) else {
                continue;
            };
            let bytes = std::fs::read(&path).map_err(failed("reading", &path))?;
            if let Ok(report) = serde_json::from_slice::<Report>(&bytes) {
                known.insert(key.to_owned(), Arc::new(report));
            }
        }
        Ok(Self {
            dir: dir.to_owned(),
            known: RwLock::new(known),
        })
    }

    /// The report of a template; None where nobody looked.
    pub fn get(&self, key: &str) -> Option<Arc<Report>> {
        let known = self.known.read().unwrap_or_else(|lock| lock.into_inner());
        known.get(key).cloned()
    }

    /// Takes a report; the first time, or when it says something new, it is written and flushed.
    pub fn know(&self, key: &str, report: Report) -> Result<(), Error> {
        if self.get(key).is_some_and(|known| *known == report) {
            return Ok(());
        }
        let bytes = serde_json::to_vec(&report).expect("reports have only string keys");
        let mut known = self.known.write().unwrap_or_else(|lock| lock.into_inner());
        known.insert(key.to_owned(), Arc::new(report));
        drop(known);
        replace(&self.dir.join(format!("{key}.json")), &bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_survive_a_restart_and_damage_counts_as_none() {
        let dir = tempfile::tempdir().unwrap();
        let report = Report {
            unread: vec!["a pack".to_owned()],
            ..Report::default()
        };
        let leaks = Leaks::open(dir.path()).unwrap();
        leaks.know("k", report.clone()).unwrap();
        std::fs::write(dir.path().join("other.json"), "{\"found\": 1}").unwrap();
        let again = Leaks::open(dir.path()).unwrap();
        assert_eq!(*again.get("k").unwrap(), report);
        assert!(again.get("other").is_none());
    }
}
