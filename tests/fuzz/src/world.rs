//! What there is in an image for scripts to work on.

use innkeeper_test_oracle::Record;

/// Paths of a fresh sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct World {
    /// Everything but directories.
    pub(crate) files: Vec<Vec<u8>>,
    /// Directories, the root among them.
    pub(crate) directories: Vec<Vec<u8>>,
}

impl World {
    /// What a record shows.
    pub fn of(record: &Record) -> Self {
        let mut world = Self::default();
        for (subject, fields) in record.subjects() {
            let Some(path) = subject.strip_prefix("file ").and_then(plain) else {
                continue;
            };
            match fields.get("type").map(String::as_str) {
                Some("directory") => world.directories.push(path),
                Some(_) => world.files.push(path),
                None => {}
            }
        }
        world
    }
}

/// The bytes that the oracle's text stands for.
fn plain(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = match (first, tail) {
            (b'\\', [b'\\', tail @ ..]) => {
                bytes.push(b'\\');
                tail
            }
            (b'\\', [b'x', a, b, tail @ ..]) => {
                let digits = [*a, *b];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
                tail
            }
            (b'\\', _) => return None,
            _ => {
                bytes.push(*first);
                tail
            }
        };
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_come_back_as_bytes() {
        let mut record = Record::new();
        record.put("file /", "type", "directory");
        record.put("file /a\\\\b\\xff", "type", "file");
        record.put("process self", "type", "file");
        let world = World::of(&record);
        assert_eq!(world.directories, [b"/".to_vec()]);
        assert_eq!(world.files, [b"/a\\b\xff".to_vec()]);
        assert_eq!(plain("\\x4"), None);
        assert_eq!(plain("\\n"), None);
    }
}
