//! The network: every table of /proc/net, sockets one by one.

use std::collections::BTreeMap;
use std::fs;

use crate::Record;
use crate::text::{escaped, read};

/// Tables with one object in a line after the heading: the columns that tell which one it is.
/// The others are its fields.
const OBJECTS: [(&str, &[usize]); 14] = [
    ("tcp", &[1, 2, 3]),
    ("tcp6", &[1, 2, 3]),
    ("udp", &[1, 2, 3]),
    ("udp6", &[1, 2, 3]),
    ("udplite", &[1, 2, 3]),
    ("udplite6", &[1, 2, 3]),
    ("raw", &[1, 2, 3]),
    ("raw6", &[1, 2, 3]),
    ("icmp", &[1, 2, 3]),
    ("icmp6", &[1, 2, 3]),
    ("unix", &[3, 4, 5, 7]),
    ("netlink", &[1, 3]),
    ("packet", &[2, 3]),
    ("dev", &[0]),
];

/// Records every table of a folder such as /proc/self/net.
pub(crate) fn observe(record: &mut Record, folder: &str) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
    names.sort();
    for name in names {
        let name = name.to_string_lossy();
        let subject = format!("net {name}");
        record.put(&subject, "there", "yes");
        let path = format!("{folder}/{name}");
        if fs::metadata(&path).is_ok_and(|meta| meta.is_dir()) {
            continue;
        }
        let text = match read(&path) {
            Ok(bytes) => bytes,
            Err(error) => {
                record.put(&subject, "says", error);
                continue;
            }
        };
        match OBJECTS.iter().find(|(table, _)| *table == name) {
            Some((_, identity)) => objects(record, &subject, &text, identity),
            None => lines(record, &subject, &text),
        }
    }
}

fn lines(record: &mut Record, subject: &str, text: &[u8]) {
    let lines = text
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    for (number, line) in lines.enumerate() {
        record.put(subject, &format!("line {number}"), escaped(line));
    }
}

fn objects(record: &mut Record, subject: &str, text: &[u8], identity: &[usize]) {
    let mut seen = BTreeMap::<String, usize>::new();
    for line in text
        .split(|byte| *byte == b'\n')
        .skip(1)
        .filter(|line| !line.is_empty())
    {
        let line = escaped(line);
        let words: Vec<_> = line.split_whitespace().collect();
        let key: Vec<_> = identity
            .iter()
            .filter_map(|place| words.get(*place).copied())
            .collect();
        let key = key.join(" ");
        let number = seen.entry(key.clone()).or_default();
        let object = format!("{subject} {key} #{number}");
        *number += 1;
        for (place, word) in words.iter().enumerate() {
            record.put(&object, &format!("column {place}"), *word);
        }
    }
    record.put(subject, "objects", seen.values().sum::<usize>().to_string());
}
