//! Names in the headers of a patch, with one leading component removed (`-p1`).

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// One side of a file header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Named {
    /// Not given.
    #[default]
    Unknown,
    /// `/dev/null`: there is no file on this side.
    Nothing,
    /// A path.
    Path(PathBuf),
}

impl Named {
    pub(super) fn path(self) -> Option<PathBuf> {
        match self {
            Self::Path(path) => Some(path),
            Self::Unknown | Self::Nothing => None,
        }
    }
}

/// The name that follows `--- ` or `+++ `; a tab begins the time stamp.
pub(super) fn from_header(raw: &[u8]) -> Named {
    let (name, _) = unquote(raw).unwrap_or_else(|| (before(raw, b'\t').to_vec(), &[]));
    if name.trim_ascii_end() == b"/dev/null" {
        return Named::Nothing;
    }
    stripped(&name).map_or(Named::Unknown, Named::Path)
}

/// Every path that a tool may read there. `patch` ends an unquoted name at a blank unless a
/// tab comes later, and takes the name's first component off only if there is one.
pub(super) fn all_readings(raw: &[u8]) -> Vec<PathBuf> {
    let readings = match unquote(raw) {
        Some((name, _)) => vec![name],
        None => vec![
            before(raw, b'\t').to_vec(),
            before(before(raw, b'\t'), b' ').to_vec(),
        ],
    };
    let real = readings
        .iter()
        .filter(|name| name.trim_ascii_end() != b"/dev/null");
    real.filter_map(|name| stripped(name)).collect()
}

/// Both names of a `diff --git` line. Without quotes the line is ambiguous for names with
/// blanks; git then takes the split that makes both names equal.
pub(super) fn from_git_line(raw: &[u8]) -> (Option<PathBuf>, Option<PathBuf>) {
    if let Some((old, rest)) = unquote(raw) {
        let rest = rest.trim_ascii_start();
        let new = unquote(rest).map_or_else(|| rest.to_vec(), |(new, _)| new);
        return (stripped(&old), stripped(&new));
    }
    let blanks = || {
        raw.iter()
            .enumerate()
            .filter(|(_, byte)| **byte == b' ')
            .map(|(at, _)| at)
    };
    // Only the second name is quoted.
    if let Some((at, new)) = blanks().find_map(|at| Some((at, unquote(&raw[at + 1..])?.0))) {
        return (stripped(&raw[..at]), stripped(&new));
    }
    let halves = |at: usize| (stripped(&raw[..at]), stripped(&raw[at + 1..]));
    // An even split is the only one that can give equal names with equally long prefixes, but
    // prefixes may differ, so all are tried.
    let equal = blanks()
        .map(halves)
        .find(|(old, new)| old.is_some() && old == new);
    let prefixed = || {
        blanks()
            .find(|at| raw[at + 1..].starts_with(b"b/"))
            .map(halves)
    };
    equal
        .or_else(prefixed)
        .or_else(|| blanks().next().map(halves))
        .unwrap_or_default()
}

/// A name that is given without a prefix, as after `rename from `.
pub(super) fn whole_path(raw: &[u8]) -> Option<PathBuf> {
    let name = unquote(raw).map_or_else(|| raw.to_vec(), |(name, _)| name);
    normal(&name)
}

fn before(raw: &[u8], end: u8) -> &[u8] {
    raw.split(|byte| *byte == end).next().unwrap_or(raw)
}

/// Takes off the first component; a name of a single one stays, as `git apply` has it.
fn stripped(name: &[u8]) -> Option<PathBuf> {
    match name.iter().position(|byte| *byte == b'/') {
        Some(slash) => normal(&name[slash + 1..]),
        None => normal(name),
    }
}

/// The path without empty, `.` and `..` components; `None` when nothing is left.
fn normal(name: &[u8]) -> Option<PathBuf> {
    let mut components: Vec<&[u8]> = Vec::new();
    for component in name.split(|byte| *byte == b'/') {
        match component {
            b"" | b"." => {}
            b".." => {
                components.pop();
            }
            component => components.push(component),
        }
    }
    (!components.is_empty()).then(|| PathBuf::from(OsString::from_vec(components.join(&b'/'))))
}

/// A name in C quotes with what follows it, or `None` where there is no complete one.
fn unquote(raw: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut rest = raw.strip_prefix(b"\"")?;
    let mut name = Vec::new();
    loop {
        let (&byte, after) = rest.split_first()?;
        rest = after;
        match byte {
            b'"' => return Some((name, rest)),
            b'\\' => {
                let (&escape, after) = rest.split_first()?;
                rest = after;
                name.push(match escape {
                    b'a' => 7,
                    b'b' => 8,
                    b't' => b'\t',
                    b'n' => b'\n',
                    b'v' => 11,
                    b'f' => 12,
                    b'r' => b'\r',
                    b'0'..=b'3' => {
                        let digits = rest
                            .get(..2)
                            .filter(|digits| digits.iter().all(|d| (b'0'..=b'7').contains(d)))?;
                        rest = &rest[2..];
                        (escape - b'0') << 6 | (digits[0] - b'0') << 3 | (digits[1] - b'0')
                    }
                    other => other,
                });
            }
            plain => name.push(plain),
        }
    }
}
