//! A lease and what is done with it.

use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use innkeeper_test_cli::{Inn, Ran};
use serde_json::Value;

use crate::listing::Listing;

/// A leased sandbox. A test that fails leaves it to its expiry and to the end of the manager.
pub struct Guest<'a> {
    inn: &'a Inn,
    /// What `lease --json` said.
    pub lease: Value,
    /// The lease's id.
    pub id: String,
}

/// What `exec --json` said.
#[derive(Debug)]
pub struct Shown {
    /// The whole document.
    pub all: Value,
    /// Standard output.
    pub stdout: String,
}

impl<'a> Guest<'a> {
    /// Asks for a sandbox of an image.
    #[track_caller]
    pub fn lease(inn: &'a Inn, test: &str, image: &str, template: &Value) -> Self {
        let asked = Self::try_lease(inn, test, image, template);
        asked.unwrap_or_else(|refused| panic!("no lease: {refused}"))
    }

    /// Asks for a sandbox of an image, which may be refused.
    ///
    /// # Errors
    /// What `lease` says.
    pub fn try_lease(
        inn: &'a Inn,
        test: &str,
        image: &str,
        template: &Value,
    ) -> Result<Self, String> {
        // Tests may ask for many at once, each by a file of its own.
        static ASKED: AtomicU64 = AtomicU64::new(0);
        let number = ASKED.fetch_add(1, Ordering::Relaxed);
        let file = inn.file(
            &format!("template-{test}-{number}.json"),
            template.to_string(),
        );
        let file = file.to_str().expect("a plain path");
        let ran = inn.run(["lease", image, "--json", "--template", file]);
        if ran.code != 0 {
            return Err(ran.stderr.trim().to_owned());
        }
        let lease = ran.json();
        let id = lease["lease"].as_str().expect("an id").to_owned();
        Ok(Self { inn, lease, id })
    }

    /// Runs a script by bash inside.
    pub fn bash(&self, script: &str) -> Ran {
        self.with(&[], &["bash", "-c", script])
    }

    /// Runs a script by bash inside, as another user.
    pub fn bash_as(&self, user: &str, script: &str) -> Ran {
        self.with(&["--user", user], &["bash", "-c", script])
    }

    /// Runs a Python program inside, which it reads from its standard input.
    pub fn python(&self, program: &str) -> Ran {
        let line = format!("exec {} -i -- /usr/bin/python3 -IBS -", self.id);
        self.inn.fed(&line, program.as_bytes())
    }

    /// Runs a command inside with options of `exec`.
    pub fn with(&self, options: &[&str], argv: &[&str]) -> Ran {
        self.inn
            .run([&["exec", &self.id], options, &["--"], argv].concat())
    }

    /// A command to be run inside with options of `exec`.
    pub fn command(&self, options: &[&str], argv: &[&str]) -> Command {
        self.inn
            .command([&["exec", &self.id], options, &["--"], argv].concat())
    }

    /// Runs a command inside and returns what `exec --json` says of it.
    #[track_caller]
    pub fn shown(&self, options: &[&str], argv: &[&str]) -> Shown {
        let all = self.with(&[&["--json"], options].concat(), argv).json();
        let stdout = all["stdout"].as_str().unwrap_or_default().to_owned();
        Shown { all, stdout }
    }

    /// Copies a file or a folder of this machine to a path inside.
    #[track_caller]
    pub fn bring(&self, from: &std::path::Path, to: &str) {
        let from = from.to_str().expect("a plain path");
        self.inn
            .run(["cp", from, &format!("{}:{to}", self.id)])
            .ok();
    }

    /// Everything that can be seen of the files, from inside.
    #[track_caller]
    pub fn list(&self) -> Listing {
        self.list_only(&[])
    }

    /// The same of some paths only, or of all where none is named.
    #[track_caller]
    pub fn list_only(&self, paths: &[&str]) -> Listing {
        let line = format!(
            "exec {} -i -- /usr/bin/python3 -IBS - {}",
            self.id,
            paths.join(" ")
        );
        let ran = self.inn.fed(&line, Listing::PROGRAM.as_bytes());
        Listing::parse(&ran.ok().stdout)
    }

    /// Returns the lease and waits for the outcome.
    #[track_caller]
    pub fn give_back(self, depth: &str) -> Value {
        let line = format!("return {} --wait --json --verify {depth}", self.id);
        self.inn.line(&line).ok().json()
    }

    /// Returns the lease and has its sandbox destroyed.
    #[track_caller]
    pub fn discard(self) {
        self.inn.line(&format!("return {} --discard", self.id)).ok();
    }

    /// Returns the lease, whose sandbox must then equal its baseline in everything.
    #[track_caller]
    pub fn comes_back_clean(self, depth: &str) -> Value {
        let baseline = self.lease["baseline"].clone();
        let back = self.give_back(depth);
        assert_eq!(back["outcome"], "clean", "{back}");
        assert_eq!(back["verified"], depth, "{back}");
        assert_eq!(back["digest"], baseline, "{back}");
        back
    }
}
