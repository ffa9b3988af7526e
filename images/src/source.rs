//! Where an image comes from, and how people write that.

use std::path::{Path, PathBuf};

use crate::error::Error;

/// A place that holds an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A folder with a root file system; becomes an image of one layer without a config.
    Rootfs(PathBuf),
    /// An OCI image layout.
    Layout {
        /// Its folder.
        path: PathBuf,
        /// Which of its images; may be left out where there is one for this machine.
        tag: Option<String>,
    },
    /// A tar file, compressed with gzip or zstd or not at all.
    Archive {
        /// The file.
        path: PathBuf,
        /// What is in it; none to find out.
        format: Option<ArchiveFormat>,
        /// Which of its images; may be left out where there is one for this machine.
        tag: Option<String>,
    },
    /// A reference to an image in a registry, with the registry's name.
    Registry(String),
}

/// The two archive formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArchiveFormat {
    /// What `docker save` writes.
    Docker,
    /// An OCI layout in a tar.
    Oci,
}

impl Source {
    /// Reads a source as people write it: a path, or `oci:PATH[:TAG]`, `docker-archive:PATH[:TAG]`,
    /// `oci-archive:PATH[:TAG]`, `docker://REF`, or a reference that starts with a registry's name
    /// (which has a dot or a port in it, or is localhost). Looks at the file system.
    pub fn parse(text: &str) -> Result<Source, Error> {
        if let Some(rest) = text.strip_prefix("docker://") {
            return Ok(Source::Registry(rest.to_owned()));
        }
        if let Some(rest) = text.strip_prefix("oci:") {
            let (path, tag) = path_and_tag(rest)?;
            return Ok(Source::Layout { path, tag });
        }
        let formats = [
            ("docker-archive:", ArchiveFormat::Docker),
            ("oci-archive:", ArchiveFormat::Oci),
        ];
        for (prefix, format) in formats {
            if let Some(rest) = text.strip_prefix(prefix) {
                let (path, tag) = path_and_tag(rest)?;
                return Ok(Source::Archive {
                    path,
                    format: Some(format),
                    tag,
                });
            }
        }
        let path = Path::new(text);
        if path.is_dir() {
            return Ok(
                if path.join("index.json").is_file() && path.join("oci-layout").is_file() {
                    Source::Layout {
                        path: path.to_owned(),
                        tag: None,
                    }
                } else {
                    Source::Rootfs(path.to_owned())
                },
            );
        }
        if path.exists() {
            return Ok(Source::Archive {
                path: path.to_owned(),
                format: None,
                tag: None,
            });
        }
        if text.starts_with(['/', '.', '~']) {
            return Err(Error::NoPath {
                path: path.to_owned(),
            });
        }
        if names_a_registry(text) {
            return Ok(Source::Registry(text.to_owned()));
        }
        Err(Error::NoSource(text.to_owned()))
    }
}

fn names_a_registry(reference: &str) -> bool {
    reference.split_once('/').is_some_and(|(host, rest)| {
        !rest.is_empty() && (host == "localhost" || host.contains(['.', ':']))
    })
}

fn path_and_tag(text: &str) -> Result<(PathBuf, Option<String>), Error> {
    if Path::new(text).exists() {
        return Ok((PathBuf::from(text), None));
    }
    // A tag may hold colons itself (name:tag) and so may a path: the shortest path that exists.
    for (at, _) in text.match_indices(':') {
        let path = Path::new(&text[..at]);
        if path.exists() {
            return Ok((path.to_owned(), Some(text[at + 1..].to_owned())));
        }
    }
    Err(Error::NoPath {
        path: PathBuf::from(text),
    })
}
