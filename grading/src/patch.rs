//! Which files a patch touches, for every form of patch that `git apply` or `patch` accept.
//!
//! The reader never fails. Where the tools disagree about a header, every path that one of
//! them may take is reported, since a path too many is a flag too many while a path too few is
//! tampering unseen.

mod hunk;
mod name;

use std::collections::BTreeSet;
use std::path::PathBuf;

use name::Named;

/// What a patch does to one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The file is new.
    Added,
    /// The file goes away.
    Deleted,
    /// Content or mode changes.
    Modified,
    /// The file moves.
    Renamed,
    /// The file is a copy of another.
    Copied,
}

/// One file of a patch. Paths are relative to the repository, without `.` and `..`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// The path before, unless the file is new.
    pub old: Option<PathBuf>,
    /// The path afterwards, unless the file goes away.
    pub new: Option<PathBuf>,
    /// What happens to it.
    pub change: Change,
    /// Whether it is a symbolic link afterwards.
    pub symlink: bool,
    /// Whether the change is to binary content.
    pub binary: bool,
    paths: BTreeSet<PathBuf>,
}

impl FileChange {
    /// Every path that a tool may take this part of the patch to touch.
    pub fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.paths.iter()
    }
}

/// A patch as the list of its files, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    /// The files. A file may occur more than once.
    pub files: Vec<FileChange>,
}

/// A part of the patch while it is being read.
#[derive(Default)]
struct Part {
    git: bool,
    body: bool,
    named: bool,
    old: Named,
    new: Named,
    added: bool,
    deleted: bool,
    moved: Option<Change>,
    symlink: bool,
    binary: bool,
    paths: BTreeSet<PathBuf>,
}

impl Patch {
    /// Reads a unified, git or context diff; text around it is skipped.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Self {
        let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').map(without_cr).collect();
        let mut files = Vec::new();
        let mut part = Part::default();
        let mut at = 0;
        while let Some(line) = lines.get(at) {
            // `patch` takes diffs that are indented as a whole.
            let text = line.trim_ascii_start();
            let next = lines
                .get(at + 1)
                .map_or(&b""[..], |line| line.trim_ascii_start());
            at += 1;
            if let Some(names) = text.strip_prefix(b"diff --git ") {
                part.finish(&mut files);
                part.git = true;
                part.git_names(names);
            } else if let Some(name) = text.strip_prefix(b"Index: ") {
                part.finish(&mut files);
                part.name(name, name);
            } else if let (Some(old), Some(new)) =
                (text.strip_prefix(b"--- "), next.strip_prefix(b"+++ "))
            {
                part.file_header(&mut files, old, new);
                at += 1;
            } else if let (Some(old), Some(new)) =
                (text.strip_prefix(b"*** "), next.strip_prefix(b"--- "))
                && !hunk::is_context_range(old)
            {
                part.file_header(&mut files, old, new);
                at += 1;
            } else if let Some(counts) = hunk::counts(text) {
                part.body = true;
                at += hunk::length(&lines[at..], counts);
            } else {
                part.extended(text);
            }
        }
        part.finish(&mut files);
        Self { files }
    }

    /// Every path the patch may touch.
    #[must_use]
    pub fn paths(&self) -> BTreeSet<PathBuf> {
        self.files
            .iter()
            .flat_map(FileChange::paths)
            .cloned()
            .collect()
    }
}

impl Part {
    /// The `---`/`+++` pair: part of a git header once, else the start of a new file.
    fn file_header(&mut self, files: &mut Vec<FileChange>, old: &[u8], new: &[u8]) {
        if self.named || self.body {
            self.finish(files);
        }
        self.named = true;
        self.name(old, new);
    }

    fn name(&mut self, old: &[u8], new: &[u8]) {
        let sides = [(&mut self.old, old), (&mut self.new, new)];
        for (side, raw) in sides {
            *side = name::from_header(raw);
            self.paths.extend(name::all_readings(raw));
        }
    }

    fn git_names(&mut self, raw: &[u8]) {
        let (old, new) = name::from_git_line(raw);
        self.paths
            .extend([&old, &new].into_iter().flatten().cloned());
        self.old = old.map_or(Named::Unknown, Named::Path);
        self.new = new.map_or(Named::Unknown, Named::Path);
    }

    /// A line of git's extended header; elsewhere such lines mean nothing.
    fn extended(&mut self, text: &[u8]) {
        self.binary |= text == b"GIT binary patch"
            || (text.starts_with(b"Binary files ") && text.ends_with(b" differ"));
        if !self.git || self.body {
            return;
        }
        let moves = [
            (&b"rename from "[..], Change::Renamed, true),
            (b"rename to ", Change::Renamed, false),
            (b"rename old ", Change::Renamed, true),
            (b"rename new ", Change::Renamed, false),
            (b"copy from ", Change::Copied, true),
            (b"copy to ", Change::Copied, false),
        ];
        for (prefix, change, is_old) in moves {
            if let Some(path) = text.strip_prefix(prefix).and_then(name::whole_path) {
                self.paths.insert(path.clone());
                *(if is_old { &mut self.old } else { &mut self.new }) = Named::Path(path);
                self.moved = Some(change);
            }
        }
        self.added |= text.starts_with(b"new file mode ");
        self.deleted |= text.starts_with(b"deleted file mode ");
        let mode = text
            .strip_prefix(b"new file mode ")
            .or_else(|| text.strip_prefix(b"new mode "));
        let index_mode = text
            .strip_prefix(b"index ")
            .and_then(|rest| rest.rsplit(|byte| *byte == b' ').next());
        self.symlink |= mode
            .or(index_mode)
            .is_some_and(|mode| mode.starts_with(b"120"));
    }

    /// Ends the part: a file if it named any path, and everything starts anew.
    fn finish(&mut self, files: &mut Vec<FileChange>) {
        let part = std::mem::take(self);
        if part.paths.is_empty() {
            return;
        }
        let change = match part.moved {
            Some(change) => change,
            None if part.added || part.old == Named::Nothing => Change::Added,
            None if part.deleted || part.new == Named::Nothing => Change::Deleted,
            None => Change::Modified,
        };
        files.push(FileChange {
            old: if change == Change::Added {
                None
            } else {
                part.old.path()
            },
            new: if change == Change::Deleted {
                None
            } else {
                part.new.path()
            },
            change,
            symlink: part.symlink,
            binary: part.binary,
            paths: part.paths,
        });
    }
}

fn without_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(Change, Vec<String>)> {
        let files = Patch::read(text.as_bytes()).files;
        let paths = |file: &FileChange| {
            file.paths()
                .map(|path| path.display().to_string())
                .collect()
        };
        files
            .iter()
            .map(|file| (file.change, paths(file)))
            .collect()
    }

    fn one(change: Change, paths: &[&str]) -> Vec<(Change, Vec<String>)> {
        vec![(
            change,
            paths.iter().map(|path| (*path).to_owned()).collect(),
        )]
    }

    #[test]
    fn git_and_plain_headers() {
        let hunk = "@@ -1 +1 @@\n-a\n+b\n";
        assert_eq!(
            read(&format!(
                "diff --git a/x.py b/x.py\nindex 1..2 100644\n--- a/x.py\n+++ b/x.py\n{hunk}"
            )),
            one(Change::Modified, &["x.py"])
        );
        assert_eq!(
            read(&format!(
                "--- a/x.py\t2020-01-01\n+++ b/x.py\t2020-01-01\n{hunk}"
            )),
            one(Change::Modified, &["x.py"])
        );
        assert_eq!(
            read(&format!("--- conftest.py\n+++ conftest.py\n{hunk}")),
            one(Change::Modified, &["conftest.py"])
        );
        assert_eq!(
            read(
                "diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+b\n"
            ),
            one(Change::Added, &["x"])
        );
        assert_eq!(
            read("--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-b"),
            one(Change::Deleted, &["x"])
        );
    }

    #[test]
    fn moves_modes_and_binaries_have_no_hunks() {
        assert_eq!(
            read(
                "diff --git a/p q.py b/conftest.py\nsimilarity index 100%\nrename from p q.py\nrename to conftest.py\n"
            ),
            one(Change::Renamed, &["conftest.py", "p q.py"])
        );
        assert_eq!(
            read("diff --git a/run me b/run me\nold mode 100644\nnew mode 100755\n"),
            one(Change::Modified, &["run me"])
        );
        let binary = Patch::read(b"diff --git a/l b/l\nnew file mode 120000\nindex 0..1\nGIT binary patch\nliteral 1\nIcmZ\n");
        assert!(binary.files[0].binary && binary.files[0].symlink);
    }

    #[test]
    fn quoted_names_are_bytes() {
        let patch = Patch::read(b"diff --git \"a/\\303\\244 \\\"q\\\".py\" \"b/\\303\\244 \\\"q\\\".py\"\nnew file mode 100644\n");
        assert_eq!(patch.files[0].new.as_deref(), Some("ä \"q\".py".as_ref()));
    }

    #[test]
    fn hunks_hide_what_looks_like_headers() {
        let text = "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n--- a/conftest.py\n+++ b/conftest.py\n c\n\n@@ -9 +9 @@\n-x\n+y\n\\ No newline at end of file\n--- a/z\n+++ b/z\n@@ -1 +1 @@\n-x\n+y";
        let files: Vec<_> = read(text)
            .into_iter()
            .flat_map(|(_, paths)| paths)
            .collect();
        assert_eq!(files, ["x", "z"]);
    }

    #[test]
    fn a_hunk_that_is_too_short_hides_nothing() {
        let text = "--- a/x\n+++ b/x\n@@ -1,90 +1,90 @@\n c\ndiff --git a/conftest.py b/conftest.py\nnew file mode 100644\n";
        let files: Vec<_> = read(text)
            .into_iter()
            .flat_map(|(_, paths)| paths)
            .collect();
        assert_eq!(files, ["x", "conftest.py"]);
        let text = "--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n c\n--- a/conftest.py\n+++ b/conftest.py\n@@ -1 +1 @@\n-x\n+y\n";
        let files: Vec<_> = read(text)
            .into_iter()
            .flat_map(|(_, paths)| paths)
            .collect();
        assert_eq!(files, ["x", "conftest.py"]);
    }

    #[test]
    fn odd_forms_that_patch_takes() {
        assert_eq!(
            read("  --- a/x\r\n  +++ b/x\r\n  @@ -1 +1 @@\r\n  -a\r\n  +b\r\n"),
            one(Change::Modified, &["x"])
        );
        assert_eq!(
            read("*** a/x\n--- b/x\n***************\n*** 1 ****\n--- 1 ----\n! b\n"),
            one(Change::Modified, &["x"])
        );
        assert_eq!(
            read("Index: d/conftest.py\n1c1\n< a\n---\n> b\n"),
            one(Change::Modified, &["conftest.py"])
        );
        assert_eq!(
            read("--- a/./d/../conftest.py\n+++ b//conftest.py\n"),
            one(Change::Modified, &["conftest.py"])
        );
        assert_eq!(
            read("--- a/conftest.py old\n+++ b/conftest.py new\n"),
            one(
                Change::Modified,
                &["conftest.py", "conftest.py new", "conftest.py old"]
            )
        );
    }
}
