//! Our own reader of git's files on disk, for as much as a scan needs: which objects there are,
//! what they reach, and which names lead to them.

pub(crate) mod index;
pub(crate) mod loose;
pub(crate) mod objects;
pub(crate) mod oid;
pub(crate) mod pack;
pub(crate) mod parse;
pub(crate) mod place;
pub(crate) mod reach;
pub(crate) mod refs;
pub(crate) mod zlib;

use crate::ground;

/// Why a repository, or a part of it, could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A file.
    #[error(transparent)]
    Ground(#[from] ground::Error),
    /// A file is not of its format.
    #[error("{file} is damaged: {what}")]
    Damaged {
        /// The file.
        file: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A format that this reader does not know.
    #[error("{0} is not known to this reader")]
    Unknown(String),
    /// An object that something names is not there.
    #[error("object {0} is missing")]
    Missing(oid::Oid),
    /// More than any repository of a task has.
    #[error("there are more {0} than are looked at")]
    Many(&'static str),
    /// The time is over.
    #[error("the search took too long")]
    Late,
}

pub(crate) fn damaged(file: &str, what: &'static str) -> Error {
    Error::Damaged {
        file: file.to_owned(),
        what,
    }
}
