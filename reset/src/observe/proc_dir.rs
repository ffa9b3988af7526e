//! A mounted /proc, by descriptor.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Dir, Mode, OFlags, openat, readlinkat};
use rustix::io::Errno;

/// Larger texts are refused: none that is read here comes near.
const TEXT_MAX: usize = 16 << 20;

/// A descriptor of a procfs mount, or of one process's directory in it.
#[derive(Debug)]
pub struct ProcDir(OwnedFd);

/// Why something could not be observed. Every one of these means that it is unknown.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// A system call failed.
    #[error("cannot {operation} /proc/{path}")]
    Call {
        /// What was tried.
        operation: &'static str,
        /// Path below /proc.
        path: String,
        /// The kernel's answer.
        #[source]
        source: Errno,
    },
    /// Larger than anything the kernel should give.
    #[error("/proc/{path} is larger than {TEXT_MAX} bytes")]
    TooLarge {
        /// Path below /proc.
        path: String,
    },
    /// A text of another form than this program knows.
    #[error("/proc/{path} has a form that is not known")]
    Form {
        /// Path below /proc.
        path: String,
    },
    /// The descriptor is no procfs.
    #[error("the descriptor given is no mount of procfs")]
    NoProc,
}

impl ProcDir {
    /// Wraps a descriptor of a procfs mount.
    ///
    /// # Errors
    /// When it is of another file system: a guest could have written that one.
    pub fn new(fd: OwnedFd) -> Result<Self, ObserveError> {
        let stat = rustix::fs::fstatfs(&fd).map_err(|_| ObserveError::NoProc)?;
        let is_proc = stat.f_type == rustix::fs::PROC_SUPER_MAGIC;
        if is_proc {
            Ok(ProcDir(fd))
        } else {
            Err(ObserveError::NoProc)
        }
    }

    /// The descriptor.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    fn open_file(&self, path: &str, how: OFlags) -> Result<OwnedFd, ObserveError> {
        openat(
            &self.0,
            path,
            how | OFlags::CLOEXEC | OFlags::NOCTTY,
            Mode::empty(),
        )
        .map_err(|source| call("open", path, source))
    }

    /// The directory of one process. It stays that process's: once it has ended, reading fails, even
    /// when the number is given to another.
    pub(super) fn process(&self, pid: u32) -> Result<ProcDir, ObserveError> {
        let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        Ok(ProcDir(self.open_file(&pid.to_string(), how)?))
    }

    /// A whole text file as bytes.
    pub(super) fn bytes(&self, path: &str) -> Result<Vec<u8>, ObserveError> {
        let file = self.open_file(path, OFlags::RDONLY)?;
        read_all(file.as_fd(), path)
    }

    /// A whole text file. What is not UTF-8 is escaped.
    pub(super) fn text(&self, path: &str) -> Result<String, ObserveError> {
        let bytes = self.bytes(path)?;
        let escaped = |e: std::string::FromUtf8Error| {
            e.as_bytes()
                .split(|b| *b == b'\n')
                .map(|line| line.escape_ascii().to_string() + "\n")
                .collect()
        };
        Ok(String::from_utf8(bytes).unwrap_or_else(escaped))
    }

    /// A whole text file, none where there is no such file.
    pub(super) fn text_if_there(&self, path: &str) -> Result<Option<String>, ObserveError> {
        match self.text(path) {
            Ok(text) => Ok(Some(text)),
            Err(ObserveError::Call {
                operation: "open",
                source: Errno::NOENT,
                ..
            }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What a link of the kernel's own says.
    pub(super) fn link(&self, path: &str) -> Result<Vec<u8>, ObserveError> {
        let target =
            readlinkat(&self.0, path, Vec::new()).map_err(|e| call("read link", path, e))?;
        Ok(target.into_bytes())
    }

    /// Opens what a link of the kernel's own stands for.
    pub(super) fn follow(&self, path: &str) -> Result<OwnedFd, ObserveError> {
        self.open_file(path, OFlags::RDONLY | OFlags::NONBLOCK)
    }

    /// Names in a directory, without `.` and `..`.
    pub(super) fn names(&self, path: &str) -> Result<Vec<String>, ObserveError> {
        let fd = self.open_file(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        names_in(fd.as_fd(), path)
    }
}

pub(super) fn names_in(fd: BorrowedFd<'_>, path: &str) -> Result<Vec<String>, ObserveError> {
    let dir = Dir::read_from(fd).map_err(|e| call("list", path, e))?;
    let mut names = Vec::new();
    for entry in dir {
        let entry = entry.map_err(|e| call("list", path, e))?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            names.push(name.to_bytes().escape_ascii().to_string());
        }
    }
    Ok(names)
}

pub(super) fn read_all(file: BorrowedFd<'_>, path: &str) -> Result<Vec<u8>, ObserveError> {
    let mut bytes = Vec::with_capacity(4096);
    loop {
        if bytes.len() > TEXT_MAX {
            return Err(ObserveError::TooLarge {
                path: path.to_owned(),
            });
        }
        bytes.reserve(4096);
        match rustix::io::read(file, rustix::buffer::spare_capacity(&mut bytes)) {
            Ok(0) => return Ok(bytes),
            Ok(_) | Err(Errno::INTR) => {}
            Err(source) => return Err(call("read", path, source)),
        }
    }
}

pub(super) fn call(operation: &'static str, path: &str, source: Errno) -> ObserveError {
    ObserveError::Call {
        operation,
        path: path.to_owned(),
        source,
    }
}

/// All process ids that a procfs mount shows.
///
/// # Errors
/// When it cannot be listed.
pub fn pids(proc: &ProcDir) -> Result<Vec<u32>, ObserveError> {
    let mut pids: Vec<u32> = proc
        .names(".")?
        .iter()
        .filter_map(|name| name.parse().ok())
        .collect();
    pids.sort_unstable();
    Ok(pids)
}

/// When a process was started, in ticks since boot: field 22 of `proc_pid_stat(5)`. With it a number is
/// one process for ever.
///
/// # Errors
/// When the process has ended, or its line has another form.
pub fn start_time(proc: &ProcDir, pid: u32) -> Result<u64, ObserveError> {
    let path = format!("{pid}/stat");
    let text = proc.text(&path)?;
    // The name may hold blanks and brackets; the fields after its last bracket count from 3.
    let rest = text.rsplit_once(')').map(|(_, rest)| rest);
    let field = rest.and_then(|rest| rest.split_whitespace().nth(22 - 3));
    field
        .and_then(|field| field.parse().ok())
        .ok_or(ObserveError::Form { path })
}
