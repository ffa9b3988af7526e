//! The digests of a tree. The byte sequences here are the canonical encoding: changing one means a new
//! version in every name below and in the disk form.

use super::{Kind, NO_GROUP, Tree};
use crate::digest::{Digest, Fields};

const ROOT: &str = "innkeeper tree 1 root";
const ENTRY: &str = "innkeeper tree 1 entry";
const PLACE: &str = "innkeeper tree 1 place";

impl Tree {
    /// Fills in all digests, children before parents (they stand behind them).
    pub(super) fn compute(&mut self) {
        let places = self.places();
        for index in (0..self.nodes.len() as u32).rev() {
            let digest = self.subtree(index, &places);
            self.nodes[index as usize].digest = digest;
        }
        let mut fields = Fields::new(ROOT);
        fields.number(self.excluded.len() as u64);
        for path in &self.excluded {
            fields.bytes(path);
        }
        self.root = fields.digest(&self.nodes[0].digest).finish();
    }

    fn subtree(&self, index: u32, places: &[Digest]) -> Digest {
        let mut fields = Fields::new(ENTRY);
        self.attributes(index, places, &mut fields);
        for child in self.children(index) {
            fields
                .bytes(self.name(child))
                .digest(&self.node(child).digest);
        }
        fields.finish()
    }

    /// Everything of an entry but its name and its children, in fixed order.
    fn attributes(&self, index: u32, places: &[Digest], fields: &mut Fields) {
        let node = self.node(index);
        fields.number(node.kind as u64);
        if node.kind == Kind::Mount {
            return;
        }
        fields
            .number(u64::from(node.mode))
            .number(u64::from(node.uid))
            .number(u64::from(node.gid))
            .number(node.size)
            .number(node.mtime_s.cast_unsigned())
            .number(u64::from(node.mtime_ns))
            .number(node.rdev)
            .number(u64::from(node.flags.0))
            .bytes(self.span(node.xattrs))
            .bytes(self.span(node.target))
            .digest(&node.content);
        if node.group == NO_GROUP {
            fields.number(0);
        } else {
            fields
                .number(u64::from(node.links))
                .digest(&places[node.group as usize]);
        }
    }

    /// A digest of every entry's path, each from its parent's, so that the name of a hard-link group
    /// costs the same however deep it lies. Empty where there are no hard links.
    fn places(&self) -> Vec<Digest> {
        if self.nodes.iter().all(|node| node.group == NO_GROUP) {
            return Vec::new();
        }
        let mut places: Vec<Digest> = Vec::with_capacity(self.nodes.len());
        for (index, node) in self.nodes.iter().enumerate() {
            let needed = node.kind == Kind::Directory || node.group == index as u32;
            places.push(if needed && index > 0 {
                let mut fields = Fields::new(PLACE);
                fields
                    .digest(&places[node.parent as usize])
                    .bytes(self.span(node.name))
                    .finish()
            } else {
                Digest::ZERO
            });
        }
        places
    }
}
