//! Text as the reference harness, a Python program, sees it.
//!
//! The parsers are compared with it test by test, so splitting, stripping and decoding
//! have to follow Python's rules rather than Rust's, which differ in small ways.

use std::borrow::Cow;

/// Whether Python's `str.isspace` holds for `c`.
///
/// Python also counts the four information separators U+001C to U+001F, which Unicode's
/// `White_Space` property (and so [`char::is_whitespace`]) leaves out.
pub(crate) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// `str.split()` without arguments: runs of white space separate, empty pieces vanish.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_space).filter(|word| !word.is_empty())
}

/// `str.strip()` without arguments.
pub(crate) fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// Bytes of a command's output as the text the harness writes into `test_output.txt`.
///
/// Undecodable bytes become U+FFFD, one for each maximal invalid part, which is what both
/// `bytes.decode(errors="replace")` and [`String::from_utf8_lossy`] do.
#[must_use]
pub fn decode_output(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// The text of a log file as the harness reads it back: Python opens files with universal
/// newlines, so `\r\n` and a lone `\r` (progress bars) end a line like `\n`.
#[must_use]
pub fn universal_newlines(text: &str) -> Cow<'_, str> {
    if !text.contains('\r') {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n"))
}

/// [`decode_output`] followed by [`universal_newlines`]: a log as the parsers want it.
#[must_use]
pub fn log_text(bytes: &[u8]) -> String {
    universal_newlines(&decode_output(bytes)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_where_python_splits() {
        let split: Vec<_> = words("\u{1c}a\u{a0}b\u{85}\tc\u{2003}").collect();
        assert_eq!(split, ["a", "b", "c"]);
        assert_eq!(strip("\u{1f} x y \u{1d}"), "x y");
    }

    #[test]
    fn carriage_returns_end_lines() {
        assert_eq!(log_text(b"a\r\nb\rc\n\xffd"), "a\nb\nc\n\u{fffd}d");
        assert_eq!(log_text(b"\r\r\n"), "\n\n");
    }
}
