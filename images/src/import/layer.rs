//! One layer from its source into the store.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};

use super::{LayerSource, folder};
use crate::error::{Error, ErrorKind};
use crate::feed::{Feed, Outcome};
use crate::id::{self, Digest, LayerId};
use crate::image::LayerRecord;
use crate::progress::{Progress, Step};
use crate::store::{Staging, Store};
use crate::tarstream::{self, TarStream};
use crate::unpack::{self, Lowers, Summary};

/// A layer whose source fails for a while is read this often.
const ATTEMPTS: u32 = 3;

/// Progress is told about every so many bytes.
const STRIDE: u64 = 1 << 20;

/// All layers of an image, each once.
#[derive(Default)]
pub(super) struct Done {
    pub(super) layers: Vec<LayerId>,
    pub(super) bytes: u64,
    pub(super) entries: u64,
}

/// Brings all layers into the store. If one fails, those that were brought before it go again,
/// unless the failure is a passing one and a repeat could use them.
pub(super) fn unpack_all(
    store: &Store,
    layers: &[LayerSource],
    progress: &mut dyn Progress,
) -> Result<Done, Error> {
    let mut brought = Vec::new();
    let done = unpack_each(store, layers, &mut brought, progress);
    if let Err(error) = &done
        && error.kind() != ErrorKind::Transient
    {
        store.forget_layers(&brought)?;
    }
    done
}

fn unpack_each(
    store: &Store,
    layers: &[LayerSource],
    brought: &mut Vec<LayerId>,
    progress: &mut dyn Progress,
) -> Result<Done, Error> {
    let mut lowers = Lowers::default();
    let mut chain = None;
    let mut done = Done::default();
    for (index, layer) in layers.iter().enumerate() {
        let this_chain = id::chain(chain, layer.diff_id);
        chain = Some(this_chain);
        let (id, record) = match find(store, this_chain, layer.diff_id)? {
            Some(found) => {
                progress.step(Step::Shared {
                    index,
                    diff_id: layer.diff_id,
                });
                found
            }
            None => {
                let got = fetch(store, layer, index, &lowers, this_chain, progress)?;
                brought.push(got.0);
                progress.step(Step::Unpacked {
                    index,
                    entries: got.1.entries,
                    bytes: got.1.bytes,
                });
                got
            }
        };
        lowers.push(open_tree(&store.layer_path(&id))?);
        // An overlay refuses one folder in two places. Of a layer that occurs twice (empty ones
        // do) the upper one counts: it shows and hides all that the lower one does.
        if let Some(earlier) = done.layers.iter().position(|known| *known == id) {
            done.layers.remove(earlier);
        } else {
            done.bytes += record.bytes;
            done.entries += record.entries;
        }
        done.layers.push(id);
    }
    Ok(done)
}

/// A layer that is in the store, as it is over these layers.
fn find(
    store: &Store,
    chain: Digest,
    diff_id: Digest,
) -> Result<Option<(LayerId, LayerRecord)>, Error> {
    let over_these = LayerId::from(chain);
    if let Some(record) = store.find_layer(&over_these)? {
        return Ok(Some((over_these, record)));
    }
    let anywhere = LayerId::from(diff_id);
    let found = store
        .find_layer(&anywhere)?
        .filter(|record| !record.depends_on_lower);
    Ok(found.map(|record| (anywhere, record)))
}

fn fetch(
    store: &Store,
    layer: &LayerSource,
    index: usize,
    lowers: &Lowers,
    chain: Digest,
    progress: &mut dyn Progress,
) -> Result<(LayerId, LayerRecord), Error> {
    let mut attempt = 1;
    loop {
        match fetch_once(store, layer, index, lowers, chain, progress) {
            Err(error) if error.kind() == ErrorKind::Transient && attempt < ATTEMPTS => {
                std::thread::sleep(Duration::from_millis(500) * attempt);
                attempt += 1;
            }
            done => return done,
        }
    }
}

fn fetch_once(
    store: &Store,
    layer: &LayerSource,
    index: usize,
    lowers: &Lowers,
    chain: Digest,
    progress: &mut dyn Progress,
) -> Result<(LayerId, LayerRecord), Error> {
    let what = format!("layer {}", layer.diff_id);
    let feed = Feed::from_blob((layer.open)()?);
    let expected = Expected {
        diff_id: Some(layer.diff_id),
        blob: layer.blob,
    };
    let staging = Staging::create(&store.tmp())?;
    let mut tell = |done| {
        progress.step(Step::Reading {
            index,
            done,
            total: layer.size,
        })
    };
    match unpack_into(store, &staging, feed, lowers, &what, expected, &mut tell) {
        Ok((outcome, summary)) => {
            let record = record(outcome.diff_id, summary);
            let id = if summary.depends_on_lower {
                chain
            } else {
                outcome.diff_id
            };
            let id = LayerId::from(id);
            store.publish_layer(&id, &record, staging)?;
            Ok((id, record))
        }
        Err(error) => {
            staging.discard()?;
            Err(error)
        }
    }
}

pub(super) fn unpack_folder(
    store: &Store,
    path: &Path,
    progress: &mut dyn Progress,
) -> Result<(LayerId, Digest, LayerRecord), Error> {
    let root = folder::open(path)?;
    let shown = path.to_owned();
    let feed = Feed::from_writer(move |out| folder::write_tar(root, &shown, out));
    let staging = Staging::create(&store.tmp())?;
    let what = path.display().to_string();
    let expected = Expected {
        diff_id: None,
        blob: None,
    };
    let mut tell = |done| {
        progress.step(Step::Reading {
            index: 0,
            done,
            total: None,
        })
    };
    match unpack_into(
        store,
        &staging,
        feed,
        &Lowers::default(),
        &what,
        expected,
        &mut tell,
    ) {
        Ok((outcome, summary)) => {
            let record = record(outcome.diff_id, summary);
            let id = LayerId::from(outcome.diff_id);
            store.publish_layer(&id, &record, staging)?;
            progress.step(Step::Unpacked {
                index: 0,
                entries: record.entries,
                bytes: record.bytes,
            });
            Ok((id, outcome.diff_id, record))
        }
        Err(error) => {
            staging.discard()?;
            Err(error)
        }
    }
}

struct Expected {
    diff_id: Option<Digest>,
    blob: Option<Digest>,
}

fn unpack_into(
    store: &Store,
    staging: &Staging,
    feed: Feed,
    lowers: &Lowers,
    what: &str,
    expected: Expected,
    tell: &mut dyn FnMut(u64),
) -> Result<(Outcome, Summary), Error> {
    let tree = staging.path().join("tree");
    std::fs::create_dir(&tree).map_err(Error::io("made", &tree))?;
    let root = open_tree(&tree)?;
    let mut stream = TarStream::new(feed);
    let mut told = 0;
    let unpacked = unpack::unpack(&mut stream, root, lowers, |feed: &mut Feed| {
        let done = feed.progress();
        if done >= told + STRIDE {
            told = done;
            tell(done);
        }
    });
    let feed = stream.into_inner();
    match unpacked {
        Ok(summary) => {
            let outcome = feed.finish().map_err(|error| source_failed(what, error))?;
            check(what, &expected, &outcome)?;
            Ok((outcome, summary))
        }
        Err(unpack::Error::Tar(tarstream::Error::Read(error))) => Err(source_failed(what, error)),
        Err(error) if error.io().is_some() => Err(Error::unpack(what, store.folder(), error)),
        Err(error) => {
            // Nonsense in a layer that is not the right one at all: say that instead.
            let outcome = feed.finish().map_err(|error| source_failed(what, error))?;
            check(what, &expected, &outcome)?;
            Err(Error::unpack(what, store.folder(), error))
        }
    }
}

fn check(what: &str, expected: &Expected, outcome: &Outcome) -> Result<(), Error> {
    let pairs = [
        (expected.blob, outcome.blob, what.to_owned()),
        (
            expected.diff_id,
            outcome.diff_id,
            format!("the content of {what}"),
        ),
    ];
    for (expected, found, what) in pairs {
        if let Some(expected) = expected
            && expected != found
        {
            return Err(Error::WrongDigest {
                what,
                expected,
                found,
            });
        }
    }
    Ok(())
}

/// Reading failed: an error of ours that came through the reader, or damage.
fn source_failed(what: &str, error: std::io::Error) -> Error {
    match error.downcast::<Error>() {
        Ok(ours) => ours,
        Err(error) => Error::Damaged {
            source_name: what.to_owned(),
            what: error.to_string(),
        },
    }
}

fn record(diff_id: Digest, summary: Summary) -> LayerRecord {
    LayerRecord {
        version: 1,
        diff_id,
        entries: summary.entries,
        bytes: summary.bytes,
        whiteouts: summary.whiteouts,
        opaque_dirs: summary.opaque,
        dropped_devices: summary.dropped_devices,
        dropped_xattrs: summary.dropped_xattrs,
        foreign_ids: summary.foreign_ids,
        depends_on_lower: summary.depends_on_lower,
    }
}

fn open_tree(tree: &Path) -> Result<OwnedFd, Error> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(tree, flags, Mode::empty()).map_err(Error::errno("opened", tree))
}
