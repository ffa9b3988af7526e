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

/// An error as the value of the field that could not be read.
pub(crate) fn error(errno: rustix::io::Errno) -> String {
    format!("error {}", errno.raw_os_error())
}

/// What was read, or why not.
pub(crate) fn read(path: impl AsRef<std::path::Path>) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|e| match rustix::io::Errno::from_io_error(&e) {
        Some(errno) => error(errno),
        None => format!("error {:?}", e.kind()),
    })
}

/// What was read as text, or why not; without the last line's end.
pub(crate) fn shown(path: impl AsRef<std::path::Path>) -> String {
    match read(path) {
        Ok(bytes) => escaped(bytes.strip_suffix(b"\n").unwrap_or(&bytes)),
        Err(error) => error,
    }
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
