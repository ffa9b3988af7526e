//! The image with the guest program in it.
//!
//! A layer above those of the image costs one import; a program that is written into each sandbox
//! would cost more than all that is then done there. The image is kept under a name of its own, so
//! that the next run finds it. Where the manager's store is not on this machine, programs are
//! written after all.

use std::fs;
use std::io;
use std::path::Path;

use bytes::Bytes;
use innkeeper::paths;
use innkeeper_images::{Digest, Image, Source, Store};
use innkeeper_proto::v1::Empty;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cli::connect::Client;
use crate::cli::failure::Failure;

/// Where the program lies in the image.
pub(super) const PLACE: &str = "/.innkeeper-guest";

/// The name that such images have, with the digest of what they stand on for a tag.
const NAME: &str = "innkeeper-fuzz";

/// Makes the image, or finds it made; its digest. None where the store cannot be reached.
pub(super) async fn with_guest(
    client: &mut Client,
    image: &str,
    guest: &Bytes,
) -> Result<Option<String>, Failure> {
    let state = client.info(Empty {}).await?.into_inner().state_dir;
    let folder = paths::store_dir(Path::new(&state));
    if state.is_empty() || !folder.is_dir() {
        return Ok(None);
    }
    let (image, guest) = (image.to_owned(), guest.clone());
    let made = tokio::task::spawn_blocking(move || {
        let store = Store::open(folder).map_err(Failure::failed)?;
        let below = store.resolve(&image).map_err(Failure::failed)?;
        let layout = layout(&store, &below, &guest)?;
        let source = Source::Layout {
            path: layout.path().to_owned(),
            tag: None,
        };
        let name = format!("{NAME}:{}", &below.digest.hex()[..12]);
        let made = store.import(&source, Some(&name), &mut Silent);
        Ok(Some(made.map_err(Failure::failed)?.digest.to_string()))
    });
    made.await.map_err(Failure::failed)?
}

struct Silent;

impl innkeeper_images::Progress for Silent {
    fn step(&mut self, _step: innkeeper_images::Step) {}
}

/// An OCI layout with one more layer. The blobs of those below are not in it: the store has them.
fn layout(store: &Store, below: &Image, guest: &[u8]) -> Result<TempDir, Failure> {
    let mut diff_ids = Vec::new();
    for layer in &below.layers {
        let record = store.layer(layer).map_err(Failure::failed)?;
        diff_ids.push(record.diff_id);
    }
    let cannot = |error: io::Error| {
        Failure::failed(format_args!(
            "the image for fuzzing could not be written: {error}"
        ))
    };
    let folder = tempfile::tempdir().map_err(cannot)?;
    let blobs = Blobs::make(folder.path()).map_err(cannot)?;
    let top = blobs.put(&layer(guest).map_err(cannot)?).map_err(cannot)?;
    let mut layers: Vec<Value> = diff_ids
        .iter()
        .map(|id| descriptor("application/vnd.oci.image.layer.v1.tar", *id, 0))
        .collect();
    layers.push(top.describe("application/vnd.oci.image.layer.v1.tar"));
    diff_ids.push(top.digest);
    let config = config(below, &diff_ids).to_string();
    let config = blobs.put(config.as_bytes()).map_err(cannot)?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config.describe("application/vnd.oci.image.config.v1+json"),
        "layers": layers,
    });
    let manifest = blobs.put(manifest.to_string().as_bytes()).map_err(cannot)?;
    let index = json!({
        "schemaVersion": 2,
        "manifests": [manifest.describe("application/vnd.oci.image.manifest.v1+json")],
    });
    fs::write(folder.path().join("index.json"), index.to_string()).map_err(cannot)?;
    fs::write(
        folder.path().join("oci-layout"),
        r#"{"imageLayoutVersion":"1.0.0"}"#,
    )
    .map_err(cannot)?;
    Ok(folder)
}

/// The layer: the program, of the epoch, so that the same program gives the same layer.
fn layer(guest: &[u8]) -> io::Result<Vec<u8>> {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Regular);
    header.set_mode(0o755);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(guest.len() as u64);
    let mut archive = tar::Builder::new(Vec::new());
    archive.append_data(&mut header, PLACE.trim_start_matches('/'), guest)?;
    archive.into_inner()
}

fn config(below: &Image, diff_ids: &[Digest]) -> Value {
    let run = &below.config;
    let set = |names: &[String]| -> Value {
        let empty = |name: &String| (name.clone(), json!({}));
        names
            .iter()
            .map(empty)
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    json!({
        "architecture": run.architecture,
        "os": run.os,
        "created": run.created,
        "config": {
            "Env": run.env,
            "User": run.user,
            "WorkingDir": run.workdir,
            "Entrypoint": run.entrypoint,
            "Cmd": run.cmd,
            "Labels": run.labels,
            "ExposedPorts": set(&run.exposed_ports),
            "Volumes": set(&run.volumes),
            "StopSignal": run.stop_signal,
        },
        "rootfs": {
            "type": "layers",
            "diff_ids": diff_ids.iter().map(ToString::to_string).collect::<Vec<_>>(),
        },
    })
}

/// The folder of a layout in which files are named by their digests.
struct Blobs<'a>(&'a Path);

struct Blob {
    digest: Digest,
    size: usize,
}

impl<'a> Blobs<'a> {
    fn make(layout: &'a Path) -> io::Result<Self> {
        fs::create_dir_all(layout.join("blobs/sha256"))?;
        Ok(Self(layout))
    }

    fn put(&self, bytes: &[u8]) -> io::Result<Blob> {
        let digest = Digest::of(bytes);
        fs::write(self.0.join("blobs/sha256").join(digest.hex()), bytes)?;
        Ok(Blob {
            digest,
            size: bytes.len(),
        })
    }
}

impl Blob {
    fn describe(&self, media_type: &str) -> Value {
        descriptor(media_type, self.digest, self.size)
    }
}

fn descriptor(media_type: &str, digest: Digest, size: usize) -> Value {
    json!({"mediaType": media_type, "digest": digest.to_string(), "size": size})
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn the_guest_lies_above_the_layers_of_the_image() {
        let folder = tempfile::tempdir().unwrap();
        let rootfs = folder.path().join("rootfs");
        fs::create_dir_all(rootfs.join("etc")).unwrap();
        fs::write(rootfs.join("etc/motd"), "hello").unwrap();
        let store = Store::open(folder.path().join("store")).unwrap();
        let below = store
            .import(&Source::Rootfs(rootfs), Some("plain"), &mut Silent)
            .unwrap();
        let import = || {
            let layout = layout(&store, &below, b"program").unwrap();
            let source = Source::Layout {
                path: layout.path().to_owned(),
                tag: None,
            };
            store.import(&source, Some("fuzzed"), &mut Silent).unwrap()
        };
        let made = import();
        assert_eq!(made.layers.len(), 2);
        assert_eq!(made.layers[0], below.layers[0]);
        assert_eq!(made.digest, import().digest);
        let program = store.layer_path(&made.layers[1]).join(&PLACE[1..]);
        assert_eq!(fs::read(&program).unwrap(), b"program");
        assert_eq!(program.metadata().unwrap().mode() & 0o7777, 0o755);
    }
}
