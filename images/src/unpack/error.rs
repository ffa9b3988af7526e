//! Why a layer cannot be unpacked.

use crate::attributes;
use crate::paths::BadPath;
use crate::tarstream;

/// Why a layer cannot be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The stream is no tar or ends early.
    #[error(transparent)]
    Tar(#[from] tarstream::Error),
    /// A name that is refused.
    #[error("entry `{entry}` has {source}")]
    Name {
        /// The entry.
        entry: String,
        /// What is wrong with it.
        #[source]
        source: BadPath,
    },
    /// More entries than [`MAX_ENTRIES`](crate::limits::MAX_ENTRIES).
    #[error("it has more than {0} entries")]
    Entries(u64),
    /// A hard link to nothing.
    #[error(
        "entry `{entry}` is a hard link to `{target}`, which is no file of this layer or of one beneath it"
    )]
    HardLink {
        /// The entry.
        entry: String,
        /// What it names.
        target: String,
    },
    /// A type flag that has no meaning in a layer.
    #[error("entry `{entry}` has the unknown type `{}`", char::from(*.flag).escape_default())]
    Type {
        /// The entry.
        entry: String,
        /// Its type flag.
        flag: u8,
    },
    /// More than 40 symbolic links on the way to an entry.
    #[error("entry `{entry}` lies behind a loop of symbolic links")]
    Loop {
        /// The entry.
        entry: String,
    },
    /// An attribute that cannot be set.
    #[error("entry `{entry}`: {source}")]
    Attributes {
        /// The entry.
        entry: String,
        /// Which and why.
        #[source]
        source: attributes::Error,
    },
    /// The kernel refused something else.
    #[error("entry `{entry}` cannot be {action}: {source}")]
    Write {
        /// The entry.
        entry: String,
        /// What was tried.
        action: &'static str,
        /// What the kernel said.
        #[source]
        source: std::io::Error,
    },
}

impl Error {
    /// The system error behind it, if that is what it is.
    pub(crate) fn io(&self) -> Option<&std::io::Error> {
        match self {
            Error::Write { source, .. } | Error::Tar(tarstream::Error::Read(source)) => {
                Some(source)
            }
            Error::Attributes { source, .. } => match source {
                attributes::Error::Basic { source, .. }
                | attributes::Error::Extended { source, .. } => Some(source),
            },
            Error::Tar(_)
            | Error::Name { .. }
            | Error::Entries(_)
            | Error::HardLink { .. }
            | Error::Type { .. }
            | Error::Loop { .. } => None,
        }
    }
}
