//! A false clean, to be kept.

use std::io;
use std::path::{Path, PathBuf};

use innkeeper_test_script::Script;

/// A reset that was called clean and left something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The run's seed.
    pub seed: u64,
    /// The script's number in it.
    pub iteration: u64,
    /// What was acted out; cut down, once it was.
    pub script: Script,
    /// In what the sandbox differed from a fresh one.
    pub differences: Vec<String>,
    /// Whether it happened again when it was tried again.
    pub repeats: bool,
}

impl Failure {
    /// Writes the script with all that is known of it into a folder, which is made. Gives its path.
    ///
    /// # Errors
    /// When the folder cannot be written to.
    pub fn save(&self, folder: &Path, again: &str) -> io::Result<PathBuf> {
        std::fs::create_dir_all(folder)?;
        let path = folder.join(format!(
            "seed-{}-iteration-{}.act",
            self.seed, self.iteration
        ));
        std::fs::write(&path, self.text(&path, again))?;
        Ok(path)
    }

    /// The file's text. `again` is the command line up to the script's path.
    fn text(&self, path: &Path, again: &str) -> String {
        let mut text = format!(
            "# A reset that was called clean left something.\n# seed {}, iteration {}\n# again: {again} --script {}\n",
            self.seed,
            self.iteration,
            path.display()
        );
        if !self.repeats {
            text.push_str("# It did not happen again when this was tried alone.\n");
        }
        for difference in &self.differences {
            let line: String = difference
                .chars()
                .map(|c| if c.is_control() { ' ' } else { c })
                .collect();
            text.push_str(&format!("# {line}\n"));
        }
        text.push_str(&self.script.to_string());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_saved_can_be_run_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let failure = Failure {
            seed: 5,
            iteration: 77,
            script: Script::parse("child\nunlink /a\\xff\n").expect("a script"),
            differences: vec!["file /a\nb mode: 0644 when fresh, 0600 now".to_owned()],
            repeats: true,
        };
        let path = failure
            .save(&folder.path().join("new"), "innkeeper fuzz --image i")
            .expect("saved");
        let text = std::fs::read_to_string(&path).expect("read");
        assert_eq!(Script::parse(&text), Ok(failure.script));
        assert!(text.contains("--image i --script /"), "{text}");
    }
}
