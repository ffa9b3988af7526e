//! Why a file call failed.

use std::io;

use thiserror::Error;

/// Why a file call failed.
#[derive(Debug, Error)]
pub(in crate::inside) enum FileError {
    /// The kernel refused a step.
    #[error("cannot {what} {path:?}: {source}")]
    Io {
        what: &'static str,
        path: String,
        source: io::Error,
    },
    /// We refuse, with the errno that says it best.
    #[error("{path:?} {why}")]
    Refused {
        path: String,
        why: String,
        errno: i32,
    },
    /// The data stopped before its end was said.
    #[error("the sender went away before the end of the data; nothing more was changed")]
    Cut,
    /// The daemon sent no pipe.
    #[error("the call came without its pipe")]
    NoPipe,
    /// The other end no longer takes the data.
    #[error("the receiver went away: {0}")]
    Receiver(#[source] io::Error),
    /// What came in is not a tar archive.
    #[error("the tar stream cannot be read: {0}")]
    Archive(#[source] io::Error),
}

impl FileError {
    /// For `map_err`: a step on a path that the kernel refused.
    pub(in crate::inside) fn io<E: Into<io::Error>>(
        what: &'static str,
        path: &[u8],
    ) -> impl FnOnce(E) -> Self {
        let path = String::from_utf8_lossy(path).into_owned();
        move |source| Self::Io {
            what,
            path,
            source: source.into(),
        }
    }

    /// Something that is not done, whatever the kernel would say.
    pub(in crate::inside) fn refused(path: &[u8], errno: i32, why: impl Into<String>) -> Self {
        Self::Refused {
            path: String::from_utf8_lossy(path).into_owned(),
            why: why.into(),
            errno,
        }
    }

    /// errno, or 0 where there is none.
    pub(in crate::inside) fn errno(&self) -> i32 {
        match self {
            Self::Io { source, .. } => source.raw_os_error().unwrap_or(0),
            Self::Refused { errno, .. } => *errno,
            Self::Archive(_) => libc::EBADMSG,
            Self::Receiver(_) | Self::Cut => libc::EPIPE,
            Self::NoPipe => libc::EBADF,
        }
    }

    /// Whether this is the kernel's answer `errno`.
    pub(in crate::inside) fn is(&self, errno: rustix::io::Errno) -> bool {
        self.errno() == errno.raw_os_error()
    }
}
