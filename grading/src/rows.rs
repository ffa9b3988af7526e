//! Task rows: what SWE-bench and sets like it say of one task.

mod document;
mod error;
mod image;
#[cfg(feature = "parquet")]
mod parquet;

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

pub(crate) use document::entries as json_entries;
pub use error::{MissingField, RowsError};
pub use image::{ImageNameError, harness_image_name, image_name};

use crate::parsers;
use crate::verdict::{EvalType, GradeSpec};

/// Repositories whose rows, where they do not say how they are judged, are judged by failures
/// alone. From the harness's constants.
const FAIL_ONLY: [&str; 6] = [
    "chartjs/Chart.js",
    "processing/p5.js",
    "markedjs/marked",
    "bpmn-io/bpmn-js",
    "openlayers/openlayers",
    "eslint/eslint",
];

/// One task. Only the id is certain; what a use needs is asked for by a method that says
/// which field of which row of which file is missing.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Unique name of the task, a single path component.
    pub instance_id: String,
    /// `owner/name` of the project.
    pub repo: Option<String>,
    /// Commit that the patch applies to, 40 hex digits.
    pub base_commit: Option<String>,
    /// Version of the project, as the set counts it.
    pub version: Option<String>,
    /// The right patch.
    pub patch: Option<String>,
    /// The patch that brings the tests; the eval script holds it as well.
    pub test_patch: Option<String>,
    /// Tests that the right patch repairs.
    pub fail_to_pass: Option<Vec<String>>,
    /// Tests that have to go on passing.
    pub pass_to_pass: Option<Vec<String>>,
    /// Shell script that places the tests and runs them.
    pub eval_script: Option<String>,
    /// Name of the log parser.
    pub log_parser: Option<String>,
    /// How tests are judged.
    pub eval_type: Option<EvalType>,
    /// Name of the image.
    pub image: Option<String>,
    /// All other columns.
    pub extra: Map<String, Value>,
    /// Where the row was read.
    pub source: Source,
}

/// Where a row stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The file.
    pub file: PathBuf,
    /// Number of the row in it, from 1.
    pub number: usize,
}

/// Reads all rows of a task file. The kind of file is told by its content: parquet, one JSON
/// document (an array of rows, one row, or an object of rows by id), or JSON lines.
///
/// # Errors
/// [`RowsError`], naming the file and, where one is at fault, the row. Nothing is returned of a
/// file with a bad row.
pub fn read_rows(path: &Path) -> Result<Vec<Row>, RowsError> {
    let bytes = std::fs::read(path).map_err(|source| RowsError::Read {
        path: path.to_owned(),
        source,
    })?;
    let values = if bytes.starts_with(b"PAR1") {
        parquet_rows(path, bytes)?
    } else {
        document::rows(path, &bytes)?
    };
    if values.is_empty() {
        return Err(RowsError::Empty {
            path: path.to_owned(),
        });
    }
    let mut rows = Vec::with_capacity(values.len());
    let mut seen = std::collections::HashMap::new();
    for (index, value) in values.into_iter().enumerate() {
        let row = document::row(
            value,
            Source {
                file: path.to_owned(),
                number: index + 1,
            },
        )?;
        if let Some(first) = seen.insert(row.instance_id.clone(), index + 1) {
            let (path, id) = (path.to_owned(), row.instance_id);
            return Err(RowsError::Twice {
                path,
                first,
                number: index + 1,
                id,
            });
        }
        rows.push(row);
    }
    Ok(rows)
}

#[cfg(feature = "parquet")]
fn parquet_rows(path: &Path, bytes: Vec<u8>) -> Result<Vec<Value>, RowsError> {
    parquet::rows(bytes).map_err(|error| RowsError::Parquet {
        path: path.to_owned(),
        reason: error.to_string(),
    })
}

#[cfg(not(feature = "parquet"))]
fn parquet_rows(path: &Path, _bytes: Vec<u8>) -> Result<Vec<Value>, RowsError> {
    Err(RowsError::NoParquet {
        path: path.to_owned(),
    })
}

impl Row {
    /// The eval script.
    ///
    /// # Errors
    /// [`MissingField`] when the row has none, or an empty one.
    pub fn eval_script(&self) -> Result<&str, MissingField> {
        let advice =
            "use a set whose rows carry their eval script, as the current SWE-bench files do";
        self.text(&self.eval_script, "eval_script", advice)
    }

    /// The commit that the patch applies to.
    ///
    /// # Errors
    /// [`MissingField`] when the row has none, or an empty one.
    pub fn base_commit(&self) -> Result<&str, MissingField> {
        self.text(
            &self.base_commit,
            "base_commit",
            "add the commit that the patch applies to",
        )
    }

    /// The right patch.
    ///
    /// # Errors
    /// [`MissingField`] when the row has none, or an empty one.
    pub fn gold_patch(&self) -> Result<&str, MissingField> {
        self.text(
            &self.patch,
            "patch",
            "pass predictions of your own instead of `gold`",
        )
    }

    /// What grading needs. Rows of the classic layout get the parser and the way of judging
    /// that the harness uses for their repository.
    ///
    /// # Errors
    /// [`MissingField`] for a missing list of tests, or a parser that cannot be told. A missing
    /// list is never taken for an empty one: that would resolve the row with no test run.
    pub fn grading(&self) -> Result<GradeSpec<'_>, MissingField> {
        let repo = self.repo.as_deref();
        let log_parser = self.log_parser.as_deref().filter(|name| !name.is_empty());
        let known = log_parser.or_else(|| repo.and_then(parsers::for_repo));
        let log_parser = known.ok_or_else(|| {
            self.missing(
                "log_parser",
                "name one of the parsers, such as parse_log_pytest",
            )
        })?;
        let by_repo = if repo.is_some_and(|repo| FAIL_ONLY.contains(&repo)) {
            EvalType::FailOnly
        } else {
            EvalType::PassAndFail
        };
        Ok(GradeSpec {
            instance_id: &self.instance_id,
            log_parser,
            eval_type: self.eval_type.unwrap_or(by_repo),
            fail_to_pass: self.tests(&self.fail_to_pass, "FAIL_TO_PASS")?,
            pass_to_pass: self.tests(&self.pass_to_pass, "PASS_TO_PASS")?,
        })
    }

    fn text<'a>(
        &'a self,
        value: &'a Option<String>,
        field: &'static str,
        advice: &'static str,
    ) -> Result<&'a str, MissingField> {
        value
            .as_deref()
            .filter(|text| !text.trim().is_empty())
            .ok_or_else(|| self.missing(field, advice))
    }

    fn tests<'a>(
        &'a self,
        list: &'a Option<Vec<String>>,
        field: &'static str,
    ) -> Result<&'a [String], MissingField> {
        let advice = "add the list of tests, without which there is nothing to judge";
        list.as_deref().ok_or_else(|| self.missing(field, advice))
    }

    fn missing(&self, field: &'static str, advice: &'static str) -> MissingField {
        MissingField {
            id: self.instance_id.clone(),
            field,
            advice,
            at: self.source.clone(),
        }
    }
}
