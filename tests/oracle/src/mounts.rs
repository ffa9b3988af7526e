//! Mounts, and how much room is on them.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use crate::Record;
use crate::text::{error, read};

/// Records each line of a mountinfo as a subject `mount POINT #n`; n counts what is mounted
/// over one point.
pub(crate) fn observe(record: &mut Record, path: &str) {
    let text = match read(path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => return record.put("mount", "all", error),
    };
    let mut seen = BTreeMap::<&str, usize>::new();
    for line in text.lines() {
        let words: Vec<_> = line.split(' ').collect();
        let dash = words
            .iter()
            .position(|word| *word == "-")
            .unwrap_or(words.len());
        let word = |place: usize| words.get(place).copied().unwrap_or_default();
        let number = seen.entry(word(4)).or_default();
        let subject = format!("mount {} #{number}", word(4));
        *number += 1;
        let mut put = |field: &str, value: &str| record.put(&subject, field, value);
        put("id", word(0));
        put("parent", word(1));
        put("dev", word(2));
        put("root", word(3));
        put("options", word(5));
        for field in words.get(6..dash).into_iter().flatten() {
            let (kind, number) = field.split_once(':').unwrap_or((field, ""));
            put(kind, number);
        }
        put("file system", word(dash + 1));
        put("source", word(dash + 2));
        for option in word(dash + 3).split(',') {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            // A name may come several times, such as lowerdir+.
            let field = format!("super {name}");
            let before = record.get(&subject, &field).map(str::to_owned);
            match before {
                Some(before) => record.set(&subject, &field, format!("{before}:{value}")),
                None => record.put(&subject, &field, value),
            }
        }
    }
}

/// Records what df says of every mount point of a mountinfo, whose paths begin at `root`.
pub(crate) fn space(record: &mut Record, path: &str, root: &str) {
    let Ok(text) = read(path) else {
        return record.put("space", "all", "no mountinfo");
    };
    for line in text.split(|byte| *byte == b'\n') {
        let Some(point) = line.split(|byte| *byte == b' ').nth(4) else {
            continue;
        };
        let path = [root.as_bytes(), &unescaped(point)].concat();
        let path = PathBuf::from(std::ffi::OsString::from_vec(path));
        let subject = format!("space {}", String::from_utf8_lossy(point));
        match rustix::fs::statvfs(&path) {
            Ok(stat) => {
                let mut set =
                    |field: &str, value: u64| record.set(&subject, field, value.to_string());
                set("block size", stat.f_bsize);
                set("fragment size", stat.f_frsize);
                set("blocks", stat.f_blocks);
                set("free blocks", stat.f_bfree);
                set("available blocks", stat.f_bavail);
                set("inodes", stat.f_files);
                set("free inodes", stat.f_ffree);
                set("available inodes", stat.f_favail);
                set("file system id", stat.f_fsid);
                set("flags", stat.f_flag.bits());
                set("longest name", stat.f_namemax);
            }
            Err(errno) => record.set(&subject, "blocks", error(errno)),
        }
    }
}

/// mountinfo writes space, tab, newline and backslash as three octal digits.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let digits = after
            .get(..3)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if *first == b'\\' => {
                bytes.push(byte);
                rest = &after[3..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::unescaped;

    #[test]
    fn octal_digits_stand_for_bytes() {
        assert_eq!(unescaped(b"/a\\040b\\134"), b"/a b\\");
        assert_eq!(unescaped(b"/plain\\"), b"/plain\\");
    }
}
