//! The pair of keys: made once, kept in two files, read again ever after.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ed25519_dalek::pkcs8::KeypairBytes;
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{DecodePrivateKey, DecodePublicKey, EncodePrivateKey, EncodePublicKey};
use ed25519_dalek::{SigningKey, VerifyingKey};

/// No key file is longer.
const LONGEST: u64 = 16 << 10;

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// A file could not be read or written.
    #[error("{what} {path} failed: {source}")]
    Io {
        /// The operation, for example "reading".
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file holds no key of this kind.
    #[error("{path} holds no ed25519 {kind} key in PEM: {advice}")]
    NoKey {
        /// The file.
        path: PathBuf,
        /// private or public.
        kind: &'static str,
        /// What to do.
        advice: &'static str,
    },
    /// Others may read the private key.
    #[error(
        "{path} can be read by others (mode {mode:o}): records that it signed prove nothing; move it away so that a new one is made, and its .pub with it"
    )]
    Open {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The two files are not a pair.
    #[error(
        "{public} does not belong to {private}: put the right one back, or move both away so that a new pair is made"
    )]
    NoPair {
        /// The public key.
        public: PathBuf,
        /// The private key.
        private: PathBuf,
    },
    /// The system gave no random number.
    #[error("no random numbers from the system: {0}")]
    Random(io::Error),
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> KeyError {
    let path = path.to_owned();
    move |source| KeyError::Io { what, path, source }
}

/// A key that checks signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey(pub(crate) VerifyingKey);

impl PublicKey {
    /// Reads a PEM file as [`crate::Signer::open`] writes it.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let text = read(path)?;
        VerifyingKey::from_public_key_pem(&text)
            .map(Self)
            .map_err(|_| KeyError::NoKey {
                path: path.to_owned(),
                kind: "public",
                advice: "name the attest.pub of the manager that signed",
            })
    }

    /// Its name in records: 64 hexadecimal digits.
    pub fn name(&self) -> String {
        hex::encode(self.0.as_bytes())
    }
}

/// Reads the pair of keys, making it where neither file is there. A key that is damaged, or that
/// others may read, is never replaced quietly: what it signed could no longer be checked.
pub(crate) fn open(private: &Path, public: &Path) -> Result<SigningKey, KeyError> {
    let key = match read_private(private) {
        Err(KeyError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            if public.exists() {
                return Err(KeyError::NoPair {
                    public: public.to_owned(),
                    private: private.to_owned(),
                });
            }
            make(private)?
        }
        read => read?,
    };
    let own = PublicKey(key.verifying_key());
    match PublicKey::read(public) {
        Ok(other) if other == own => {}
        Ok(_) => {
            return Err(KeyError::NoPair {
                public: public.to_owned(),
                private: private.to_owned(),
            });
        }
        Err(KeyError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            let pem = own.0.to_public_key_pem(LineEnding::LF);
            let pem = pem.map_err(|e| failed("encoding", public)(io::Error::other(e)))?;
            write(public, 0o644, pem.as_bytes())?;
        }
        Err(error) => return Err(error),
    }
    Ok(key)
}

fn read_private(path: &Path) -> Result<SigningKey, KeyError> {
    let text = read(path)?;
    let mode = std::fs::metadata(path)
        .map_err(failed("reading", path))?
        .mode();
    if mode & 0o077 != 0 {
        return Err(KeyError::Open {
            path: path.to_owned(),
            mode: mode & 0o7777,
        });
    }
    SigningKey::from_pkcs8_pem(&text).map_err(|_| KeyError::NoKey {
        path: path.to_owned(),
        kind: "private",
        advice: "put the right file back, or move it away, and its .pub with it, so that a new pair is made",
    })
}

fn make(path: &Path) -> Result<SigningKey, KeyError> {
    let mut seed = [0; 32];
    let mut filled = 0;
    while filled < seed.len() {
        let flags = rustix::rand::GetRandomFlags::empty();
        filled += rustix::rand::getrandom(&mut seed[filled..], flags)
            .map_err(|error| KeyError::Random(error.into()))?;
    }
    // Without the public half: the form that every program reads.
    let bytes = KeypairBytes {
        secret_key: seed,
        public_key: None,
    };
    let pem = bytes
        .to_pkcs8_pem(LineEnding::LF)
        .map_err(|e| failed("encoding", path)(io::Error::other(e)))?;
    write(path, 0o600, pem.as_bytes())?;
    Ok(SigningKey::from_bytes(&seed))
}

fn read(path: &Path) -> Result<String, KeyError> {
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(LONGEST).read_to_string(&mut text))
        .map_err(failed("reading", path))?;
    Ok(text)
}

/// Writes a file that appears whole or not at all, and outlives a machine that loses its power.
fn write(path: &Path, mode: u32, bytes: &[u8]) -> Result<(), KeyError> {
    let new = path.with_extension("new");
    // What a killed manager left half written has a name that nobody reads.
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(failed("removing", &new)(error));
        }
        Ok(()) | Err(_) => {}
    }
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&new)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        })
        .map_err(failed("writing", &new))?;
    std::fs::rename(&new, path).map_err(failed("renaming", &new))?;
    match path.parent() {
        Some(dir) => File::open(dir)
            .and_then(|dir| dir.sync_all())
            .map_err(failed("flushing", dir)),
        None => Ok(()),
    }
}
