//! What can be wrong with a task file or a row.

use std::path::PathBuf;

use super::Source;

/// A task file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RowsError {
    /// The file could not be read.
    #[error("cannot read the task file {}: check the path and its permissions", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is neither parquet nor JSON nor JSON lines.
    #[error("the task file {} is not valid JSON or JSON lines ({source}): pass SWE-bench rows as .parquet, .json or .jsonl", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// The file begins like parquet but cannot be read as such.
    #[error("the task file {} is damaged parquet ({reason}): fetch it again", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// This build cannot read parquet.
    #[error("the task file {} is parquet, which this build leaves out: build with the `parquet` feature or convert the file to JSON lines", path.display())]
    NoParquet {
        /// The file.
        path: PathBuf,
    },
    /// The file holds no rows.
    #[error("the task file {} holds no rows: check that it is the right file", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// An entry is not an object.
    #[error("row {number} of {} is not an object with the fields of a SWE-bench row", path.display())]
    NotAnObject {
        /// The file.
        path: PathBuf,
        /// Number of the row, from 1.
        number: usize,
    },
    /// A row has no usable id.
    #[error("row {number} of {} has no usable instance_id ({found}): give it one that is not empty and can name a directory", path.display())]
    BadId {
        /// The file.
        path: PathBuf,
        /// Number of the row, from 1.
        number: usize,
        /// What stands there.
        found: String,
    },
    /// Two rows have the same id.
    #[error("rows {first} and {number} of {} have the same instance_id {id}: remove one of them", path.display())]
    Twice {
        /// The file.
        path: PathBuf,
        /// Number of the earlier row, from 1.
        first: usize,
        /// Number of the later row, from 1.
        number: usize,
        /// The id.
        id: String,
    },
    /// A field has a type that it cannot have.
    #[error("field {field} of row {number} ({id}) of {} must be {wanted}", path.display())]
    BadField {
        /// The file.
        path: PathBuf,
        /// Number of the row, from 1.
        number: usize,
        /// The row's id.
        id: String,
        /// The field.
        field: &'static str,
        /// What it must be.
        wanted: &'static str,
    },
}

/// A row that lacks what a use of it needs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("row {} ({id}) of {} has no {field}: {advice}", at.number, at.file.display())]
pub struct MissingField {
    /// The row's id.
    pub id: String,
    /// The field.
    pub field: &'static str,
    /// What to do about it.
    pub advice: &'static str,
    /// Where the row stands.
    pub at: Source,
}
