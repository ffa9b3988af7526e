//! Bytes as text that no two byte strings share.

use std::fmt::Write;

/// Printable ASCII as it is, a backslash doubled, everything else as `\xNN`.
pub(crate) fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'\\' => text.push_str("\\\\"),
            b' '..=b'~' => text.push(char::from(*byte)),
            other => write!(text, "\\x{other:02x}").expect("a String takes everything"),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn bytes_that_differ_read_differently() {
        assert_eq!(escaped(b"plain name"), "plain name");
        assert_eq!(escaped(b"a\n\xff\\x0a"), "a\\x0a\\xff\\\\x0a");
    }
}
