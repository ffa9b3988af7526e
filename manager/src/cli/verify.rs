//! `verify`.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use innkeeper::paths;
use innkeeper_records::{Checked, Error, PublicKey, check};
use serde_json::{Value, json};

use super::Global;
use super::failure::{FAILED, Failure};
use super::output::{self, short};
use super::table::Table;

/// No record is longer.
const LONGEST: u64 = 64 << 20;

/// Check a signed record offline.
#[derive(Debug, Args)]
#[command(
    after_help = "RECORD is a file that holds a record: an attestation.json of `grade`, the output of `innkeeper record`,\nor what `return --wait --json` printed. Nothing is asked of a manager. Exit code 1: it proves nothing,\nand the reason is printed.\n\nExample:\n  innkeeper verify attestation.json --key attest.pub"
)]
pub(crate) struct Verify {
    /// The file; - for standard input
    record: PathBuf,
    /// The public key of the manager that signed [default: attest.pub in the state directory]
    #[arg(long, value_name = "F")]
    key: Option<PathBuf>,
}

impl Verify {
    /// Checks the record and says what it proves, or why it proves nothing.
    pub(crate) fn run(self, global: &Global) -> Result<i32, Failure> {
        let state_dir = global.state_dir.clone();
        let state_dir = state_dir.unwrap_or_else(paths::default_state_dir);
        let place = self.key.unwrap_or_else(|| state_dir.join("attest.pub"));
        let key = PublicKey::read(&place).map_err(|error| {
            Failure::failed(format_args!(
                "{error}: name the attest.pub of the manager that signed with --key"
            ))
        })?;
        let text = inner(read(&self.record)?);
        match check(&text, &key) {
            Ok(checked) if global.json => output::json(&valid(&checked)).map(|()| 0),
            Ok(checked) => output::text(&summary(&checked)).map(|()| 0),
            Err(error) if global.json => output::json(&invalid(&error)).map(|()| FAILED),
            Err(error) => Err(Failure::failed(format_args!(
                "{} proves nothing: {error}",
                self.record.display()
            ))),
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin().lock().take(LONGEST).read_to_end(&mut text)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(LONGEST).read_to_end(&mut text))
    };
    match read {
        Ok(_) => Ok(text),
        Err(error) => Err(Failure::failed(format_args!(
            "cannot read {}: {error}",
            path.display()
        ))),
    }
}

/// The record in the output of `return --wait --json`; any other text as it is.
fn inner(text: Vec<u8>) -> Vec<u8> {
    let Ok(Value::Object(outer)) = innkeeper_records::strict::read(&text) else {
        return text;
    };
    match outer.get("record") {
        Some(record @ Value::Object(_)) if !outer.contains_key("format") => {
            record.to_string().into_bytes()
        }
        Some(_) | None => text,
    }
}

fn valid(checked: &Checked) -> Value {
    json!({ "valid": true, "key": checked.key, "error": null, "record": checked.record })
}

fn invalid(error: &Error) -> Value {
    json!({
        "valid": false,
        "error": { "kind": error.word(), "field": error.field(), "message": error.to_string() },
    })
}

fn summary(checked: &Checked) -> String {
    let record = &checked.record;
    let at = |outer: &str, inner: &str| -> String {
        let value = record.get(outer).and_then(|value| value.get(inner));
        value.map_or_else(|| "-".to_owned(), word)
    };
    let mut table = Table::new(&[
        "LEASE", "SANDBOX", "IMAGE", "SUPPLY", ">USES", "STRATEGY", "RETURN", "VERIFIED", "VERDICT",
    ]);
    table.row([
        at("lease", "lease"),
        at("lease", "sandbox"),
        short(&at("image", "digest")),
        at("lease", "supply"),
        at("lease", "uses"),
        at("lease", "strategy"),
        at("return", "outcome"),
        at("return", "verified"),
        record.get("verdict").map_or_else(|| "-".to_owned(), word),
    ]);
    let mut text = format!(
        "valid: every field is as the key {} signed it\n\n",
        checked.key
    );
    text.push_str(&table.render());
    let stated = record.get("stated_by_holder").and_then(Value::as_array);
    if stated.is_some_and(|stated| !stated.is_empty()) {
        text.push_str(
            "\nThe sandbox and its return are the manager's own words; the verdict is its holder's.\n",
        );
    }
    text
}

fn word(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_found_in_what_return_prints() {
        let bare = br#"{"format":"innkeeper-record","record":{}}"#.to_vec();
        assert_eq!(inner(bare.clone()), bare);
        let printed = br#"{"outcome":"clean","record":{"format":"innkeeper-record"}}"#.to_vec();
        assert_eq!(inner(printed), br#"{"format":"innkeeper-record"}"#);
        for other in [&b"nonsense"[..], br#"{"record":null}"#, br#"{"a":1,"a":2}"#] {
            assert_eq!(inner(other.to_vec()), other);
        }
    }
}
