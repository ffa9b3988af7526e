//! `--strategy` and `--rights`: how the sandboxes of one command are made, whatever its template
//! says.

use clap::Args;
use innkeeper::template::{Rights, Strategy};
use serde_json::{Map, Value};

use super::failure::Failure;

/// The form of the sandboxes of one command.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct FormArgs {
    /// How they are reset: auto, layered, sliced, in-place or none [default: the template's]
    #[arg(long, value_name = "S")]
    strategy: Option<Strategy>,
    /// With whose rights they are made: auto, root, pod or user [default: the template's]
    #[arg(long, value_name = "R")]
    rights: Option<Rights>,
}

impl FormArgs {
    /// Writes what was given into a template's fields.
    pub(crate) fn write(self, fields: &mut Map<String, Value>) {
        let words = [
            ("strategy", self.strategy.map(Strategy::as_str)),
            ("rights", self.rights.map(Rights::as_str)),
        ];
        for (field, word) in words {
            if let Some(word) = word {
                fields.insert(field.to_owned(), word.into());
            }
        }
    }

    /// What was given, as it would be given again.
    #[cfg(feature = "fuzz")]
    pub(crate) fn words(self) -> String {
        let mut fields = Map::new();
        self.write(&mut fields);
        fields
            .iter()
            .filter_map(|(field, word)| Some(format!(" --{field} {}", word.as_str()?)))
            .collect()
    }

    /// A template as JSON with what was given in it.
    pub(crate) fn into_template(self, template: &str) -> Result<String, Failure> {
        let mut fields = match template {
            "" => Map::new(),
            text => serde_json::from_str(text).map_err(Failure::usage)?,
        };
        self.write(&mut fields);
        Ok(Value::Object(fields).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_go_before_the_templates_fields() {
        let args = FormArgs {
            strategy: Some(Strategy::Sliced),
            rights: None,
        };
        let text = r#"{"rights":"user","strategy":"layered"}"#;
        let written = args.into_template(text).unwrap();
        assert_eq!(written, r#"{"rights":"user","strategy":"sliced"}"#);
        assert_eq!(FormArgs::default().into_template("").unwrap(), "{}");
    }
}
