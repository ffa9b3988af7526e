//! Predictions: which patch is to be graded for which instance.

use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use serde_json::Value;

use crate::report::is_component;
use crate::rows::{MissingField, Row, json_entries};

/// The model name of a prediction that does not say one; the harness prints Python's `None`.
const NAMELESS: &str = "None";

/// One prediction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prediction {
    /// The instance it is for.
    pub instance_id: String,
    /// Who made it. Reports put `__` for `/` in it.
    pub model_name_or_path: String,
    /// The patch, byte for byte as it was given; `None` where there is none.
    pub model_patch: Option<String>,
    /// The control run: the tests are run on the tree as it is, although there is no patch.
    pub control: bool,
}

/// What there is to run for a prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run<'a> {
    /// Apply this patch, then run the tests.
    Patch(&'a str),
    /// Run the tests without a patch (predictions `empty`).
    Control,
    /// Nothing: a submitted prediction without a patch, or an empty one, is listed under
    /// `empty_patch_ids` and neither run nor reported.
    Nothing,
}

impl Prediction {
    /// What there is to run, by the harness's rule.
    #[must_use]
    pub fn run(&self) -> Run<'_> {
        match (self.control, self.model_patch.as_deref()) {
            (true, _) => Run::Control,
            (false, None | Some("")) => Run::Nothing,
            (false, Some(patch)) => Run::Patch(patch),
        }
    }
}

/// Predictions by instance, in the order in which the instances first appeared. A later one
/// for the same instance replaces an earlier one, as in the harness.
pub type Predictions = IndexMap<String, Prediction>;

/// Predictions that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PredictionsError {
    /// The file could not be read.
    #[error("cannot read the predictions {}: pass a .json or .jsonl file, or the word gold or empty", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is not JSON.
    #[error("the predictions {} are not valid JSON or JSON lines ({source}): write one object with instance_id, model_name_or_path and model_patch for each instance", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// The file holds none.
    #[error("the predictions {} are empty: there is nothing to grade", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// An entry has a wrong form.
    #[error("prediction {number} of {}: {problem}", path.display())]
    Entry {
        /// The file.
        path: PathBuf,
        /// Number of the entry, from 1.
        number: usize,
        /// What is wrong and what to do.
        problem: String,
    },
    /// Predictions for instances that the task file does not have.
    #[error("the predictions name instances that the task file does not have ({}): pass the task file they were made for", ids.join(", "))]
    UnknownInstances {
        /// The ids, in the predictions' order.
        ids: Vec<String>,
    },
    /// A row without a right patch, while `gold` was asked for.
    #[error(transparent)]
    NoGold(#[from] MissingField),
}

/// Reads predictions from `source`: the word `gold` (the rows' own patches), the word `empty`
/// (every row's control run), or the path of a JSON or JSON lines file.
///
/// A file named `gold` is reached as `./gold`.
///
/// # Errors
/// [`PredictionsError`]; every prediction has to be for one of `rows`.
pub fn read_predictions(source: &str, rows: &[Row]) -> Result<Predictions, PredictionsError> {
    let for_row = |row: &Row, model: &str, patch: &str, control| Prediction {
        instance_id: row.instance_id.clone(),
        model_name_or_path: model.to_owned(),
        model_patch: Some(patch.to_owned()),
        control,
    };
    let list: Vec<Prediction> = match source {
        "gold" => rows
            .iter()
            .map(|row| Ok(for_row(row, "gold", row.gold_patch()?, false)))
            .collect::<Result<_, MissingField>>()?,
        "empty" => rows
            .iter()
            .map(|row| for_row(row, "empty", "", true))
            .collect(),
        path => read_file(Path::new(path))?,
    };
    let predictions: Predictions = list
        .into_iter()
        .map(|one| (one.instance_id.clone(), one))
        .collect();
    let known: std::collections::HashSet<_> =
        rows.iter().map(|row| row.instance_id.as_str()).collect();
    let ids: Vec<_> = predictions
        .keys()
        .filter(|id| !known.contains(id.as_str()))
        .cloned()
        .collect();
    if ids.is_empty() {
        Ok(predictions)
    } else {
        Err(PredictionsError::UnknownInstances { ids })
    }
}

fn read_file(path: &Path) -> Result<Vec<Prediction>, PredictionsError> {
    let bytes = std::fs::read(path).map_err(|source| PredictionsError::Read {
        path: path.to_owned(),
        source,
    })?;
    let entries = json_entries(&bytes)
        .map_err(|source| PredictionsError::Json {
            path: path.to_owned(),
            source,
        })?
        .into_values();
    if entries.is_empty() {
        return Err(PredictionsError::Empty {
            path: path.to_owned(),
        });
    }
    let numbered = entries.into_iter().enumerate();
    numbered
        .map(|(index, entry)| {
            prediction(entry).map_err(|problem| PredictionsError::Entry {
                path: path.to_owned(),
                number: index + 1,
                problem,
            })
        })
        .collect()
}

fn prediction(entry: Value) -> Result<Prediction, String> {
    let Value::Object(mut fields) = entry else {
        return Err(
            "it has to be an object with instance_id, model_name_or_path and model_patch"
                .to_owned(),
        );
    };
    let mut text = |field: &str| match fields.remove(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("{field} has to be a string")),
    };
    let instance_id =
        text("instance_id")?.ok_or("it has no instance_id: say which instance the patch is for")?;
    let model = text("model_name_or_path")?.unwrap_or_else(|| NAMELESS.to_owned());
    let model_patch = text("model_patch")?;
    if !is_component(&model.replace('/', "__")) {
        return Err(format!(
            "model_name_or_path {model:?} cannot name a directory: give the model another name"
        ));
    }
    Ok(Prediction {
        instance_id,
        model_name_or_path: model,
        model_patch,
        control: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(text: &str) -> Result<Vec<Prediction>, PredictionsError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        read_file(file.path())
    }

    #[test]
    fn all_layouts_read_alike() {
        let one =
            r#"{"instance_id": "a__a-1", "model_name_or_path": "org/m", "model_patch": "x\n"}"#;
        let by_id = r#"{"a__a-1": {"model_name_or_path": "org/m", "model_patch": "x\n"}}"#;
        for text in [
            one.to_owned(),
            format!("[{one}]"),
            format!("{one}\n\n"),
            by_id.to_owned(),
        ] {
            let read = from(&text).unwrap();
            assert_eq!(read.len(), 1, "{text}");
            assert_eq!(read[0].run(), Run::Patch("x\n"), "{text}");
            assert_eq!(read[0].model_name_or_path, "org/m");
        }
    }

    #[test]
    fn a_prediction_without_a_patch_is_not_run() {
        let read = from("{\"instance_id\":\"a\",\"model_patch\":null}\n{\"instance_id\":\"b\",\"model_patch\":\"\"}").unwrap();
        assert_eq!(
            read.iter().map(Prediction::run).collect::<Vec<_>>(),
            [Run::Nothing, Run::Nothing]
        );
        assert_eq!(read[0].model_name_or_path, "None");
    }

    #[test]
    fn errors_say_which_entry() {
        let message = from("{\"instance_id\":\"a\"}\n{\"model_patch\":\"\"}")
            .unwrap_err()
            .to_string();
        assert!(
            message.contains("prediction 2 of") && message.contains("instance_id"),
            "{message}"
        );
        let message = from("[1]").unwrap_err().to_string();
        assert!(
            message.contains("prediction 1 of") && message.contains("object"),
            "{message}"
        );
        assert!(
            from("[]")
                .unwrap_err()
                .to_string()
                .contains("nothing to grade")
        );
        assert!(
            from("{\"instance_id\":")
                .unwrap_err()
                .to_string()
                .contains("not valid JSON")
        );
        let message = from(r#"{"instance_id":"a","model_name_or_path":".."}"#)
            .unwrap_err()
            .to_string();
        assert!(message.contains("cannot name a directory"), "{message}");
    }
}
