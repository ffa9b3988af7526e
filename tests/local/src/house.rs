//! One state directory with a manager, shared by the tests that need no failing one.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;

use innkeeper_test_cli::Inn;
use serde_json::{Value, json};

use crate::fixtures;
use crate::guest::Guest;

/// A manager that runs, and the images that it was given.
pub struct House {
    inn: Inn,
    imported: Mutex<BTreeSet<String>>,
}

impl House {
    /// Starts a manager on an empty state directory.
    pub fn open() -> Self {
        Self::with(&[])
    }

    /// Starts a manager with these options on an empty state directory.
    pub fn with(options: &[&str]) -> Self {
        let mut inn = Inn::new();
        inn.serve(options);
        Self {
            inn,
            imported: Mutex::default(),
        }
    }

    /// Starts a manager with options of `serve`.
    ///
    /// # Errors
    /// What it says when it does not start.
    pub fn try_with(options: &[&str]) -> Result<Self, String> {
        let mut inn = Inn::new();
        inn.try_serve(options)?;
        Ok(Self {
            inn,
            imported: Mutex::default(),
        })
    }

    /// The state directory and the commands on it.
    pub fn inn(&self) -> &Inn {
        &self.inn
    }

    /// The Debian base, imported.
    pub fn base(&self) -> String {
        let lines = fixtures::built("images/base.sh", &[]).expect("it needs no other interpreter");
        self.import("base", &lines[0][0]);
        "base".to_owned()
    }

    /// The images of a recipe, imported; their names.
    ///
    /// # Errors
    /// What this machine lacks for building them.
    pub fn images(&self, recipe: &str, arguments: &[&str]) -> Result<Vec<String>, String> {
        let lines = fixtures::built(recipe, arguments)?;
        let import = |line: Vec<String>| {
            self.import(&line[0], &line[1]);
            line[0].clone()
        };
        Ok(lines.into_iter().map(import).collect())
    }

    /// Imports a layout or a folder once, however many ask.
    pub fn import(&self, name: &str, source: impl AsRef<Path>) {
        let mut imported = self
            .imported
            .lock()
            .unwrap_or_else(|broken| broken.into_inner());
        if !imported.contains(name) {
            let source = source.as_ref().to_str().expect("a plain path");
            self.inn
                .run(["image", "import", source, "--name", name])
                .ok();
            imported.insert(name.to_owned());
        }
    }

    /// A lease of a sandbox that no other test shares: its template names the test, and its
    /// slots carry nothing else. `more` is laid over that template.
    #[track_caller]
    pub fn lease(&self, test: &str, image: &str, more: &Value) -> Guest<'_> {
        let mut template = json!({
            "env": {"INNKEEPER_TEST": test},
            "supply": {"carry": "own"},
        });
        let fields = template.as_object_mut().expect("an object");
        for (name, value) in more.as_object().into_iter().flatten() {
            fields.insert(name.clone(), value.clone());
        }
        Guest::lease(&self.inn, test, image, &template)
    }
}
