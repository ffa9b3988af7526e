//! Removing a path, or a whole tree.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, OFlags};
use rustix::io::Errno;

use super::descent::Descent;
use super::resolve::{self, Way};
use super::{FileAnswer, FileError};

/// How often a directory that does not get empty is listed anew.
const ROUNDS: usize = 16;

/// Removes what `path` names. Something that is gone already inside a tree is no error;
/// `path` itself must exist.
pub(super) fn run(path: &[u8], recursive: bool) -> Result<FileAnswer, FileError> {
    let way = Way {
        follow_last: false,
        make_parents: false,
    };
    let (dir, name) = resolve::settled(path, way)?;
    match rustix::fs::unlinkat(&dir, &name, AtFlags::empty()) {
        Ok(()) => return Ok(FileAnswer::Removed),
        Err(Errno::ISDIR) => {}
        Err(errno) => return Err(FileError::io("remove", path)(errno)),
    }
    if recursive {
        empty(&dir, &name, path)?;
    }
    rustix::fs::unlinkat(&dir, &name, AtFlags::REMOVEDIR).map_err(|errno| match errno {
        Errno::NOTEMPTY if !recursive => FileError::refused(
            path,
            libc::ENOTEMPTY,
            "is a directory that is not empty; ask for it to be removed with all in it",
        ),
        errno => FileError::io("remove", path)(errno),
    })?;
    Ok(FileAnswer::Removed)
}

/// Removes all that is in the directory `name` of `dir`, depth first.
fn empty(dir: &OwnedFd, name: &[u8], path: &[u8]) -> Result<(), FileError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let top = resolve::open_at(dir.as_fd(), name, flags).map_err(FileError::io("open", path))?;
    let mut place = Descent::at(top);
    // One level of the way down to where we are.
    let mut levels = vec![Level {
        todo: place.names()?,
        name: Vec::new(),
        rounds: 0,
    }];
    while let Some(level) = levels.last_mut() {
        if let Some(name) = level.todo.pop() {
            match rustix::fs::unlinkat(place.here(), &name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::ISDIR) => {
                    place.enter(&name)?;
                    levels.push(Level {
                        todo: place.names()?,
                        name,
                        rounds: 0,
                    });
                }
                Err(errno) => return Err(FileError::io("remove", &name)(errno)),
            }
            continue;
        }
        if place.depth() == 0 {
            return Ok(());
        }
        let Some(done) = levels.pop() else {
            return Ok(());
        };
        place.leave()?;
        match rustix::fs::unlinkat(place.here(), &done.name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => {}
            // Somebody is adding to it.
            Err(Errno::NOTEMPTY) if done.rounds < ROUNDS => {
                place.enter(&done.name)?;
                levels.push(Level {
                    todo: place.names()?,
                    rounds: done.rounds + 1,
                    ..done
                });
            }
            Err(errno) => return Err(FileError::io("remove", &done.name)(errno)),
        }
    }
    Ok(())
}

#[derive(Debug)]
struct Level {
    /// Names not looked at yet.
    todo: Vec<Vec<u8>>,
    /// Its own name in the level above.
    name: Vec<u8>,
    rounds: usize,
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use rustix::fs::{CWD, Mode};

    use super::*;

    #[test]
    fn a_tree_deeper_than_a_path_can_say_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let top = [dir.path().as_os_str().as_bytes(), b"/top"].concat();
        std::fs::create_dir(dir.path().join("top")).unwrap();
        let mut here =
            rustix::fs::openat(CWD, top.as_slice(), OFlags::DIRECTORY, Mode::empty()).unwrap();
        let name = [b'd'; 100];
        let mut whole = top.clone();
        for _ in 0..3000 {
            rustix::fs::mkdirat(&here, name.as_slice(), Mode::from_raw_mode(0o755)).unwrap();
            here = rustix::fs::openat(&here, name.as_slice(), OFlags::DIRECTORY, Mode::empty())
                .unwrap();
            whole.push(b'/');
            whole.extend_from_slice(&name);
        }
        // Looking at its end works as well.
        let found = resolve::open(&whole, OFlags::PATH).unwrap();
        assert_eq!(
            rustix::fs::fstat(&found).unwrap().st_ino,
            rustix::fs::fstat(&here).unwrap().st_ino
        );
        assert!(run(&top, false).unwrap_err().is(Errno::NOTEMPTY));
        run(&top, true).unwrap();
        assert!(!dir.path().join("top").exists());
        assert!(run(&top, true).unwrap_err().is(Errno::NOENT));
    }

    #[test]
    fn a_link_is_removed_and_not_what_it_leads_to() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("kept")).unwrap();
        std::fs::write(dir.path().join("kept/file"), "x").unwrap();
        std::os::unix::fs::symlink("kept", dir.path().join("link")).unwrap();
        run(
            &[dir.path().as_os_str().as_bytes(), b"/link"].concat(),
            true,
        )
        .unwrap();
        assert!(dir.path().join("kept/file").exists());
        assert!(!dir.path().join("link").exists());
    }
}
