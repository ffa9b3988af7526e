//! Registries. The HTTP side is asynchronous and runs on a small runtime of its own, so that an
//! import stays a plain blocking call.

mod credentials;
mod failure;

use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

use oci_client::Reference;
use oci_client::client::{Client, ClientConfig, ClientProtocol};
use oci_client::manifest::{
    IMAGE_MANIFEST_LIST_MEDIA_TYPE, IMAGE_MANIFEST_MEDIA_TYPE, OCI_IMAGE_INDEX_MEDIA_TYPE,
    OCI_IMAGE_MEDIA_TYPE,
};
use oci_client::secrets::RegistryAuth;
use oci_spec::image::{ImageIndex, ImageManifest};
use serde::Deserialize;
use tokio::runtime::Runtime;
use tokio_stream::StreamExt;

use super::manifest::{self, digest_of, layers_of, parse, verify};
use super::{LayerSource, Plan};
use crate::error::{Error, ErrorKind};
use crate::id::Digest;
use crate::limits::MAX_JSON_BYTES;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest silence in the middle of an answer.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// An index may point to an index; real ones do not.
const MAX_NESTING: usize = 4;

/// One image in one registry.
struct Remote {
    runtime: Runtime,
    client: Client,
    reference: Reference,
    auth: RegistryAuth,
}

/// Reads manifest and config; the layers are fetched when they are opened.
pub(super) fn plan(reference: &str) -> Result<Plan, Error> {
    let remote = Arc::new(Remote::new(reference)?);
    let source = remote.name();
    let (bytes, digest) = remote.manifest()?;
    let read: ImageManifest = parse(&bytes, &source, "the manifest")?;
    let config_digest = digest_of(read.config(), &source)?;
    let config = remote.blob(config_digest)?;
    let (_, diff_ids) = manifest::parse_config(&config, &source)?;
    let mut layers = Vec::new();
    for (diff_id, stored) in layers_of(&read, &diff_ids, &source)? {
        let digest = digest_of(stored, &source)?;
        let remote = Arc::clone(&remote);
        layers.push(LayerSource {
            diff_id,
            blob: Some(digest),
            size: Some(stored.size()),
            open: Box::new(move || Ok(Box::new(BlobReader::open(&remote, digest)?))),
        });
    }
    let private = remote.auth != RegistryAuth::Anonymous;
    Ok(Plan {
        config,
        manifest_digest: Some(digest),
        layers,
        names: Vec::new(),
        private,
        staging: None,
    })
}

impl Remote {
    fn new(text: &str) -> Result<Remote, Error> {
        let reference: Reference = text.parse().map_err(|error| Error::Registry {
            reference: text.to_owned(),
            why: format!("it is no image reference ({error}); write REGISTRY/NAME[:TAG]"),
            kind: ErrorKind::Usage,
        })?;
        let broken = |why: String| Error::Registry {
            reference: text.to_owned(),
            why: format!("no client could be made ({why})"),
            kind: ErrorKind::System,
        };
        // The client panics without a process-wide provider. Whoever comes first wins, and an
        // application that has chosen already keeps its choice.
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            drop(rustls::crypto::ring::default_provider().install_default());
        }
        let registry = reference.resolve_registry().to_owned();
        // As other clients do: a registry on this machine needs no certificate.
        let protocol = if is_loopback(&registry) {
            ClientProtocol::Http
        } else {
            ClientProtocol::Https
        };
        let config = ClientConfig {
            protocol,
            connect_timeout: Some(CONNECT_TIMEOUT),
            read_timeout: Some(READ_TIMEOUT),
            user_agent: concat!("innkeeper/", env!("CARGO_PKG_VERSION")),
            ..ClientConfig::default()
        };
        let client = Client::try_from(config).map_err(|error| broken(error.to_string()))?;
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| broken(error.to_string()))?;
        let auth = credentials::find(&registry)?;
        Ok(Remote {
            runtime,
            client,
            reference,
            auth,
        })
    }

    fn name(&self) -> String {
        self.reference.whole()
    }

    fn failed(&self) -> impl Fn(oci_client::errors::OciDistributionError) -> Error {
        let reference = self.name();
        let signed_in = self.auth != RegistryAuth::Anonymous;
        move |error| failure::explain(&reference, signed_in, &error)
    }

    /// The manifest for this machine and its digest.
    fn manifest(&self) -> Result<(Vec<u8>, Digest), Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Form {
            #[serde(default)]
            manifests: Option<serde::de::IgnoredAny>,
            #[serde(default)]
            schema_version: u32,
        }
        let accepted = [
            OCI_IMAGE_INDEX_MEDIA_TYPE,
            OCI_IMAGE_MEDIA_TYPE,
            IMAGE_MANIFEST_LIST_MEDIA_TYPE,
            IMAGE_MANIFEST_MEDIA_TYPE,
        ];
        let source = self.name();
        let mut reference = self.reference.clone();
        for _ in 0..MAX_NESTING {
            let pulled = self
                .client
                .pull_manifest_raw(&reference, &self.auth, &accepted);
            let (bytes, _) = self.runtime.block_on(pulled).map_err(self.failed())?;
            if let Some(expected) = reference.digest() {
                let expected = expected.parse().map_err(|_| {
                    Error::Unsupported(format!(
                        "{source} uses the digest {expected}; only sha256 is supported"
                    ))
                })?;
                verify(&bytes, expected, &format!("the manifest of {source}"))?;
            }
            let form: Form = parse(&bytes, &source, "the manifest")?;
            if form.schema_version != 2 {
                return Err(Error::Unsupported(format!(
                    "{source} has a manifest of schema version {}; push it again with a current tool",
                    form.schema_version
                )));
            }
            if form.manifests.is_none() {
                return Ok((bytes.to_vec(), Digest::of(&bytes)));
            }
            let index: ImageIndex = parse(&bytes, &source, "the index")?;
            let chosen = digest_of(manifest::choose(&index, &source)?, &source)?;
            reference = self.reference.clone_with_digest(chosen.to_string());
        }
        Err(Error::Damaged {
            source_name: source,
            what: "its index does not end in a manifest".to_owned(),
        })
    }

    /// A small blob whole, checked.
    fn blob(self: &Arc<Remote>, digest: Digest) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        let reader = BlobReader::open(self, digest)?;
        reader
            .take(MAX_JSON_BYTES)
            .read_to_end(&mut bytes)
            .map_err(|error| match error.downcast::<Error>() {
                Ok(ours) => ours,
                Err(error) => Error::Damaged {
                    source_name: self.name(),
                    what: error.to_string(),
                },
            })?;
        verify(&bytes, digest, &format!("the config of {}", self.name()))?;
        Ok(bytes)
    }
}

/// Whether a registry is on this machine.
fn is_loopback(registry: &str) -> bool {
    let host = match registry.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
        _ => registry,
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

/// A blob as it comes over the wire. Its digest is checked by whoever reads it.
struct BlobReader {
    remote: Arc<Remote>,
    stream: oci_client::client::SizedStream,
    current: io::Cursor<Vec<u8>>,
    /// The client's stream must not be asked again after its end.
    ended: bool,
}

impl BlobReader {
    fn open(remote: &Arc<Remote>, digest: Digest) -> Result<BlobReader, Error> {
        let digest = digest.to_string();
        let stream = remote.runtime.block_on(async {
            remote
                .client
                .store_auth_if_needed(remote.reference.resolve_registry(), &remote.auth)
                .await;
            remote
                .client
                .pull_blob_stream(&remote.reference, digest.as_str())
                .await
        });
        let stream = stream.map_err(remote.failed())?;
        Ok(BlobReader {
            remote: Arc::clone(remote),
            stream,
            current: io::Cursor::default(),
            ended: false,
        })
    }
}

impl Read for BlobReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let got = self.current.read(buffer)?;
            if got > 0 || buffer.is_empty() || self.ended {
                return Ok(got);
            }
            match self.remote.runtime.block_on(self.stream.next()) {
                Some(Ok(chunk)) => self.current = io::Cursor::new(chunk.to_vec()),
                Some(Err(error)) => {
                    let ours = failure::explain_stream(&self.remote.name(), &error);
                    return Err(io::Error::other(ours));
                }
                None => self.ended = true,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_loopback;

    #[test]
    fn only_this_machine_is_loopback() {
        for yes in [
            "localhost",
            "localhost:5000",
            "127.0.0.1:5000",
            "127.3.2.1",
            "[::1]:5000",
        ] {
            assert!(is_loopback(yes), "{yes}");
        }
        for no in [
            "registry.example",
            "10.0.0.1:5000",
            "localhost.example:5000",
            "127.example",
        ] {
            assert!(!is_loopback(no), "{no}");
        }
    }
}
