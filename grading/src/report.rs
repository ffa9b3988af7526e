//! Reports on disk, in the harness's layout:
//!
//! ```text
//! OUT/logs/run_evaluation/RUN/MODEL/INSTANCE/{report.json,test_output.txt,patch.diff,eval.sh,run_instance.log,attestation.json}
//! OUT/MODEL.RUN.json
//! ```

mod json;
mod summary;

use std::io::Write;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;

pub use json::to_report_json;
pub use summary::Summary;

use crate::verdict::{InstanceReport, ReportFile};

/// Names of an instance's files.
pub mod files {
    /// The report. Written last: from then on the instance counts as reported.
    pub const REPORT: &str = "report.json";
    /// The eval script's output, as UTF-8 ([`crate::decode_output`]), and after a timeout the
    /// trailer ([`crate::apply::timeout_trailer`]).
    pub const TEST_OUTPUT: &str = "test_output.txt";
    /// The patch as it was submitted.
    pub const PATCH: &str = "patch.diff";
    /// The eval script as it was run.
    pub const EVAL_SCRIPT: &str = "eval.sh";
    /// The account of the run ([`crate::apply::log_line`]).
    pub const RUN_LOG: &str = "run_instance.log";
    /// What the sandbox was; not one of the harness's.
    pub const ATTESTATION: &str = "attestation.json";
}

/// A report that could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A name that would lead out of the run's directory.
    #[error(
        "{what} {name:?} cannot name a file: use letters, digits, dots, dashes and underscores"
    )]
    BadName {
        /// What it names.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A file could not be read.
    #[error("cannot read {}: check its permissions, or remove it to have the instance graded again", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file or directory could not be written.
    #[error("cannot write {}: check that the output directory is writable and its disk not full", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// Whether `name` can be one component of a path: not empty, no `/`, no NUL, not `.` or `..`.
#[must_use]
pub fn is_component(name: &str) -> bool {
    !name.is_empty()
        && !name.contains(['/', '\0'])
        && name != "."
        && name != ".."
        && name.len() <= 255
}

/// The directory of one run's reports.
#[derive(Clone, Debug)]
pub struct RunDir {
    out: PathBuf,
    run_id: String,
}

impl RunDir {
    /// The reports of run `run_id` under `out`. Touches nothing on disk.
    ///
    /// # Errors
    /// [`ReportError::BadName`] when the id cannot name a directory.
    pub fn new(out: impl Into<PathBuf>, run_id: &str) -> Result<Self, ReportError> {
        Ok(Self {
            out: out.into(),
            run_id: component("the run id", run_id)?.to_owned(),
        })
    }

    /// Where everything of one instance goes. `model` may hold `/`.
    ///
    /// # Errors
    /// [`ReportError::BadName`] when a name cannot name a directory.
    pub fn instance(&self, model: &str, instance_id: &str) -> Result<PathBuf, ReportError> {
        let model = model.replace('/', "__");
        let dir = self.out.join("logs/run_evaluation").join(&self.run_id);
        Ok(dir
            .join(component("the model", &model)?)
            .join(component("the instance id", instance_id)?))
    }

    /// Where the summary of the run goes.
    ///
    /// # Errors
    /// [`ReportError::BadName`] when the model cannot name a file.
    pub fn summary_path(&self, model: &str) -> Result<PathBuf, ReportError> {
        let name = format!("{}.{}.json", model.replace('/', "__"), self.run_id);
        Ok(self.out.join(component("the summary", &name)?))
    }

    /// Writes one of an instance's files, complete or not at all; directories are made.
    ///
    /// # Errors
    /// [`ReportError`]. A failed write leaves an earlier file of that name as it was.
    pub fn write(
        &self,
        model: &str,
        instance_id: &str,
        file: &str,
        content: &[u8],
    ) -> Result<PathBuf, ReportError> {
        let path = self
            .instance(model, instance_id)?
            .join(component("the file", file)?);
        write_whole(&path, content)?;
        Ok(path)
    }

    /// Writes an instance's `report.json`, complete or not at all. From then on the instance
    /// counts as reported, so this comes after all its other files.
    ///
    /// # Errors
    /// [`ReportError`].
    pub fn write_report(
        &self,
        model: &str,
        instance_id: &str,
        report: &InstanceReport,
    ) -> Result<PathBuf, ReportError> {
        let file: ReportFile = IndexMap::from([(instance_id.to_owned(), report.clone())]);
        self.write(
            model,
            instance_id,
            files::REPORT,
            to_report_json(&file).as_bytes(),
        )
    }

    /// An instance's report if it was written, so that a second run can skip the instance.
    /// A file that is empty or no report is none: the instance is to be graded again.
    ///
    /// # Errors
    /// [`ReportError::Read`] when the file is there but cannot be read.
    pub fn read_report(
        &self,
        model: &str,
        instance_id: &str,
    ) -> Result<Option<InstanceReport>, ReportError> {
        let path = self.instance(model, instance_id)?.join(files::REPORT);
        let Some(content) = read_if_there(&path)? else {
            return Ok(None);
        };
        let file: Option<ReportFile> = serde_json::from_slice(&content).ok();
        Ok(file.and_then(|mut file| file.shift_remove(instance_id)))
    }
}

fn component<'a>(what: &'static str, name: &'a str) -> Result<&'a str, ReportError> {
    if is_component(name) {
        Ok(name)
    } else {
        Err(ReportError::BadName {
            what,
            name: name.to_owned(),
        })
    }
}

fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, ReportError> {
    match std::fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(ReportError::Read {
            path: path.to_owned(),
            source,
        }),
    }
}

/// Writes by way of a new file in the same directory and a rename.
fn write_whole(path: &Path, content: &[u8]) -> Result<(), ReportError> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let write = || -> std::io::Result<()> {
        std::fs::create_dir_all(dir)?;
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        let mut file = tempfile::Builder::new()
            .prefix(".unfinished-")
            .permissions(mode)
            .tempfile_in(dir)?;
        file.write_all(content)?;
        // Without it a crash can leave the new name with no content, which reads as an error.
        file.as_file().sync_all()?;
        file.persist(path).map_err(|failed| failed.error)?;
        Ok(())
    };
    write().map_err(|source| ReportError::Write {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_found_again_and_lies_in_the_layout() {
        let out = tempfile::tempdir().unwrap();
        let run = RunDir::new(out.path(), "r1").unwrap();
        assert_eq!(run.read_report("org/m", "a__a-1").unwrap(), None);
        let report = InstanceReport {
            patch_exists: true,
            ..InstanceReport::default()
        };
        let path = run.write_report("org/m", "a__a-1", &report).unwrap();
        assert_eq!(
            path,
            out.path()
                .join("logs/run_evaluation/r1/org__m/a__a-1/report.json")
        );
        assert_eq!(run.read_report("org/m", "a__a-1").unwrap(), Some(report));
        let left: Vec<_> = std::fs::read_dir(path.parent().unwrap()).unwrap().collect();
        assert_eq!(left.len(), 1, "only the report is left");
        std::fs::write(&path, "").unwrap();
        assert_eq!(run.read_report("org/m", "a__a-1").unwrap(), None);
    }

    #[test]
    fn no_name_leads_out_of_the_run() {
        assert!(RunDir::new("/nowhere", "../x").is_err());
        let run = RunDir::new("/nowhere", "r").unwrap();
        assert!(run.instance("..", "a").is_err());
        assert!(run.instance("m", "a/b").is_err());
        assert!(run.instance("m", "").is_err());
    }

    #[test]
    fn a_failed_write_says_where() {
        let out = tempfile::NamedTempFile::new().unwrap();
        let run = RunDir::new(out.path(), "r").unwrap();
        let message = run
            .write("m", "a", "eval.sh", b"x")
            .unwrap_err()
            .to_string();
        assert!(
            message.contains("eval.sh") && message.contains("writable"),
            "{message}"
        );
    }
}
