//! The name of a row's image.

use super::Row;

/// A pattern that cannot be filled in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageNameError {
    /// A placeholder that means nothing.
    #[error(
        "the image pattern `{pattern}` uses {{{name}}}, but only {{instance_id}}, {{repo}} and {{version}} are known"
    )]
    UnknownPlaceholder {
        /// The pattern.
        pattern: String,
        /// What stands between the braces.
        name: String,
    },
    /// A brace without its partner.
    #[error(
        "the image pattern `{pattern}` has a brace without its partner: write placeholders as {{instance_id}}"
    )]
    Unbalanced {
        /// The pattern.
        pattern: String,
    },
    /// The row lacks the field.
    #[error(
        "the image pattern `{pattern}` uses {{{field}}}, which row {id} does not have: use {{instance_id}} instead"
    )]
    MissingField {
        /// The pattern.
        pattern: String,
        /// The field.
        field: &'static str,
        /// The row's id.
        id: String,
    },
}

/// The image a row is graded in: `pattern` filled in, else the row's own `image`, else the
/// name that the harness derives from the id.
///
/// # Errors
/// [`ImageNameError`] when the pattern cannot be filled in.
pub fn image_name(row: &Row, pattern: Option<&str>) -> Result<String, ImageNameError> {
    match (
        pattern,
        row.image.as_deref().filter(|image| !image.is_empty()),
    ) {
        (Some(pattern), _) => fill(row, pattern),
        (None, Some(image)) => Ok(image.to_owned()),
        (None, None) => Ok(harness_image_name(&row.instance_id)),
    }
}

/// The name under which the harness publishes an instance's image: lower case, and `_1776_`
/// for `__`, which the public registry does not allow in names.
#[must_use]
pub fn harness_image_name(instance_id: &str) -> String {
    let key = format!("sweb.eval.x86_64.{instance_id}:latest").to_lowercase();
    format!("swebench/{}", key.replace("__", "_1776_"))
}

fn fill(row: &Row, pattern: &str) -> Result<String, ImageNameError> {
    let unbalanced = || ImageNameError::Unbalanced {
        pattern: pattern.to_owned(),
    };
    let mut name = String::new();
    let mut rest = pattern;
    while let Some(brace) = rest.find(['{', '}']) {
        let (before, from) = rest.split_at(brace);
        let (placeholder, after) = from
            .strip_prefix('{')
            .and_then(|from| from.split_once('}'))
            .ok_or_else(unbalanced)?;
        name.push_str(before);
        name.push_str(field(row, pattern, placeholder)?);
        rest = after;
    }
    Ok(name + rest)
}

fn field<'a>(row: &'a Row, pattern: &str, placeholder: &str) -> Result<&'a str, ImageNameError> {
    let required = |value: &'a Option<String>, field| {
        value
            .as_deref()
            .ok_or_else(|| ImageNameError::MissingField {
                pattern: pattern.to_owned(),
                field,
                id: row.instance_id.clone(),
            })
    };
    match placeholder {
        "instance_id" => Ok(&row.instance_id),
        "repo" => required(&row.repo, "repo"),
        "version" => required(&row.version, "version"),
        unknown => Err(ImageNameError::UnknownPlaceholder {
            pattern: pattern.to_owned(),
            name: unknown.to_owned(),
        }),
    }
}
