//! A full listing of a tree as text, one line a file, for comparing two trees.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use innkeeper_images::Digest;

/// Type, mode, owner, size, time, extended attributes, link group and content of everything below
/// a folder, the folder itself included. Times of directories can be left out.
pub(crate) fn of(root: &Path, directory_times: bool) -> Vec<String> {
    let mut files = BTreeMap::new();
    walk(root, Vec::new(), &mut files);
    let mut first_names: BTreeMap<u64, &[u8]> = BTreeMap::new();
    let mut lines = Vec::new();
    for (name, stat) in &files {
        let path = root.join(std::ffi::OsStr::from_bytes(name));
        let kind = stat.file_type();
        let what = if kind.is_dir() {
            "dir".to_owned()
        } else if kind.is_symlink() {
            format!("symlink {:?}", fs::read_link(&path).unwrap())
        } else if kind.is_file() {
            format!(
                "file {} {}",
                stat.size(),
                Digest::of(&fs::read(&path).unwrap())
            )
        } else if kind.is_fifo() {
            "fifo".to_owned()
        } else if kind.is_char_device() {
            format!("char {:x}", stat.rdev())
        } else {
            "other".to_owned()
        };
        let time = if kind.is_dir() && !directory_times {
            String::new()
        } else {
            format!("{}.{:09}", stat.mtime(), stat.mtime_nsec())
        };
        let group = match kind.is_dir() {
            true => "",
            false => &*String::from_utf8_lossy(first_names.entry(stat.ino()).or_insert(name)),
        };
        lines.push(format!(
            "{} | {what} | {:o} {}:{} | {time} | {} | {group}",
            name.escape_ascii(),
            stat.mode() & 0o7777,
            stat.uid(),
            stat.gid(),
            xattrs(&path),
        ));
    }
    lines
}

fn walk(path: &Path, name: Vec<u8>, files: &mut BTreeMap<Vec<u8>, fs::Metadata>) {
    let stat = fs::symlink_metadata(path).unwrap();
    let is_dir = stat.is_dir();
    files.insert(name.clone(), stat);
    if is_dir {
        for entry in fs::read_dir(path).unwrap() {
            let entry = entry.unwrap();
            let mut below = name.clone();
            if !below.is_empty() {
                below.push(b'/');
            }
            below.extend_from_slice(entry.file_name().as_bytes());
            walk(&entry.path(), below, files);
        }
    }
}

/// All extended attributes as `NAME=VALUE`, sorted.
pub(crate) fn xattrs(path: &Path) -> String {
    let mut names = vec![0; 65536];
    let length = rustix::fs::llistxattr(path, names.as_mut_slice()).unwrap_or(0);
    let mut shown = Vec::new();
    for name in names[..length]
        .split(|&b| b == 0)
        .filter(|name| !name.is_empty())
    {
        let mut value = vec![0; 65536];
        let length = rustix::fs::lgetxattr(path, name, value.as_mut_slice()).unwrap();
        shown.push(format!(
            "{}={}",
            name.escape_ascii(),
            value[..length].escape_ascii()
        ));
    }
    shown.sort();
    shown.join(" ")
}
