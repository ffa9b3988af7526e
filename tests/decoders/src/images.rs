//! Layers and archives of images.

use std::path::Path;

use innkeeper_images::{Digest, Progress, Source, Step, Store};

use crate::Target;

pub(crate) const TARGET: Target = Target {
    name: "layer",
    read,
    seeds,
};

struct Silent;

impl Progress for Silent {
    fn step(&mut self, _step: Step) {}
}

/// Imports bytes as an archive, and as the layer of an archive that is right.
fn read(bytes: &[u8]) {
    import(bytes);
    import(&archive(bytes));
}

/// Imports an archive into a store of its own. Whatever is in it, nothing may appear beside the
/// store, and what was accepted must be there.
fn import(bytes: &[u8]) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("archive");
    std::fs::write(&path, bytes).expect("written");
    let store = Store::open(folder.path().join("store")).expect("a store");
    let source = Source::Archive {
        path,
        format: None,
        tag: None,
    };
    if let Ok(image) = store.import(&source, Some("fuzzed"), &mut Silent) {
        for layer in &image.layers {
            store
                .layer(layer)
                .expect("a layer of an image that was accepted");
        }
    }
    let mut names: Vec<_> = names(folder.path());
    names.sort();
    assert_eq!(
        names,
        ["archive", "store"],
        "something lies beside the store"
    );
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    entries
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect()
}

/// What `docker save` writes, with this layer.
fn archive(layer: &[u8]) -> Vec<u8> {
    let diff_id = Digest::of(layer);
    let architecture = if cfg!(target_arch = "aarch64") {
        "arm64"
    } else {
        "amd64"
    };
    let config = format!(
        r#"{{"architecture":"{architecture}","os":"linux","config":{{}},"rootfs":{{"type":"layers","diff_ids":["{diff_id}"]}}}}"#
    );
    let manifest =
        r#"[{"Config":"config.json","RepoTags":["fuzzed:latest"],"Layers":["layer.tar"]}]"#;
    let mut archive = tar::Builder::new(Vec::new());
    for (name, bytes) in [
        ("config.json", config.as_bytes()),
        ("layer.tar", layer),
        ("manifest.json", manifest.as_bytes()),
    ] {
        append(&mut archive, name, tar::EntryType::Regular, "", bytes);
    }
    archive.into_inner().expect("memory takes everything")
}

fn append(
    archive: &mut tar::Builder<Vec<u8>>,
    name: &str,
    kind: tar::EntryType,
    link: &str,
    bytes: &[u8],
) {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_size(bytes.len() as u64);
    if link.is_empty() {
        archive.append_data(&mut header, name, bytes)
    } else {
        archive.append_link(&mut header, name, link)
    }
    .expect("memory takes everything");
}

/// A layer with entries of every type that layers use, and an archive with it.
fn seeds() -> Vec<Vec<u8>> {
    use tar::EntryType as Kind;
    let mut layer = tar::Builder::new(Vec::new());
    layer
        .append_pax_extensions([("SCHILY.xattr.user.a", &b"value"[..]), ("mtime", b"12.5")])
        .expect("memory takes everything");
    append(
        &mut layer,
        "etc/passwd",
        Kind::Regular,
        "",
        b"root:x:0:0::/:/bin/sh\n",
    );
    append(&mut layer, "etc/", Kind::Directory, "", b"");
    append(&mut layer, "etc/same", Kind::Link, "etc/passwd", b"");
    append(&mut layer, "bin", Kind::Symlink, "usr/bin", b"");
    append(&mut layer, "etc/.wh.gone", Kind::Regular, "", b"");
    append(&mut layer, "opt/.wh..wh..opq", Kind::Regular, "", b"");
    append(&mut layer, "fifo", Kind::Fifo, "", b"");
    append(
        &mut layer,
        &format!("deep/{}", "long/".repeat(40)),
        Kind::Directory,
        "",
        b"",
    );
    let layer = layer.into_inner().expect("memory takes everything");
    vec![archive(&layer), layer]
}
