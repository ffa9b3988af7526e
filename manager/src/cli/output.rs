//! Standard output: one JSON document, JSON lines, or text for people.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::failure::Failure;

/// Prints a JSON document on a line of its own.
pub(crate) fn json(value: &Value) -> Result<(), Failure> {
    text(&format!("{value}\n"))
}

/// Prints text as it is.
pub(crate) fn text(text: &str) -> Result<(), Failure> {
    bytes(text.as_bytes())
}

/// Prints bytes as they are.
pub(crate) fn bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes)
        .and_then(|()| out.flush())
        .map_err(|e| match e.kind() {
            std::io::ErrorKind::BrokenPipe => Failure::unread(),
            _ => Failure::failed(format_args!("cannot write to standard output: {e}")),
        })
}

/// Puts bytes into an object: as a string where they are UTF-8, else in base64 under
/// the same name with `_b64` at its end.
pub(crate) fn put_bytes(object: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object.insert(name.to_owned(), Value::from(text)),
        Err(_) => object.insert(format!("{name}_b64"), Value::from(STANDARD.encode(bytes))),
    };
}

/// A string, null where it is empty.
pub(crate) fn optional(text: &str) -> Value {
    if text.is_empty() {
        Value::Null
    } else {
        Value::from(text)
    }
}

/// Milliseconds since the Unix epoch as seconds.
pub(crate) fn seconds(ms: u64) -> Value {
    #[expect(clippy::cast_precision_loss, reason = "exact until the year 287396")]
    let seconds = ms as f64 / 1000.0;
    Value::from(seconds)
}

/// The first twelve characters of a digest, without its algorithm.
pub(crate) fn short(digest: &str) -> String {
    digest
        .rsplit(':')
        .next()
        .unwrap_or(digest)
        .chars()
        .take(12)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_not_text_are_encoded() {
        let mut object = Map::new();
        put_bytes(&mut object, "stdout", b"caf\xc3\xa9\n");
        put_bytes(&mut object, "stderr", b"\xff\x00");
        assert_eq!(
            Value::Object(object).to_string(),
            r#"{"stderr_b64":"/wA=","stdout":"café\n"}"#
        );
    }

    #[test]
    fn digests_are_cut_behind_their_algorithm() {
        assert_eq!(short("sha256:0123456789abcdef"), "0123456789ab");
        assert_eq!(short("ab"), "ab");
    }
}
