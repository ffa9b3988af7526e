//! The template of a grading: the row's image and base commit, the harness's working directory.

use std::path::Path;

use innkeeper_grading::{Row, apply};
use serde_json::{Map, Value};

use crate::cli::failure::Failure;
use crate::cli::form::FormArgs;
use crate::cli::template;

/// What the user's template file says, to be completed row by row.
#[derive(Debug)]
pub(super) struct Base {
    fields: Map<String, Value>,
}

impl Base {
    /// Reads the file; without one there is no network, no memory limit and no service.
    pub(super) fn read(path: Option<&Path>, form: FormArgs) -> Result<Self, Failure> {
        let text = template::read(path)?;
        let mut fields = if text.is_empty() {
            Map::new()
        } else {
            serde_json::from_str(&text).map_err(Failure::usage)?
        };
        form.write(&mut fields);
        Ok(Self { fields })
    }

    /// The template of a row, as JSON: the same for all predictions of a row, so that they share
    /// sandboxes.
    pub(super) fn for_row(&self, row: &Row, image: &str) -> String {
        let mut fields = self.fields.clone();
        fields.insert("image".to_owned(), image.into());
        fields
            .entry("workdir")
            .or_insert_with(|| apply::WORKDIR.into());
        if let Some(commit) = row
            .base_commit
            .as_deref()
            .filter(|commit| !commit.is_empty())
        {
            fields.entry("base_commit").or_insert_with(|| commit.into());
        }
        Value::Object(fields).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_completes_what_the_file_says() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("row.jsonl");
        std::fs::write(&file, r#"{"instance_id": "a", "base_commit": "c0ffee"}"#).unwrap();
        let row = innkeeper_grading::read_rows(&file).unwrap().remove(0);
        let plain = Base::read(None, FormArgs::default())
            .unwrap()
            .for_row(&row, "i");
        assert_eq!(
            plain,
            r#"{"base_commit":"c0ffee","image":"i","workdir":"/testbed"}"#
        );
        let template = dir.path().join("t.yaml");
        std::fs::write(&template, "workdir: /src\nimage: other\nuser: dev\n").unwrap();
        let own = Base::read(Some(&template), FormArgs::default())
            .unwrap()
            .for_row(&row, "i");
        assert_eq!(
            own,
            r#"{"base_commit":"c0ffee","image":"i","user":"dev","workdir":"/src"}"#
        );
    }
}
