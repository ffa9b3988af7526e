//! The one text of a JSON value: RFC 8785 for values whose numbers are whole.
//!
//! Fractions are refused: their texts differ between writers, and a record can say microseconds.

use serde_json::Value;

/// Whole numbers up to here are the same number to every JSON reader.
const LARGEST: i128 = (1 << 53) - 1;

/// Why a value has no canonical text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A fraction, or a number too large for some readers.
    #[error("{0} is no whole number up to 2^53 - 1")]
    Number(String),
}

/// The canonical text: keys in the order of their UTF-16 code units, no space, shortest escapes.
pub fn text(value: &Value) -> Result<String, Error> {
    let mut text = String::new();
    write(value, &mut text)?;
    Ok(text)
}

fn write(value: &Value, out: &mut String) -> Result<(), Error> {
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => out.push_str(&value.to_string()),
        Value::Number(number) => {
            let whole = number
                .as_i64()
                .map(i128::from)
                .or(number.as_u64().map(i128::from));
            match whole.filter(|whole| (-LARGEST..=LARGEST).contains(whole)) {
                Some(whole) => out.push_str(&whole.to_string()),
                None => return Err(Error::Number(number.to_string())),
            }
        }
        Value::Array(items) => {
            out.push('[');
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                write(item, out)?;
            }
            out.push(']');
        }
        Value::Object(object) => {
            let mut keys: Vec<_> = object.keys().collect();
            keys.sort_by(|a, b| a.encode_utf16().cmp(b.encode_utf16()));
            out.push('{');
            for (place, key) in keys.into_iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                write(&object[key], out)?;
            }
            out.push('}');
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn there_is_one_text() {
        let value = json!({"b": [1, -2, null], "a": "\u{1}\"\\/é", "\u{1F600}": 1, "\u{FFFF}": 0});
        assert_eq!(
            text(&value).unwrap(),
            "{\"a\":\"\\u0001\\\"\\\\/é\",\"b\":[1,-2,null],\"\u{1F600}\":1,\"\u{FFFF}\":0}"
        );
    }

    #[test]
    fn fractions_and_giants_have_none() {
        for value in [json!(1.5), json!(1.0), json!(1u64 << 53), json!(u64::MAX)] {
            assert!(text(&json!([value])).is_err(), "{value}");
        }
        assert_eq!(text(&json!((1u64 << 53) - 1)).unwrap(), "9007199254740991");
    }
}
