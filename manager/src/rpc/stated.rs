//! What a lease's holder states about its work, checked before it may stand in a signed record.

use innkeeper_records::canonical;
use serde_json::{Map, Value};
use tonic::Status;

use super::status::wrong;
use crate::records::facts::OWN_FIELDS;

/// Bytes of JSON that a holder may state.
const LONGEST: usize = 256 << 10;

/// Reads it.
///
/// # Errors
/// It is no JSON object, too long, holds fractions, or names a field that is the manager's to
/// fill: a holder cannot say what its sandbox was.
pub(super) fn read(text: &str) -> Result<Map<String, Value>, Status> {
    if text.len() > LONGEST {
        return Err(wrong(format!(
            "what is stated is longer than {LONGEST} bytes"
        )));
    }
    let stated = innkeeper_records::strict::read(text.as_bytes())
        .map_err(|error| wrong(format!("what is stated is no JSON: {error}")))?;
    canonical::text(&stated).map_err(|error| wrong(format!("what is stated: {error}")))?;
    let Value::Object(stated) = stated else {
        return Err(wrong("what is stated is no JSON object"));
    };
    match stated
        .keys()
        .find(|name| OWN_FIELDS.contains(&name.as_str()))
    {
        Some(name) => Err(wrong(format!(
            "the field {name} of a record is the manager's own"
        ))),
        None => Ok(stated),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_states_its_own_work_only() {
        assert_eq!(
            read(r#"{"verdict": "resolved"}"#).unwrap()["verdict"],
            "resolved"
        );
        for (text, why) in [
            (r#"{"lease": {"uses": 0}}"#, "lease"),
            (r#"{"signature": null}"#, "signature"),
            (r#"{"verdict": 1, "verdict": 2}"#, "stands twice"),
            (r#"{"t": 0.5}"#, "0.5"),
            ("[]", "no JSON object"),
            ("", "no JSON"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.message().contains(why), "{text}: {}", error.message());
        }
        let long = format!("{{\"a\": \"{}\"}}", "x".repeat(LONGEST));
        assert!(read(&long).unwrap_err().message().contains("longer"));
    }
}
