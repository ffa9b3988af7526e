//! The store on disk:
//!
//! ```text
//! layers/<id>/tree/         the unpacked layer, with the image's own ids
//! layers/<id>/layer.json    its record, written last
//! images/<digest>.json      one image
//! images/names/<hash>.json  one name and the image it stands for
//! tmp/                      unfinished work, each piece under a lock
//! lock                      held while records change or layers go
//! ```

mod names;
mod records;
mod staging;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

pub(crate) use names::{familiar, same_name, stored_form};
pub(crate) use records::write_json;
pub(crate) use staging::Staging;

use crate::error::Error;
use crate::id::{Digest, LayerId};
use crate::image::{Image, LayerRecord};
use crate::progress::Progress;
use crate::source::Source;

/// A store. Cheap to clone; several processes may have the same one open.
///
/// All calls block, an import for as long as the image takes; from async code use a blocking
/// thread. None can be cancelled half way: end the process, the next [`Store::open`] cleans up.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
}

/// What [`Store::remove`] did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removed {
    /// Names that are free now.
    pub names: Vec<String>,
    /// The image, if it went as well; it stays while it has another name.
    pub image: Option<Digest>,
    /// Layers that were removed from the disk.
    pub layers: Vec<LayerId>,
    /// Layers of the image that stay because they are in use; [`Store::prune`] takes them later.
    pub in_use: Vec<LayerId>,
}

impl Store {
    /// Opens the store in this folder, making what is missing (mode 0700), and removes what
    /// imports that died have left. An import under way in another process is left alone.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Store, Error> {
        let store = Store {
            root: folder.into(),
        };
        for folder in [store.layers(), store.names(), store.tmp()] {
            let made = DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&folder);
            made.map_err(Error::io("made", &folder))?;
        }
        // Symbolic links on the way would make a moved store a surprise; names in it are stable.
        let root = fs::canonicalize(&store.root).map_err(Error::io("opened", &store.root))?;
        let store = Store { root };
        staging::sweep(&store.tmp())?;
        Ok(store)
    }

    /// The folder of the store.
    pub fn folder(&self) -> &Path {
        &self.root
    }

    /// Imports an image, and gives it this name or those that the source states. What the store
    /// has already is not read again; what is damaged is refused and leaves nothing behind.
    ///
    /// An image that another one had the name of before keeps its other names only.
    pub fn import(
        &self,
        source: &Source,
        name: Option<&str>,
        progress: &mut dyn Progress,
    ) -> Result<Image, Error> {
        crate::import::import(self, source, name, progress)
    }

    /// Says whether templates of an image are to remove answers that it holds.
    pub fn set_scrub(&self, image: &Digest, scrub: bool) -> Result<Image, Error> {
        records::set_scrub(self, image, scrub)
    }

    /// The image of this name (with or without a tag), digest, or unambiguous beginning of a
    /// digest. Both the image's own digest and that of its manifest count.
    pub fn resolve(&self, name: &str) -> Result<Image, Error> {
        records::resolve(self, name)
    }

    /// All images, by name.
    pub fn list(&self) -> Result<Vec<Image>, Error> {
        records::list(self)
    }

    /// Takes a name away, and with its last name the image, and with that each layer which no
    /// other image has and `in_use` does not claim. A digest as name takes all names.
    pub fn remove(&self, name: &str, in_use: &dyn Fn(&LayerId) -> bool) -> Result<Removed, Error> {
        records::remove(self, name, in_use)
    }

    /// Removes layers that no image has and `in_use` does not claim. An import that counts on one
    /// of them notices and brings it again.
    pub fn prune(&self, in_use: &dyn Fn(&LayerId) -> bool) -> Result<Vec<LayerId>, Error> {
        records::prune(self, in_use)
    }

    /// The tree of a layer: what to stack as a lower layer. Says nothing about its being there.
    pub fn layer_path(&self, layer: &LayerId) -> PathBuf {
        self.layer_folder(layer).join("tree")
    }

    /// The record of a layer, which proves that it is there and complete.
    pub fn layer(&self, layer: &LayerId) -> Result<LayerRecord, Error> {
        self.find_layer(layer)?.ok_or(Error::NoLayer(*layer))
    }

    pub(crate) fn find_layer(&self, layer: &LayerId) -> Result<Option<LayerRecord>, Error> {
        let folder = self.layer_folder(layer);
        // A record that cannot be read, as a power failure may leave it, is as good as none: the
        // next import makes the layer anew.
        let record = match records::read_json::<LayerRecord>(&folder.join("layer.json")) {
            Err(Error::Record { .. }) => None,
            read => read?,
        };
        Ok(record.filter(|record| record.version == 1 && folder.join("tree").is_dir()))
    }

    fn layer_folder(&self, layer: &LayerId) -> PathBuf {
        self.layers().join(layer.to_string())
    }

    /// Puts a finished layer in its place. Another process may have been faster: the same content
    /// under the same name, so either will do.
    pub(crate) fn publish_layer(
        &self,
        layer: &LayerId,
        record: &LayerRecord,
        staging: Staging,
    ) -> Result<(), Error> {
        let written = write_json(&staging.path().join("layer.json"), record);
        match written.and_then(|()| staging.publish(&self.layer_folder(layer))) {
            Ok(true) => Ok(()),
            Ok(false) if self.find_layer(layer)?.is_some() => staging.discard(),
            Ok(false) => {
                // In the way is something that is no layer, such as a tree without its record.
                staging::retire(&self.tmp(), &self.layer_folder(layer))?;
                match staging.publish(&self.layer_folder(layer))? {
                    true => Ok(()),
                    false => staging.discard(),
                }
            }
            Err(error) => {
                staging.discard()?;
                Err(error)
            }
        }
    }

    /// Removes layers that a failed import brought, but for those that an image has by now.
    pub(crate) fn forget_layers(&self, layers: &[LayerId]) -> Result<(), Error> {
        records::forget(self, layers)
    }

    /// Held while records change or layers go.
    fn lock(&self) -> Result<File, Error> {
        let path = self.root.join("lock");
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(0o600);
        let file = options.open(&path).map_err(Error::io("opened", &path))?;
        let locked = rustix::io::retry_on_intr(|| flock(&file, FlockOperation::LockExclusive));
        locked.map_err(Error::errno("locked", &path))?;
        Ok(file)
    }

    /// Writes the record of an image and gives it these names. False if a layer has gone
    /// meanwhile; then nothing is written.
    pub(crate) fn publish_image(&self, image: &Image, names: &[String]) -> Result<bool, Error> {
        records::publish(self, image, names)
    }

    pub(crate) fn tmp(&self) -> PathBuf {
        self.root.join("tmp")
    }

    fn layers(&self) -> PathBuf {
        self.root.join("layers")
    }

    fn images(&self) -> PathBuf {
        self.root.join("images")
    }

    fn names(&self) -> PathBuf {
        self.images().join("names")
    }
}

fn missing_ok<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
