//! Hard links, within the layer and to what lies beneath it.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{self, FileType};

use super::{Error, Unpacker, create, failed, make_fifo, tree, wrong_attributes};
use crate::attributes;
use crate::paths::{self, shown};
use crate::tarstream::Entry;
use tree::Tree;

impl Unpacker<'_> {
    pub(super) fn hard_link(
        &mut self,
        entry: &Entry,
        parents: &[&[u8]],
        name: &[u8],
    ) -> Result<(), Error> {
        let missing = || Error::HardLink {
            entry: shown(&entry.path),
            target: shown(&entry.link),
        };
        let target = paths::components(&entry.link).map_err(|source| Error::Name {
            entry: shown(&entry.path),
            source,
        })?;
        let (&target_name, target_parents) = target.split_last().ok_or_else(missing)?;
        let found = self.tree.lookup(target_parents, target_name);
        let target_dir = match found.map_err(failed(entry, "linked"))? {
            tree::Lookup::Found(dir) => dir,
            tree::Lookup::Hidden => return Err(missing()),
            tree::Lookup::Absent => {
                // What the layer links to lies beneath it: bring it up, as overlayfs itself does
                // for a link, so that both names are one file.
                self.bring_up(entry, &target)?.ok_or_else(missing)?
            }
        };
        self.enter(entry, parents)?;
        let linked = self.tree.link(target_dir.as_fd(), target_name, name);
        linked.map_err(failed(entry, "linked"))
    }

    /// Copies a file of a lower layer into this one; returns the directory it now lies in.
    fn bring_up(&mut self, entry: &Entry, path: &[&[u8]]) -> Result<Option<OwnedFd>, Error> {
        let Some((&name, parents)) = path.split_last() else {
            return Ok(None);
        };
        let Some(found) = self
            .lowers
            .find(path)
            .map_err(failed(entry, "found beneath"))?
        else {
            return Ok(None);
        };
        self.enter(entry, parents)?;
        let attributes = found.attributes().map_err(|source| Error::Write {
            entry: shown(&entry.path),
            action: "read from a layer beneath",
            source,
        })?;
        let copied = failed(entry, "copied from a layer beneath");
        match found.kind() {
            FileType::RegularFile => {
                let mut source = found.open().map_err(&copied)?;
                let target = self
                    .tree
                    .replace(name, |tree| create(tree, name))
                    .map_err(&copied)?;
                let mut target = std::fs::File::from(target);
                let bytes =
                    std::io::copy(&mut source, &mut target).map_err(|source| Error::Write {
                        entry: shown(&entry.path),
                        action: "copied from a layer beneath",
                        source,
                    })?;
                self.summary.bytes += bytes;
                attributes::set(target.as_fd(), &attributes).map_err(wrong_attributes(entry))?;
            }
            FileType::Symlink => {
                let link = found.read_link().map_err(&copied)?;
                let make = |tree: &Tree| fs::symlinkat(link.as_c_str(), tree.here(), name);
                self.tree.replace(name, make).map_err(&copied)?;
                self.attributes_at(entry, name, &attributes, true)?;
            }
            FileType::Fifo => {
                self.tree
                    .replace(name, |tree| make_fifo(tree, name))
                    .map_err(&copied)?;
                self.attributes_at(entry, name, &attributes, false)?;
            }
            _ => return Ok(None),
        }
        self.summary.depends_on_lower = true;
        let dir = self.tree.here().try_clone_to_owned();
        dir.map(Some).map_err(|source| Error::Write {
            entry: shown(&entry.path),
            action: "linked",
            source,
        })
    }
}
