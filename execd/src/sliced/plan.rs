//! What becomes of each part of the pod's root, decided from what a survey saw. Pure.
//!
//! An overlay over `/` itself is refused in a user namespace: the mounts below it are locked. One
//! over a directory without mounts is not. So the root is put together: small directories, and
//! those in which something is mounted, are copied into a template directory that serves as the lower
//! of the root's overlay; every other directory is a **slice**, an overlay of its own.
//!
//! Two pods of one image must come to the same plan and the same tree, so sizes are those of contents,
//! not of blocks, and nothing depends on when a pod was started.

use super::survey::{Kind, Node, Weight};

/// How a part is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// Copied into the template with all that lies below it. What is mounted there is empty in the copy.
    Copied,
    /// An overlay of its own.
    Slice,
    /// Made in the template with its attributes; its children are parts of their own.
    Split,
    /// A place at which something is mounted: empty in the template.
    Empty,
    /// Not the guest's: what execd itself was given.
    LeftOut,
}

/// One part of the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Relative to the root, without slashes at either end.
    pub path: Vec<u8>,
    /// What becomes of it.
    pub treatment: Treatment,
}

/// Where copying ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// A directory without mounts that is heavier is a slice.
    pub whole: Weight,
    /// A directory with mounts below it that is heavier is split.
    pub with_mounts: Weight,
    /// Of all copies together. What does not fit any more, the heaviest first, is a slice.
    pub total: Weight,
}

impl Default for Limits {
    /// 30 MB leaves `/usr` and `/var` of a Debian image as slices; `/etc` and `/run`, in which
    /// runtimes mount, are copied. Copying 100 MB takes some 0.3 s, once in a pod's life.
    fn default() -> Self {
        Self {
            whole: Weight {
                bytes: 30 << 20,
                entries: 10_000,
            },
            with_mounts: Weight {
                bytes: 32 << 20,
                entries: 10_000,
            },
            total: Weight {
                bytes: 128 << 20,
                entries: 30_000,
            },
        }
    }
}

/// Where the kernel's own file systems are mounted anew in every sandbox.
const KERNEL: [&[u8]; 3] = [b"proc", b"sys", b"dev"];

/// The parts of a root, in order: a directory before what lies below it.
pub fn plan(root: &Node, limits: &Limits) -> Vec<Part> {
    let mut drafts = Vec::new();
    for child in &root.children {
        treat(child, &child.name, limits, &mut drafts);
    }
    fit(&mut drafts, limits.total);
    let mut parts: Vec<Part> = drafts.into_iter().map(|draft| draft.part).collect();
    for name in KERNEL {
        if !root.children.iter().any(|child| child.name == name) {
            parts.push(Part {
                path: name.to_vec(),
                treatment: Treatment::Empty,
            });
        }
    }
    parts.sort_by(|a, b| a.path.cmp(&b.path));
    parts
}

/// The paths of the slices among parts, in order.
pub fn slices(parts: &[Part]) -> Vec<Vec<u8>> {
    parts
        .iter()
        .filter(|part| part.treatment == Treatment::Slice)
        .map(|part| part.path.clone())
        .collect()
}

/// How many files have names in more than one overlay: in a sandbox each of those names is a file of
/// its own, as after a copy.
pub fn cut_links(slices: &[Vec<u8>], linked: &[Vec<Vec<u8>>]) -> usize {
    let overlay = |path: &Vec<u8>| {
        slices.iter().position(|slice| {
            let rest = path.strip_prefix(slice.as_slice());
            rest.is_some_and(|rest| rest.starts_with(b"/"))
        })
    };
    let is_cut = |names: &&Vec<Vec<u8>>| {
        let first = names.first().map(overlay);
        names.iter().any(|name| Some(overlay(name)) != first)
    };
    linked.iter().filter(is_cut).count()
}

/// A part and what it was decided from.
struct Draft<'a> {
    part: Part,
    node: &'a Node,
}

impl Draft<'_> {
    /// What it adds to the template.
    fn copied(&self) -> Weight {
        match self.part.treatment {
            Treatment::Copied => self.node.weight,
            Treatment::Slice | Treatment::Split | Treatment::Empty | Treatment::LeftOut => {
                Weight::default()
            }
        }
    }

    /// Whether it may be a slice instead of a copy. What is tiny stays: each slice costs every
    /// reset 0.2 ms.
    fn may_be_a_slice(&self) -> bool {
        const TINY: u64 = 1 << 20;
        self.part.treatment == Treatment::Copied
            && self.node.kind == Kind::Directory
            && !self.node.has_mounts()
            && (self.node.weight.bytes > TINY || self.node.weight.entries > 1000)
    }
}

fn treat<'a>(node: &'a Node, path: &[u8], limits: &Limits, drafts: &mut Vec<Draft<'a>>) {
    let treatment = if node.own {
        Treatment::LeftOut
    } else if node.mounted || KERNEL.contains(&path) {
        Treatment::Empty
    } else if node.kind != Kind::Directory {
        Treatment::Copied
    } else if node.has_mounts() {
        if node.weight.fits(limits.with_mounts) {
            Treatment::Copied
        } else {
            Treatment::Split
        }
    } else if node.weight.fits(limits.whole) {
        Treatment::Copied
    } else {
        Treatment::Slice
    };
    let part = Part {
        path: path.to_vec(),
        treatment,
    };
    drafts.push(Draft { part, node });
    if treatment == Treatment::Split {
        for child in &node.children {
            treat(child, &[path, &child.name].join(&b'/'), limits, drafts);
        }
    }
}

/// Makes slices of the heaviest copies until the rest fits.
fn fit(drafts: &mut [Draft<'_>], total: Weight) {
    loop {
        let copied = drafts.iter().map(Draft::copied);
        if copied.fold(Weight::default(), Weight::plus).fits(total) {
            return;
        }
        let heaviest = drafts
            .iter_mut()
            .filter(|draft| draft.may_be_a_slice())
            .max_by_key(|draft| (draft.node.weight.bytes, draft.node.weight.entries));
        match heaviest {
            Some(draft) => draft.part.treatment = Treatment::Slice,
            None => return,
        }
    }
}

#[cfg(test)]
mod tests;
