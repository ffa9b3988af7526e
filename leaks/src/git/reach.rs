//! What commits reach: first the commits, then their contents.

use std::collections::HashSet;

use super::objects::Objects;
use super::oid::Oid;
use super::parse::{self, Type};
use super::{Error, damaged};

/// Tags of tags that are followed.
const TAGS: usize = 16;

/// Objects that may be there.
#[derive(Debug, Default)]
pub(crate) struct Reach {
    seen: HashSet<Oid>,
    trees: Vec<Oid>,
}

impl Reach {
    /// Takes a commit and all that came before it. Parents that are not there (a shallow clone)
    /// are passed over.
    pub(crate) fn history(&mut self, objects: &mut Objects<'_>, root: Oid) -> Result<(), Error> {
        let mut next = vec![root];
        while let Some(oid) = next.pop() {
            if oid != root && !objects.has(oid) {
                continue;
            }
            if let Some(commit) = self.commit(objects, oid)? {
                next.extend(commit.parents);
            }
        }
        Ok(())
    }

    /// Takes one commit without what came before it. None: it was taken before.
    pub(crate) fn commit(
        &mut self,
        objects: &mut Objects<'_>,
        oid: Oid,
    ) -> Result<Option<parse::Commit>, Error> {
        if !self.seen.insert(oid) {
            return Ok(None);
        }
        let commit = commit(objects, oid)?;
        self.trees.push(commit.tree);
        Ok(Some(commit))
    }

    /// Takes what the commits' trees hold.
    pub(crate) fn contents(&mut self, objects: &mut Objects<'_>) -> Result<(), Error> {
        while let Some(oid) = self.trees.pop() {
            if !objects.has(oid) || !self.seen.insert(oid) {
                continue;
            }
            let (_, content) = objects.read(oid)?;
            for entry in parse::tree(&content) {
                let entry = entry.ok_or_else(|| damaged(&oid.to_string(), "it is no tree"))?;
                match entry.kind {
                    Some(Type::Tree) => self.trees.push(entry.oid),
                    Some(Type::Blob | Type::Commit | Type::Tag) => {
                        self.seen.insert(entry.oid);
                    }
                    None => {}
                }
            }
        }
        Ok(())
    }

    /// Whether an object may be there: it was reached, or is a tag of one that was.
    pub(crate) fn allows(&self, objects: &mut Objects<'_>, oid: Oid) -> Result<bool, Error> {
        let mut oid = oid;
        for _ in 0..TAGS {
            if self.seen.contains(&oid) {
                return Ok(true);
            }
            if objects.kind(oid)? != Type::Tag {
                return Ok(false);
            }
            let (_, content) = objects.read(oid)?;
            let named = parse::tag(&content);
            oid = named.ok_or_else(|| damaged(&oid.to_string(), "it is no tag"))?;
            if !objects.has(oid) {
                return Ok(false);
            }
        }
        Ok(false)
    }
}

/// Reads a commit.
pub(crate) fn commit(objects: &mut Objects<'_>, oid: Oid) -> Result<parse::Commit, Error> {
    let (kind, content) = objects.read(oid)?;
    let commit = (kind == Type::Commit).then(|| parse::commit(&content));
    commit
        .flatten()
        .ok_or_else(|| damaged(&oid.to_string(), "it is no commit"))
}

/// Paths of all files that a commit holds.
pub(crate) fn paths(
    objects: &mut Objects<'_>,
    oid: Oid,
    most: usize,
) -> Result<HashSet<Vec<u8>>, Error> {
    let mut paths = HashSet::new();
    let mut next = vec![(commit(objects, oid)?.tree, Vec::new())];
    while let Some((tree, path)) = next.pop() {
        let (_, content) = objects.read(tree)?;
        for entry in parse::tree(&content) {
            let entry = entry.ok_or_else(|| damaged(&tree.to_string(), "it is no tree"))?;
            let path = crate::ground::join(&path, entry.name);
            if paths.len() + next.len() >= most {
                return Err(Error::Many("files"));
            }
            match entry.kind {
                Some(Type::Tree) => next.push((entry.oid, path)),
                Some(_) | None => drop(paths.insert(path)),
            }
        }
    }
    Ok(paths)
}
