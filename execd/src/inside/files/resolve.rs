//! From a path to a descriptor.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::FileError;
use super::entry::Kind;

/// The kernel takes paths below 4,096 bytes; longer ones are walked in pieces of this many.
const PIECE: usize = 4000;

/// Links followed in one path, as in the kernel.
const LINKS: usize = 40;

/// Opens a path for reading or looking, following links but the kernel's magic ones.
/// `O_CLOEXEC`, `O_NONBLOCK` and `O_NOCTTY` are added.
pub(in crate::inside) fn open(path: &[u8], flags: OFlags) -> Result<OwnedFd, FileError> {
    // openat2 refuses other flags beside O_PATH.
    let quiet = if flags.contains(OFlags::PATH) {
        OFlags::empty()
    } else {
        OFlags::NONBLOCK | OFlags::NOCTTY
    };
    open_long(CWD, path, flags | quiet, ResolveFlags::empty()).map_err(FileError::io("open", path))
}

/// As `open_in`, for a path of any length. Longer ones are walked in pieces, so that a rule
/// about the starting directory holds for each piece on its own, which is stricter.
pub(in crate::inside) fn open_long(
    start: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    rules: ResolveFlags,
) -> rustix::io::Result<OwnedFd> {
    let mut here: Option<OwnedFd> = None;
    let mut rest = path;
    while rest.len() >= PIECE {
        let cut = rest[..PIECE]
            .iter()
            .rposition(|byte| *byte == b'/')
            .filter(|cut| *cut > 0);
        let cut = cut.ok_or(Errno::NAMETOOLONG)?;
        let from = here.as_ref().map_or(start, AsFd::as_fd);
        here = Some(open_in(
            from,
            &rest[..cut],
            OFlags::PATH | OFlags::DIRECTORY,
            rules,
        )?);
        let slashes = rest[cut..].iter().take_while(|byte| **byte == b'/').count();
        rest = &rest[cut + slashes..];
    }
    let last = if rest.is_empty() {
        b".".as_slice()
    } else {
        rest
    };
    open_in(here.as_ref().map_or(start, AsFd::as_fd), last, flags, rules)
}

/// openat2 that never follows a magic link, `O_CLOEXEC` added.
pub(in crate::inside) fn open_at(
    dir: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
) -> rustix::io::Result<OwnedFd> {
    open_in(dir, path, flags, ResolveFlags::empty())
}

/// As `open_at`, with more rules. EAGAIN, which the kernel answers when a rename races with
/// a rule about `..`, is tried again a few times.
pub(in crate::inside) fn open_in(
    dir: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    rules: ResolveFlags,
) -> rustix::io::Result<OwnedFd> {
    let rules = rules | ResolveFlags::NO_MAGICLINKS;
    let mut tries = 0;
    loop {
        match rustix::fs::openat2(dir, path, flags | OFlags::CLOEXEC, Mode::empty(), rules) {
            Err(Errno::AGAIN) if tries < 32 => tries += 1,
            other => return other,
        }
    }
}

/// What to do on the way to the directory of a path that is to be changed.
#[derive(Debug, Clone, Copy)]
pub(in crate::inside) struct Way {
    /// Follow a link at the end too.
    pub follow_last: bool,
    /// Make directories that are missing.
    pub make_parents: bool,
}

/// The directory that holds what `path` names, and its name there. Links on the way are
/// followed only if they are older than the sandbox. The name need not exist.
pub(in crate::inside) fn settled(path: &[u8], way: Way) -> Result<(OwnedFd, Vec<u8>), FileError> {
    settled_since(path, way, sandbox_start()?)
}

/// As `settled`; links changed at `start` (nanoseconds since 1970) or after are refused.
pub(in crate::inside) fn settled_since(
    path: &[u8],
    way: Way,
    start: i64,
) -> Result<(OwnedFd, Vec<u8>), FileError> {
    let mut here = root()?;
    let mut todo: VecDeque<Vec<u8>> = names(path).collect();
    let mut links = 0;
    while let Some(name) = todo.pop_front() {
        let last = todo.is_empty();
        if last && name == b".." {
            break;
        }
        let found = match open_at(here.as_fd(), &name, OFlags::PATH | OFlags::NOFOLLOW) {
            Err(Errno::NOENT) if last => return Ok((here, name)),
            Err(Errno::NOENT) if way.make_parents => make_dir(here.as_fd(), &name, path)?,
            other => other.map_err(FileError::io("open", path))?,
        };
        let stat = rustix::fs::fstat(&found).map_err(FileError::io("examine", path))?;
        if Kind::of(&stat) == Kind::Symlink && (!last || way.follow_last) {
            links += 1;
            if links > LINKS {
                return Err(FileError::refused(
                    path,
                    libc::ELOOP,
                    "leads through too many links",
                ));
            }
            let target = rustix::fs::readlinkat(&found, "", Vec::new())
                .map_err(FileError::io("read a link of", path))?
                .into_bytes();
            if ctime_ns(&stat) >= start {
                let (name, target) = (name.escape_ascii(), target.escape_ascii());
                return Err(FileError::refused(
                    path,
                    libc::ELOOP,
                    format!(
                        "leads through the link {name} -> {target}, which was made in this sandbox; \
                     name the place it leads to instead"
                    ),
                ));
            }
            if target.first() == Some(&b'/') {
                here = root()?;
            }
            for name in names(&target).collect::<Vec<_>>().into_iter().rev() {
                todo.push_front(name);
            }
            continue;
        }
        if last {
            return Ok((here, name));
        }
        here = found;
    }
    Err(FileError::refused(
        path,
        libc::EISDIR,
        "names no entry of a directory",
    ))
}

/// The directory that `path` names, by the same rules.
pub(in crate::inside) fn settled_dir(path: &[u8]) -> Result<OwnedFd, FileError> {
    if names(path).next().is_none() {
        return root();
    }
    let (dir, name) = settled(
        path,
        Way {
            follow_last: true,
            make_parents: false,
        },
    )?;
    open_at(
        dir.as_fd(),
        &name,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW,
    )
    .map_err(FileError::io("open", path))
}

fn make_dir(dir: BorrowedFd<'_>, name: &[u8], path: &[u8]) -> Result<OwnedFd, FileError> {
    match rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(FileError::io("make a directory for", path)(errno)),
    }
    open_at(dir, name, OFlags::PATH | OFlags::NOFOLLOW).map_err(FileError::io("open", path))
}

fn root() -> Result<OwnedFd, FileError> {
    open_at(CWD, b"/", OFlags::PATH | OFlags::DIRECTORY).map_err(FileError::io("open", b"/"))
}

/// Components of a path without empty ones and dots.
pub(in crate::inside) fn names(path: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    path.split(|byte| *byte == b'/')
        .filter(|name| !name.is_empty() && *name != b".")
        .map(<[u8]>::to_vec)
}

#[allow(clippy::unnecessary_cast)]
fn ctime_ns(stat: &rustix::fs::Stat) -> i64 {
    (stat.st_ctime as i64)
        .saturating_mul(1_000_000_000)
        .saturating_add(stat.st_ctime_nsec as i64)
}

/// When this sandbox's first process started, in nanoseconds since 1970, rounded down to a
/// clock tick. From field 22 of /proc/1/stat (proc_pid_stat(5)), which no guest can change.
fn sandbox_start() -> Result<i64, FileError> {
    let stat = std::fs::read("/proc/1/stat").map_err(FileError::io("read", b"/proc/1/stat"))?;
    let since_boot = start_ticks(&stat).and_then(|ticks| ticks.checked_mul(10_000_000));
    let Some(since_boot) = since_boot else {
        return Err(FileError::refused(
            b"/proc/1/stat",
            libc::EIO,
            "cannot be understood",
        ));
    };
    let now = nanoseconds(rustix::time::ClockId::Realtime);
    Ok(now - (nanoseconds(rustix::time::ClockId::Boottime) - since_boot))
}

/// USER_HZ is 100 on every architecture that we build for.
fn start_ticks(stat: &[u8]) -> Option<i64> {
    // The name in parentheses may hold anything, so count from its end: state is field 3.
    let after = stat.iter().rposition(|byte| *byte == b')')?;
    let fields = std::str::from_utf8(&stat[after + 1..]).ok()?;
    fields.split_ascii_whitespace().nth(22 - 3)?.parse().ok()
}

#[allow(clippy::unnecessary_cast)]
fn nanoseconds(clock: rustix::time::ClockId) -> i64 {
    let time = rustix::time::clock_gettime(clock);
    (time.tv_sec as i64)
        .saturating_mul(1_000_000_000)
        .saturating_add(time.tv_nsec as i64)
}

/// Whether `name` exists in `dir`, and its state.
pub(in crate::inside) fn lookup(
    dir: BorrowedFd<'_>,
    name: &[u8],
) -> rustix::io::Result<Option<rustix::fs::Stat>> {
    match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    use super::*;

    const WAY: Way = Way {
        follow_last: true,
        make_parents: false,
    };

    #[test]
    fn only_links_older_than_the_start_are_followed() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("real")).unwrap();
        symlink("real", dir.path().join("link")).unwrap();
        let path = [dir.path().as_os_str().as_bytes(), b"/link/file"].concat();
        let (_, name) = settled_since(&path, WAY, i64::MAX).unwrap();
        assert_eq!(name, b"file");
        let error = settled_since(&path, WAY, 0).unwrap_err();
        assert!(error.is(Errno::LOOP), "{error}");
        assert!(error.to_string().contains("link -> real"), "{error}");
    }

    #[test]
    fn loops_and_directories_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        symlink("loop", dir.path().join("loop")).unwrap();
        let path = [dir.path().as_os_str().as_bytes(), b"/loop/x"].concat();
        assert!(
            settled_since(&path, WAY, i64::MAX)
                .unwrap_err()
                .is(Errno::LOOP)
        );
        for path in [b"/".as_slice(), b"/.", b"/..", b"/tmp/.."] {
            assert!(
                settled_since(path, WAY, i64::MAX)
                    .unwrap_err()
                    .is(Errno::ISDIR)
            );
        }
    }

    #[test]
    fn missing_parents_are_made_only_when_asked() {
        let dir = tempfile::tempdir().unwrap();
        let path = [dir.path().as_os_str().as_bytes(), b"/a/b/c"].concat();
        assert!(settled_since(&path, WAY, 0).unwrap_err().is(Errno::NOENT));
        let (_, name) = settled_since(
            &path,
            Way {
                make_parents: true,
                ..WAY
            },
            0,
        )
        .unwrap();
        assert_eq!(name, b"c");
        assert!(dir.path().join("a/b").is_dir());
    }

    #[test]
    fn magic_links_are_not_followed() {
        let error = open(b"/proc/self/fd/0", OFlags::RDONLY).unwrap_err();
        assert!(error.is(Errno::LOOP), "{error}");
    }

    #[test]
    fn the_start_of_the_first_process_is_found_behind_an_odd_name() {
        let stat = b"1 (a) b) S 0 1 1 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 777 9 9";
        assert_eq!(start_ticks(stat), Some(777));
    }
}
