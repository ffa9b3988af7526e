//! Errors of calls as clients branch on them: four kinds, carried beside the gRPC code.

use tonic::{Code, Status};

/// The metadata key under which a reply's status carries its [`Kind`].
pub const KIND_METADATA: &str = "innkeeper-kind";

/// What a caller can do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The same call may work later.
    Transient,
    /// The same call will not work.
    Permanent,
    /// A sandbox could not be shown to be as it should.
    Tainted,
    /// The call itself was wrong.
    Usage,
}

impl Kind {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Permanent => "permanent",
            Self::Tainted => "tainted",
            Self::Usage => "usage",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [Self::Transient, Self::Permanent, Self::Tainted, Self::Usage]
            .into_iter()
            .find(|kind| kind.as_str() == word)
    }

    /// The kind of a status that does not say it: one that a library made underway.
    fn of_code(code: Code) -> Self {
        match code {
            Code::Unavailable
            | Code::ResourceExhausted
            | Code::Aborted
            | Code::DeadlineExceeded
            | Code::Cancelled => Self::Transient,
            Code::DataLoss => Self::Tainted,
            Code::InvalidArgument | Code::OutOfRange | Code::Unimplemented => Self::Usage,
            Code::Ok
            | Code::Unknown
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::FailedPrecondition
            | Code::Internal
            | Code::Unauthenticated => Self::Permanent,
        }
    }
}

/// A call that the manager refused or that did not reach it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct CallError {
    /// What a caller can do about it.
    pub kind: Kind,
    /// The gRPC code.
    pub code: Code,
    /// One sentence for people.
    pub message: String,
}

impl From<Status> for CallError {
    fn from(status: Status) -> Self {
        let said = status
            .metadata()
            .get(KIND_METADATA)
            .and_then(|word| word.to_str().ok());
        let kind = said
            .and_then(Kind::parse)
            .unwrap_or_else(|| Kind::of_code(status.code()));
        // A broken connection has no words of its own worth reading.
        let message = match std::error::Error::source(&status) {
            Some(source) if said.is_none() => {
                format!(
                    "the connection to the manager broke: {}",
                    super::innermost(source)
                )
            }
            Some(_) | None => status.message().to_owned(),
        };
        Self {
            kind,
            code: status.code(),
            message,
        }
    }
}

/// A status that carries its kind.
pub(crate) fn status(kind: Kind, code: Code, message: impl Into<String>) -> Status {
    let mut status = Status::new(code, message);
    let word = tonic::metadata::MetadataValue::from_static(kind.as_str());
    status.metadata_mut().insert(KIND_METADATA, word);
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_survives_the_wire_form() {
        for kind in [Kind::Transient, Kind::Permanent, Kind::Tainted, Kind::Usage] {
            let error = CallError::from(status(kind, Code::Internal, "words"));
            assert_eq!((error.kind, error.message.as_str()), (kind, "words"));
        }
        assert_eq!(
            CallError::from(Status::unavailable("x")).kind,
            Kind::Transient
        );
    }
}
