//! Names inside a layer: bytes, split into components that cannot leave the root.

/// Why a name inside a layer is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadPath {
    /// A `..` component.
    #[error("a name that climbs out with `..`")]
    Climbs,
    /// A zero byte.
    #[error("a name with a zero byte in it")]
    Zero,
    /// Longer than the kernel takes.
    #[error("a name longer than {0} bytes")]
    Long(usize),
    /// Deeper than [`crate::limits::MAX_DEPTH`].
    #[error("a name more than {0} directories deep")]
    Deep(usize),
}

/// Splits a name at its slashes. Leading slashes, `.` and empty components go away, as with tar:
/// an absolute name means the layer's own root. An empty result is the root itself.
pub(crate) fn components(name: &[u8]) -> Result<Vec<&[u8]>, BadPath> {
    use crate::limits::{MAX_DEPTH, MAX_PATH};
    if name.len() > MAX_PATH {
        return Err(BadPath::Long(MAX_PATH));
    }
    if name.contains(&0) {
        return Err(BadPath::Zero);
    }
    let mut parts = Vec::new();
    for part in name.split(|&b| b == b'/') {
        match part {
            b"" | b"." => {}
            b".." => return Err(BadPath::Climbs),
            part => parts.push(part),
        }
    }
    if parts.len() > MAX_DEPTH {
        return Err(BadPath::Deep(MAX_DEPTH));
    }
    Ok(parts)
}

/// A name as people can read it: what is not UTF-8 or printable is escaped.
pub(crate) fn shown(name: &[u8]) -> String {
    let mut text = String::new();
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_control() {
                text.extend(c.escape_default());
            } else {
                text.push(c);
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_below_the_root() {
        assert_eq!(components(b"./a//b/").unwrap(), [b"a", b"b"]);
        assert_eq!(components(b"/etc/./x").unwrap(), [&b"etc"[..], b"x"]);
        assert!(components(b"./").unwrap().is_empty());
        assert_eq!(components(b"a/../b"), Err(BadPath::Climbs));
        assert_eq!(components(b".."), Err(BadPath::Climbs));
        assert_eq!(components(b"a\0b"), Err(BadPath::Zero));
        assert!(components(&b"a/".repeat(2000)).is_err());
    }

    #[test]
    fn odd_bytes_are_shown_escaped() {
        assert_eq!(shown(b"a\xffb\n"), "a\\xffb\\n");
    }
}
