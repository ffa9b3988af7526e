//! Tars with every byte under control, and images around them.

use std::path::{Path, PathBuf};

use innkeeper_images::{Digest, Error, Image, Source, Store};
use tempfile::TempDir;

/// A tar being written, header by header.
#[derive(Default, Clone)]
pub(crate) struct Tarball {
    bytes: Vec<u8>,
}

/// One entry with the values that tests vary.
#[derive(Clone)]
pub(crate) struct Entry<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) flag: u8,
    pub(crate) mode: u32,
    pub(crate) uid: u64,
    pub(crate) gid: u64,
    pub(crate) mtime: u64,
    pub(crate) link: &'a [u8],
    pub(crate) content: &'a [u8],
    pub(crate) pax: Vec<(&'a str, &'a [u8])>,
}

impl<'a> Entry<'a> {
    fn new(name: &'a [u8], flag: u8, mode: u32) -> Entry<'a> {
        Entry {
            name,
            flag,
            mode,
            uid: 0,
            gid: 0,
            mtime: 1_000_000_000,
            link: b"",
            content: b"",
            pax: Vec::new(),
        }
    }
}

pub(crate) fn file<'a>(name: &'a [u8], content: &'a [u8]) -> Entry<'a> {
    Entry {
        content,
        ..Entry::new(name, b'0', 0o644)
    }
}

pub(crate) fn dir(name: &[u8]) -> Entry<'_> {
    Entry::new(name, b'5', 0o755)
}

pub(crate) fn symlink<'a>(name: &'a [u8], link: &'a [u8]) -> Entry<'a> {
    Entry {
        link,
        ..Entry::new(name, b'2', 0o777)
    }
}

pub(crate) fn hard_link<'a>(name: &'a [u8], link: &'a [u8]) -> Entry<'a> {
    Entry {
        link,
        ..Entry::new(name, b'1', 0o644)
    }
}

pub(crate) fn special(name: &[u8], flag: u8) -> Entry<'_> {
    Entry::new(name, flag, 0o600)
}

impl Tarball {
    pub(crate) fn of(entries: &[Entry<'_>]) -> Vec<u8> {
        let mut tar = Tarball::default();
        for entry in entries {
            tar.add(entry);
        }
        tar.finish()
    }

    pub(crate) fn add(&mut self, entry: &Entry<'_>) {
        if !entry.pax.is_empty() {
            let mut records = Vec::new();
            for (key, value) in &entry.pax {
                let rest = key.len() + value.len() + 3;
                let mut length = rest + 1;
                while length != rest + length.to_string().len() {
                    length = rest + length.to_string().len();
                }
                records.extend_from_slice(format!("{length} {key}=").as_bytes());
                records.extend_from_slice(value);
                records.push(b'\n');
            }
            self.header(&Entry {
                content: &records,
                ..Entry::new(b"pax", b'x', 0o644)
            });
            self.content(&records);
        }
        self.header(entry);
        self.content(entry.content);
    }

    fn header(&mut self, entry: &Entry<'_>) {
        let mut header = tar::Header::new_ustar();
        let name = &entry.name[..entry.name.len().min(100)];
        header.as_old_mut().name[..name.len()].copy_from_slice(name);
        header.as_old_mut().linkname[..entry.link.len()].copy_from_slice(entry.link);
        header.as_old_mut().linkflag = [entry.flag];
        header.set_mode(entry.mode);
        header.set_uid(entry.uid);
        header.set_gid(entry.gid);
        header.set_mtime(entry.mtime);
        header.set_size(entry.content.len() as u64);
        header.set_cksum();
        self.bytes.extend_from_slice(header.as_bytes());
    }

    /// Bytes as they are, such as a header that no writer would make.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn content(&mut self, content: &[u8]) {
        self.bytes.extend_from_slice(content);
        self.bytes.resize(self.bytes.len().next_multiple_of(512), 0);
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.bytes.extend_from_slice(&[0; 1024]);
        self.bytes
    }
}

/// A fresh store and a place for sources beside it.
pub(crate) struct Place {
    pub(crate) folder: TempDir,
    pub(crate) store: Store,
}

impl Place {
    pub(crate) fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("store")).unwrap();
        Place { folder, store }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Imports an image of these layers, bottom first.
    pub(crate) fn import(&self, layers: &[Vec<u8>]) -> Result<Image, Error> {
        let archive = self.path("image.tar");
        docker_archive(&archive, layers, &["made:1"]);
        self.store
            .import(&Source::parse(archive.to_str().unwrap())?, None, &mut ())
    }

    /// The tree of an image's topmost layer.
    pub(crate) fn top(&self, image: &Image) -> PathBuf {
        self.store.layer_path(image.layers.last().unwrap())
    }

    /// Nothing is in the store but what is complete: no litter, no layers, no images.
    pub(crate) fn assert_empty(&self) {
        for folder in ["layers", "tmp", "images/names"] {
            let path = self.store.folder().join(folder);
            let left: Vec<_> = std::fs::read_dir(&path)
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .collect();
            assert!(left.is_empty(), "left behind: {left:?}");
        }
        assert!(self.store.list().unwrap().is_empty());
    }
}

pub(crate) fn config(diff_ids: &[Digest]) -> String {
    let diff_ids: Vec<String> = diff_ids.iter().map(|id| format!("\"{id}\"")).collect();
    format!(
        r#"{{"architecture":"amd64","os":"linux","config":{{"Env":["A=b"]}},"rootfs":{{"type":"layers","diff_ids":[{}]}}}}"#,
        diff_ids.join(",")
    )
}

pub(crate) fn docker_archive(path: &Path, layers: &[Vec<u8>], tags: &[&str]) {
    let diff_ids: Vec<Digest> = layers.iter().map(|layer| Digest::of(layer)).collect();
    docker_archive_with(path, layers, tags, &config(&diff_ids));
}

pub(crate) fn docker_archive_with(path: &Path, layers: &[Vec<u8>], tags: &[&str], config: &str) {
    let mut tar = Tarball::default();
    let config_name = format!("{}.json", Digest::of(config.as_bytes()).hex());
    tar.add(&file(config_name.as_bytes(), config.as_bytes()));
    let mut names = Vec::new();
    for (index, layer) in layers.iter().enumerate() {
        let name = format!("{index}/layer.tar");
        tar.add(&file(name.as_bytes(), layer));
        names.push(format!("\"{name}\""));
    }
    let tags: Vec<String> = tags.iter().map(|tag| format!("\"{tag}\"")).collect();
    let manifest = format!(
        r#"[{{"Config":"{config_name}","RepoTags":[{}],"Layers":[{}]}}]"#,
        tags.join(","),
        names.join(",")
    );
    tar.add(&file(b"manifest.json", manifest.as_bytes()));
    std::fs::write(path, tar.finish()).unwrap();
}
