//! SWE-bench rows, predictions, log parsers, verdicts and reports.
//!
//! A library without a clock and without a runtime: it reads task files and predictions, says
//! what to run and how a log is to be read, and writes reports in the layout of the `swebench`
//! package 5.x, with whose verdicts its own agree. What runs where is the caller's business.
//!
//! One grading, in order: [`read_rows`] and [`read_predictions`]; [`image_name`] for the
//! sandbox; [`apply`] for the commands; [`log_text`] and [`grade`] for the log; [`RunDir`] for
//! the reports; [`flags`] for what the patch touched.

#![forbid(unsafe_code)]

pub mod apply;
mod flags;
pub mod infra;
mod log;
pub mod parsers;
mod patch;
mod predictions;
mod python_text;
mod report;
mod rows;
mod status;
mod verdict;

pub use flags::{Flag, FlagKind, flags};
pub use log::{markers, read_log};
pub use parsers::ParseError;
pub use patch::{Change, FileChange, Patch};
pub use predictions::{Prediction, Predictions, PredictionsError, Run, read_predictions};
pub use python_text::{decode_output, log_text, universal_newlines};
pub use report::files;
pub use report::{ReportError, RunDir, Summary, is_component, to_report_json};
pub use rows::{
    ImageNameError, MissingField, Row, RowsError, Source, harness_image_name, image_name, read_rows,
};
pub use status::{Status, StatusMap};
pub use verdict::{
    EvalType, GradeSpec, InstanceReport, Outcomes, ReportFile, TestsStatus, Unreported, Verdict,
    grade, judge,
};
