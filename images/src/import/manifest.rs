//! Manifests, indexes and configs: what all formats share.

use std::collections::BTreeMap;

use oci_spec::image::{Descriptor, ImageConfiguration, ImageIndex, ImageManifest, MediaType};
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::id::Digest;
use crate::image::ImageConfig;
use crate::limits::MAX_LAYERS;

/// This machine's platform in Go's words.
pub(super) fn host_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        "powerpc64" => "ppc64le",
        "loongarch64" => "loong64",
        same => same,
    }
}

pub(super) fn parse<T: DeserializeOwned>(
    bytes: &[u8],
    source: &str,
    what: &str,
) -> Result<T, Error> {
    serde_json::from_slice(bytes).map_err(|error| Error::Damaged {
        source_name: source.to_owned(),
        what: format!("{what} cannot be read ({error})"),
    })
}

/// Bytes must be what they were announced as.
pub(super) fn verify(bytes: &[u8], expected: Digest, what: &str) -> Result<(), Error> {
    let found = Digest::of(bytes);
    if found == expected {
        Ok(())
    } else {
        Err(Error::WrongDigest {
            what: what.to_owned(),
            expected,
            found,
        })
    }
}

pub(super) fn digest_of(descriptor: &Descriptor, source: &str) -> Result<Digest, Error> {
    let text = descriptor.digest().to_string();
    text.parse().map_err(|_| {
        Error::Unsupported(format!(
            "{source} uses the digest {text}; only sha256 is supported"
        ))
    })
}

pub(super) fn is_index(descriptor: &Descriptor) -> bool {
    match descriptor.media_type() {
        MediaType::ImageIndex => true,
        other => other.to_string() == "application/vnd.docker.distribution.manifest.list.v2+json",
    }
}

/// Whether an index entry is for this machine; one that says nothing may be.
pub(super) fn fits_host(descriptor: &Descriptor) -> bool {
    descriptor.platform().as_ref().is_none_or(|platform| {
        platform.os().to_string() == "linux"
            && platform.architecture().to_string() == host_architecture()
    })
}

fn platform_of(descriptor: &Descriptor) -> String {
    match descriptor.platform() {
        Some(platform) => format!("{}/{}", platform.os(), platform.architecture()),
        None => "an unstated platform".to_owned(),
    }
}

pub(super) fn no_platform(source: &str, descriptors: &[&Descriptor]) -> Error {
    Error::Platform {
        source_name: source.to_owned(),
        wanted: format!("linux/{}", host_architecture()),
        choices: descriptors
            .iter()
            .map(|descriptor| platform_of(descriptor))
            .collect(),
    }
}

/// The entry of an index for this machine: one that says so before one that says nothing.
pub(super) fn choose<'a>(index: &'a ImageIndex, source: &str) -> Result<&'a Descriptor, Error> {
    let entries: Vec<&Descriptor> = index.manifests().iter().collect();
    let stated = entries
        .iter()
        .find(|entry| entry.platform().is_some() && fits_host(entry));
    let chosen = stated.or_else(|| entries.iter().find(|entry| fits_host(entry)));
    chosen.copied().ok_or_else(|| no_platform(source, &entries))
}

/// Diff id, and descriptor of the stored layer, of each layer, bottom first.
pub(super) fn layers_of<'a>(
    manifest: &'a ImageManifest,
    diff_ids: &[Digest],
    source: &str,
) -> Result<Vec<(Digest, &'a Descriptor)>, Error> {
    let layers = manifest.layers();
    check_count(layers.len(), diff_ids.len(), source)?;
    Ok(diff_ids.iter().copied().zip(layers).collect())
}

pub(super) fn check_count(layers: usize, diff_ids: usize, source: &str) -> Result<(), Error> {
    if layers != diff_ids {
        let what = format!("its config lists {diff_ids} layers, its manifest {layers}");
        return Err(Error::Damaged {
            source_name: source.to_owned(),
            what,
        });
    }
    if layers > MAX_LAYERS {
        return Err(Error::Unsupported(format!(
            "{source} has {layers} layers, more than the {MAX_LAYERS} that can be mounted; squash it"
        )));
    }
    Ok(())
}

/// The parts of a config that are used, and its diff ids.
pub(super) fn parse_config(
    bytes: &[u8],
    source: &str,
) -> Result<(ImageConfig, Vec<Digest>), Error> {
    let parsed: ImageConfiguration = parse(bytes, source, "the image config")?;
    let diff_ids = parsed.rootfs().diff_ids().iter().map(|text| {
        text.parse::<Digest>().map_err(|error| Error::Damaged {
            source_name: source.to_owned(),
            what: format!("its config has a bad layer id: {error}"),
        })
    });
    let diff_ids = diff_ids.collect::<Result<Vec<Digest>, Error>>()?;
    let run = parsed.config().clone().unwrap_or_default();
    let sorted = |list: &Option<Vec<String>>| {
        let mut list = list.clone().unwrap_or_default();
        list.sort();
        list
    };
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let config = ImageConfig {
        env: run.env().clone().unwrap_or_default(),
        user: given(run.user()),
        workdir: given(run.working_dir()),
        entrypoint: run.entrypoint().clone().unwrap_or_default(),
        cmd: run.cmd().clone().unwrap_or_default(),
        labels: run
            .labels()
            .clone()
            .unwrap_or_default()
            .into_iter()
            .collect::<BTreeMap<_, _>>(),
        exposed_ports: sorted(run.exposed_ports()),
        volumes: sorted(run.volumes()),
        stop_signal: given(run.stop_signal()),
        architecture: parsed.architecture().to_string(),
        os: parsed.os().to_string(),
        created: parsed.created().clone(),
    };
    Ok((config, diff_ids))
}

/// The config of an image that is a mere folder: the same folder gives the same bytes.
pub(super) fn config_of_folder(diff_id: Digest) -> Vec<u8> {
    let architecture = host_architecture();
    format!(
        r#"{{"architecture":"{architecture}","os":"linux","config":{{}},"rootfs":{{"type":"layers","diff_ids":["{diff_id}"]}}}}"#
    )
    .into_bytes()
}
