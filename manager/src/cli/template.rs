//! The template file: YAML or JSON, handed to the manager as JSON.

use std::path::Path;

use super::failure::Failure;

/// Reads a template file into JSON. An absent file is an empty template.
///
/// Fields are checked by whoever makes sandboxes of it; here only that it is YAML or JSON.
pub(crate) fn read(path: Option<&Path>) -> Result<String, Failure> {
    let Some(path) = path else {
        return Ok(String::new());
    };
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|e| {
        Failure::usage(format_args!(
            "cannot read the template {shown} ({e}): give --template a file that exists"
        ))
    })?;
    // JSON is YAML, so one parser reads both.
    let value: serde_json::Value = serde_yaml_ng::from_str(&text).map_err(|e| {
        Failure::usage(format_args!(
            "the template {shown} is neither YAML nor JSON: {e}"
        ))
    })?;
    match value {
        serde_json::Value::Object(_) => Ok(value.to_string()),
        serde_json::Value::Null => Ok(String::new()),
        _ => Err(Failure::usage(format_args!(
            "the template {shown} is not a set of fields: write it like `workdir: /testbed`"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<String, Failure> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.yaml");
        std::fs::write(&path, text).unwrap();
        read(Some(&path))
    }

    #[test]
    fn yaml_and_json_are_read_alike() {
        assert_eq!(
            read_text("env: {A: b}\nprepare: [[a, b]]\n").unwrap(),
            r#"{"env":{"A":"b"},"prepare":[["a","b"]]}"#
        );
        assert_eq!(
            read_text(r#"{"workdir": "/x"}"#).unwrap(),
            r#"{"workdir":"/x"}"#
        );
        assert_eq!(read_text("").unwrap(), "");
        assert_eq!(read(None).unwrap(), "");
    }

    #[test]
    fn what_is_no_template_is_named() {
        for text in ["a: [", "- 1", "text"] {
            let failure = read_text(text).unwrap_err();
            assert_eq!(failure.code, 2);
            assert!(failure.message.contains("t.yaml"), "{}", failure.message);
        }
    }
}
