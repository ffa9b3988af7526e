//! JSON as Python's `json.dumps(value, indent=4)` writes it, so that reports of both tools can
//! be compared as files.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

/// `value` indented by four spaces, everything outside printable ASCII escaped.
///
/// # Panics
/// Never for types whose map keys are strings, as all report types' are.
pub fn to_report_json<T: Serialize + ?Sized>(value: &T) -> String {
    let mut text = Vec::new();
    let formatter = AsciiFormatter(PrettyFormatter::with_indent(b"    "));
    value
        .serialize(&mut Serializer::with_formatter(&mut text, formatter))
        .expect("string keys");
    String::from_utf8(text).expect("only ASCII is written")
}

/// Pretty printing with `\uXXXX` for what is not printable ASCII.
struct AsciiFormatter(PrettyFormatter<'static>);

impl Formatter for AsciiFormatter {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut units = [0; 2];
        for c in fragment.chars() {
            if matches!(c, ' '..='~') {
                writer.write_all(&[c as u8])?;
            } else {
                for unit in c.encode_utf16(&mut units) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            }
        }
        Ok(())
    }

    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_array(writer)
    }
    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array(writer)
    }
    fn begin_array_value<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.begin_array_value(writer, first)
    }
    fn end_array_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array_value(writer)
    }
    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object(writer)
    }
    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object(writer)
    }
    fn begin_object_key<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.begin_object_key(writer, first)
    }
    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object_value(writer)
    }
    fn end_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object_value(writer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_like_pythons() {
        let value = serde_json::json!({"a": ["é\u{7f}\n\u{1f600}\"\u{1f}"], "b": [], "c": {}});
        let expected = "{\n    \"a\": [\n        \"\\u00e9\\u007f\\n\\ud83d\\ude00\\\"\\u001f\"\n    ],\n    \"b\": [],\n    \"c\": {}\n}";
        assert_eq!(to_report_json(&value), expected);
    }
}
