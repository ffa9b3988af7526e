//! The crate's error: one sentence for people, one kind for callers.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::id::{Digest, LayerId};
use crate::unpack;

/// Why an operation on the store failed. Its text is one sentence and complete: it names the
/// thing, the reason and what to do, causes included, so there is no need to print the sources.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No image of this name.
    #[error(
        "there is no image `{0}` in the store; `innkeeper image ls` shows those that are, `innkeeper image import` brings others"
    )]
    NoImage(String),
    /// A digest that begins several.
    #[error("`{given}` fits several images ({}); give more digits", .fits.join(", "))]
    Ambiguous {
        /// What was asked for.
        given: String,
        /// Digests that begin so.
        fits: Vec<String>,
    },
    /// A name that no image can have.
    #[error("`{name}` cannot be the name of an image: {why}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A source that is not there.
    #[error(
        "`{0}` is neither a file or folder here nor a registry reference (which has its registry's name in front, as in registry.example/name:tag); check the spelling"
    )]
    NoSource(String),
    /// A source that is not there, of a stated type.
    #[error("{path} does not exist; check the path")]
    NoPath {
        /// The path.
        path: PathBuf,
    },
    /// A file that is no image.
    #[error(
        "{path} is not an image: {why}; give a root file system folder, an OCI layout, or an archive made by `docker save` or `skopeo copy`"
    )]
    NotAnImage {
        /// The file.
        path: PathBuf,
        /// What is missing.
        why: String,
    },
    /// A source with several images.
    #[error("{source_name} holds {} images; pick one by adding `:` and its name: {}", .choices.len(), .choices.join(", "))]
    PickOne {
        /// The source.
        source_name: String,
        /// Names to choose from.
        choices: Vec<String>,
    },
    /// A name that a source does not have.
    #[error("{source_name} has no image `{wanted}`; it has: {}", if .choices.is_empty() { "none with a name".to_owned() } else { .choices.join(", ") })]
    NotInSource {
        /// The source.
        source_name: String,
        /// What was asked for.
        wanted: String,
        /// What there is.
        choices: Vec<String>,
    },
    /// No manifest for this machine.
    #[error("{source_name} has no image for {wanted}, only for {}; import one that was built for this machine", .choices.join(", "))]
    Platform {
        /// The source.
        source_name: String,
        /// This machine's platform.
        wanted: String,
        /// What there is.
        choices: Vec<String>,
    },
    /// A blob that is missing, damaged or not what its digest says.
    #[error("{source_name} is damaged: {what}; fetch or build it again")]
    Damaged {
        /// The source.
        source_name: String,
        /// What is wrong.
        what: String,
    },
    /// Content that is not what its digest says.
    #[error(
        "{what} is not what it should be: its digest is {found}, expected {expected}; fetch or build it again"
    )]
    WrongDigest {
        /// A layer, config or manifest.
        what: String,
        /// As the image states it.
        expected: Digest,
        /// As it is.
        found: Digest,
    },
    /// A layer that cannot be unpacked.
    #[error("{what} cannot be unpacked: {source}; fetch or build it again")]
    Unpack {
        /// Which layer.
        what: String,
        /// Why.
        #[source]
        source: unpack::Error,
    },
    /// A source or feature that is not supported.
    #[error("{0}")]
    Unsupported(String),
    /// The disk of the store is full.
    #[error(
        "no space is left on the disk of {store} while {what} was unpacked; free some (`innkeeper image rm` removes images) and import again"
    )]
    NoSpace {
        /// Folder of the store.
        store: PathBuf,
        /// What was written.
        what: String,
    },
    /// Rights are missing.
    #[error(
        "{path} cannot be {action}: {source}; images are kept with their owners, which takes root"
    )]
    Denied {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The system refused something else.
    #[error("{path} cannot be {action}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// A layer that an image lists is not in the store.
    #[error("layer {0} is not complete in the store; import the image again")]
    NoLayer(LayerId),
    /// A record of the store that cannot be read.
    #[error(
        "{path} is not a record of this version ({why}); remove the file and import the image again"
    )]
    Record {
        /// The record.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A registry did not give what was asked for.
    #[error("{reference} cannot be pulled: {why}")]
    Registry {
        /// The reference.
        reference: String,
        /// Why, and what to do.
        why: String,
        /// For callers.
        kind: ErrorKind,
    },
}

/// What a caller can do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// What was asked for does not exist.
    NotFound,
    /// The request fits no one thing, or is not well formed.
    Usage,
    /// The source is damaged or hostile; a repeat gives the same.
    BadInput,
    /// The source is fine but not for this program or machine.
    Unsupported,
    /// The disk is full.
    NoSpace,
    /// Rights or credentials are missing.
    Denied,
    /// A repeat may succeed: network or an overloaded registry.
    Transient,
    /// Anything else of the system.
    System,
}

impl Error {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::NoImage(_) | Error::NoSource(_) | Error::NoPath { .. } | Error::NoLayer(_) => {
                ErrorKind::NotFound
            }
            Error::NotInSource { .. } => ErrorKind::NotFound,
            Error::Ambiguous { .. } | Error::Name { .. } | Error::PickOne { .. } => {
                ErrorKind::Usage
            }
            Error::NotAnImage { .. } | Error::Damaged { .. } | Error::WrongDigest { .. } => {
                ErrorKind::BadInput
            }
            Error::Unpack { .. } => ErrorKind::BadInput,
            Error::Unsupported(_) | Error::Platform { .. } => ErrorKind::Unsupported,
            Error::NoSpace { .. } => ErrorKind::NoSpace,
            Error::Denied { .. } => ErrorKind::Denied,
            Error::Io { .. } | Error::Record { .. } => ErrorKind::System,
            Error::Registry { kind, .. } => *kind,
        }
    }

    /// An error of the system while something was done to a file.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |source| match Errno::from_io_error(&source) {
            Some(Errno::NOSPC | Errno::DQUOT) => Error::NoSpace {
                store: path,
                what: "it".to_owned(),
            },
            Some(Errno::PERM | Errno::ACCESS) => Error::Denied {
                path,
                action,
                source,
            },
            _ => Error::Io {
                path,
                action,
                source,
            },
        }
    }

    /// As [`Error::io`], for the calls that return a bare number.
    pub(crate) fn errno(action: &'static str, path: &Path) -> impl FnOnce(Errno) -> Error {
        let make = Error::io(action, path);
        move |errno| make(errno.into())
    }

    /// An error while a layer was unpacked into `store`.
    pub(crate) fn unpack(what: &str, store: &Path, source: unpack::Error) -> Error {
        let (what, store) = (what.to_owned(), store.to_owned());
        match source.io().and_then(Errno::from_io_error) {
            Some(Errno::NOSPC | Errno::DQUOT) => Error::NoSpace { store, what },
            Some(Errno::PERM) => Error::Denied {
                path: store,
                action: "filled",
                source: io::Error::other(source.to_string()),
            },
            _ => Error::Unpack { what, source },
        }
    }
}
