//! Rows in JSON: an array, an object by id, one row, or one row a line.

use std::path::Path;

use indexmap::IndexMap;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{Row, RowsError, Source};
use crate::report::is_component;
use crate::verdict::EvalType;

/// The values of all rows of a file.
pub(super) fn rows(path: &Path, bytes: &[u8]) -> Result<Vec<Value>, RowsError> {
    entries(bytes)
        .map(Entries::into_values)
        .map_err(|source| RowsError::Json {
            path: path.to_owned(),
            source,
        })
}

/// The entries of a JSON file in their order.
pub(crate) enum Entries {
    /// From an array, from JSON lines, or a single object with an `instance_id`.
    List(Vec<Value>),
    /// From an object without an `instance_id`: entries by id.
    ById(IndexMap<String, Value>),
}

impl Entries {
    /// The entries; one found by id that does not say its id is given it.
    pub(crate) fn into_values(self) -> Vec<Value> {
        match self {
            Self::List(values) => values,
            Self::ById(by_id) => by_id
                .into_iter()
                .map(|(id, value)| with_id(id, value))
                .collect(),
        }
    }
}

fn with_id(id: String, mut value: Value) -> Value {
    if let Value::Object(fields) = &mut value {
        fields.entry("instance_id").or_insert(Value::String(id));
    }
    value
}

/// Tells the kind of JSON by the content.
pub(crate) fn entries(bytes: &[u8]) -> Result<Entries, serde_json::Error> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    if first == Some(&b'[') {
        return serde_json::from_slice(bytes).map(Entries::List);
    }
    let mut documents = stream::<Value>(bytes)?;
    let single_map = match &documents[..] {
        [Value::Object(fields)] => !fields.contains_key("instance_id"),
        _ => false,
    };
    if single_map {
        // Read again, for the order of the keys.
        return serde_json::from_slice(bytes).map(Entries::ById);
    }
    documents.retain(|document| !document.is_null());
    Ok(Entries::List(documents))
}

fn stream<T: DeserializeOwned>(bytes: &[u8]) -> Result<Vec<T>, serde_json::Error> {
    serde_json::Deserializer::from_slice(bytes)
        .into_iter()
        .collect()
}

/// A row from its value.
pub(super) fn row(value: Value, source: Source) -> Result<Row, RowsError> {
    let Value::Object(mut fields) = value else {
        return Err(RowsError::NotAnObject {
            path: source.file,
            number: source.number,
        });
    };
    let instance_id = match fields.remove("instance_id") {
        Some(Value::String(id)) if is_component(&id) => id,
        other => {
            let found = other.map_or_else(|| "missing".to_owned(), |value| value.to_string());
            return Err(RowsError::BadId {
                path: source.file,
                number: source.number,
                found,
            });
        }
    };
    let bad = |field, wanted| RowsError::BadField {
        path: source.file.clone(),
        number: source.number,
        id: instance_id.clone(),
        field,
        wanted,
    };
    let mut text = |field| text(&mut fields, field).ok_or_else(|| bad(field, "a string"));
    let (repo, base_commit, version) = (text("repo")?, text("base_commit")?, text("version")?);
    let (patch, test_patch) = (text("patch")?, text("test_patch")?);
    let (eval_script, log_parser, image) =
        (text("eval_script")?, text("log_parser")?, text("image")?);
    let eval_type = match text("eval_type")?.as_deref() {
        None | Some("") => None,
        Some("pass_and_fail") => Some(EvalType::PassAndFail),
        Some("fail_only") => Some(EvalType::FailOnly),
        Some(_) => return Err(bad("eval_type", "pass_and_fail or fail_only")),
    };
    let mut tests = |field| {
        tests(&mut fields, field)
            .ok_or_else(|| bad(field, "a list of test names, or one as a JSON string"))
    };
    let (fail_to_pass, pass_to_pass) = (tests("FAIL_TO_PASS")?, tests("PASS_TO_PASS")?);
    Ok(Row {
        repo,
        base_commit,
        version,
        patch,
        test_patch,
        fail_to_pass,
        pass_to_pass,
        eval_script,
        log_parser,
        eval_type,
        image,
        extra: fields,
        instance_id,
        source,
    })
}

/// Outer `None` for a value of another type; a version may be written as a number.
fn text(fields: &mut Map<String, Value>, field: &str) -> Option<Option<String>> {
    match fields.remove(field) {
        None | Some(Value::Null) => Some(None),
        Some(Value::String(text)) => Some(Some(text)),
        Some(Value::Number(number)) if field == "version" => Some(Some(number.to_string())),
        Some(_) => None,
    }
}

/// Outer `None` for a value that is not a list of names.
fn tests(fields: &mut Map<String, Value>, field: &str) -> Option<Option<Vec<String>>> {
    match fields.remove(field) {
        None | Some(Value::Null) => Some(None),
        Some(Value::String(json)) => serde_json::from_str(&json).ok().map(Some),
        Some(list) => serde_json::from_value(list).ok().map(Some),
    }
}
