//! Who calls: the tenant of a token, or the local socket's own.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tonic::service::Interceptor;
use tonic::transport::server::UdsConnectInfo;
use tonic::{Code, Request, Status};

use crate::client::{Kind, error_status as status};

/// The tenant of callers on the local socket, whom the socket's mode lets in.
pub const LOCAL_TENANT: &str = "default";

/// Tokens shorter than this are warned of: at 64 symbols, 16 of them are 96 bits.
const SHORT: usize = 16;

/// Why a token file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error("token file {path} cannot be read: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A line is not `TOKEN TENANT`.
    #[error("line {line} of token file {path}: {what}")]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        what: &'static str,
    },
}

/// The tokens of a token file. Only digests are kept, so that comparing them tells nothing about
/// the tokens by the time it takes.
#[derive(Debug, Clone, Default)]
pub struct Tokens {
    tenants: Arc<HashMap<[u8; 32], String>>,
}

impl Tokens {
    /// Reads a file of `TOKEN TENANT` lines; empty lines and those that begin with # are skipped.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::Read {
            path: path.to_owned(),
            source,
        })?;
        let mut tenants = HashMap::new();
        for (index, line) in text.lines().enumerate() {
            let wrong = |what| Error::Line {
                path: path.to_owned(),
                line: index + 1,
                what,
            };
            let mut words = line.split_whitespace();
            let (token, tenant) = match (words.next(), words.next(), words.next()) {
                (None, _, _) => continue,
                (Some(first), _, _) if first.starts_with('#') => continue,
                (Some(token), Some(tenant), None) => (token, tenant),
                (Some(_), _, _) => return Err(wrong("write TOKEN TENANT")),
            };
            if token.len() < SHORT {
                tracing::warn!(line = index + 1, "a token this short can be guessed");
            }
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
            if !tenant.bytes().all(plain) {
                return Err(wrong("the tenant must be of letters, digits, - and _"));
            }
            tenants.insert(
                *blake3::hash(token.as_bytes()).as_bytes(),
                tenant.to_owned(),
            );
        }
        Ok(Self {
            tenants: Arc::new(tenants),
        })
    }

    fn tenant(&self, token: &str) -> Option<&str> {
        self.tenants
            .get(blake3::hash(token.as_bytes()).as_bytes())
            .map(String::as_str)
    }
}

/// The tenant that a call is made for.
#[derive(Debug, Clone)]
struct Tenant(Arc<str>);

/// Finds the tenant of each call, before the call is looked at.
#[derive(Debug, Clone)]
pub struct Gate {
    tokens: Tokens,
    local: bool,
}

impl Gate {
    /// For the local socket: no token needed; one that is given decides the tenant.
    pub fn local(tokens: Tokens) -> Self {
        Self {
            tokens,
            local: true,
        }
    }

    /// For TCP: nothing without a token, from loopback neither, since any user can connect there.
    pub fn remote(tokens: Tokens) -> Self {
        Self {
            tokens,
            local: false,
        }
    }
}

impl Interceptor for Gate {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let header = request.metadata().get("authorization");
        let token = header.and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        let tenant = match token {
            Some(token) => self.tokens.tenant(token),
            None if self.local => Some(LOCAL_TENANT),
            None => None,
        };
        let Some(tenant) = tenant.map(Arc::from) else {
            let sentence = match token {
                Some(_) => "the manager does not know this token: correct INNKEEPER_TOKEN",
                None => "this manager wants a token: set INNKEEPER_TOKEN",
            };
            return Err(status(Kind::Usage, Code::Unauthenticated, sentence));
        };
        request.extensions_mut().insert(Tenant(tenant));
        Ok(request)
    }
}

/// The tenant that the gate found.
pub(super) fn tenant<T>(request: &Request<T>) -> Result<Arc<str>, Status> {
    let tenant = request.extensions().get::<Tenant>();
    // Missing only if a listener was built without a gate: then nobody gets in.
    tenant
        .map(|tenant| Arc::clone(&tenant.0))
        .ok_or_else(|| status(Kind::Permanent, Code::Unauthenticated, "no tenant"))
}

/// The process at the other end of a local socket.
pub(super) fn peer<T>(request: &Request<T>) -> Option<i32> {
    request
        .extensions()
        .get::<UdsConnectInfo>()?
        .peer_cred?
        .pid()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(local: bool) -> Gate {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens");
        std::fs::write(
            &path,
            "# comment\n\n0123456789abcdef alpha\nfedcba9876543210 beta\n",
        )
        .unwrap();
        let tokens = Tokens::read(&path).unwrap();
        if local {
            Gate::local(tokens)
        } else {
            Gate::remote(tokens)
        }
    }

    fn ask(gate: &mut Gate, token: Option<&str>) -> Result<String, Code> {
        let mut request = Request::new(());
        if let Some(token) = token {
            let value = format!("Bearer {token}").parse().unwrap();
            request.metadata_mut().insert("authorization", value);
        }
        let passed = gate.call(request).map_err(|status| status.code())?;
        Ok(tenant(&passed).unwrap().to_string())
    }

    #[test]
    fn a_token_decides_the_tenant() {
        for local in [true, false] {
            let mut gate = gate(local);
            assert_eq!(ask(&mut gate, Some("0123456789abcdef")), Ok("alpha".into()));
            assert_eq!(ask(&mut gate, Some("fedcba9876543210")), Ok("beta".into()));
            assert_eq!(ask(&mut gate, Some("wrong")), Err(Code::Unauthenticated));
        }
        assert_eq!(ask(&mut gate(true), None), Ok(LOCAL_TENANT.into()));
        assert_eq!(ask(&mut gate(false), None), Err(Code::Unauthenticated));
    }

    #[test]
    fn a_bad_line_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens");
        for bad in [
            "0123456789abcdef",
            "0123456789abcdef a b",
            "0123456789abcdef a/b",
        ] {
            std::fs::write(&path, format!("# first\n{bad}\n")).unwrap();
            let error = Tokens::read(&path).unwrap_err().to_string();
            assert!(error.contains("line 2"), "{error}");
        }
    }
}
