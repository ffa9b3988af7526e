//! What a registry's failures mean, in a sentence and a kind.

use oci_client::errors::{DigestError, OciDistributionError, OciErrorCode};

use crate::error::{Error, ErrorKind};

pub(super) fn explain(reference: &str, signed_in: bool, error: &OciDistributionError) -> Error {
    let not_found = || {
        (
            ErrorKind::NotFound,
            "the registry has no such image; check name and tag".to_owned(),
        )
    };
    let denied = || {
        let why = if signed_in {
            "the registry refuses these credentials; sign in again with `docker login`"
        } else {
            "the registry has no such image or wants credentials; check the name, or sign in with `docker login`"
        };
        (ErrorKind::Denied, why.to_owned())
    };
    let busy = |why: String| (ErrorKind::Transient, format!("{why}; try again later"));
    let (kind, why) = match error {
        OciDistributionError::AuthenticationFailure(_)
        | OciDistributionError::UnauthorizedError { .. } => denied(),
        OciDistributionError::ImageManifestNotFoundError(_) => not_found(),
        OciDistributionError::RegistryError { envelope, .. } => {
            let code = envelope.errors.first().map(|error| &error.code);
            match code {
                Some(
                    OciErrorCode::ManifestUnknown
                    | OciErrorCode::NameUnknown
                    | OciErrorCode::NotFound
                    | OciErrorCode::BlobUnknown
                    | OciErrorCode::NameInvalid,
                ) => not_found(),
                Some(OciErrorCode::Unauthorized | OciErrorCode::Denied) => denied(),
                Some(OciErrorCode::Toomanyrequests) => {
                    busy("the registry has had too many requests".to_owned())
                }
                _ => {
                    let said: Vec<&str> = envelope
                        .errors
                        .iter()
                        .map(|error| error.message.as_str())
                        .collect();
                    (
                        ErrorKind::System,
                        format!("the registry says: {}", said.join("; ")),
                    )
                }
            }
        }
        OciDistributionError::ServerError { code: 404, .. } => not_found(),
        OciDistributionError::ServerError {
            code: 401 | 403, ..
        } => denied(),
        OciDistributionError::ServerError { code, .. } if *code == 429 || *code >= 500 => {
            busy(format!("the registry answers with status {code}"))
        }
        OciDistributionError::RequestError(error) => {
            let what = if error.is_connect() {
                "the registry cannot be reached"
            } else if error.is_timeout() {
                "the registry does not answer in time"
            } else {
                "the connection failed"
            };
            (
                ErrorKind::Transient,
                format!(
                    "{what} ({}); check its name and the network",
                    deepest(error)
                ),
            )
        }
        OciDistributionError::IoError(error) => (
            ErrorKind::Transient,
            format!("the connection failed ({error})"),
        ),
        OciDistributionError::DigestError(error) => (
            ErrorKind::BadInput,
            format!("the registry sends something else than was asked for ({error})"),
        ),
        other => (ErrorKind::System, other.to_string()),
    };
    Error::Registry {
        reference: reference.to_owned(),
        why,
        kind,
    }
}

/// A blob that broke off, or whose digest the client found wrong.
pub(super) fn explain_stream(reference: &str, error: &std::io::Error) -> Error {
    let is_digest = error
        .get_ref()
        .is_some_and(|inner| inner.is::<DigestError>());
    let (kind, why) = if is_digest {
        (
            ErrorKind::BadInput,
            format!("a layer is not what it should be ({error}); push the image again"),
        )
    } else {
        (
            ErrorKind::Transient,
            format!("the connection broke off ({}); try again", deepest(error)),
        )
    };
    Error::Registry {
        reference: reference.to_owned(),
        why,
        kind,
    }
}

fn deepest(error: &dyn std::error::Error) -> String {
    let mut last = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        last = error.to_string();
        next = error.source();
    }
    last
}
