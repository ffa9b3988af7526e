//! The scan, from its question to its report.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::git::Error;
use crate::git::objects::Objects;
use crate::git::oid::Oid;
use crate::git::parse::Type;
use crate::git::place::{self, Place};
use crate::git::reach::{self, Reach};
use crate::git::refs::{self, Named};
use crate::{Ground, Kind, Report, leftovers};

/// Files of a commit.
const FILES: usize = 1 << 21;

/// What to look at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The work tree.
    pub workdir: Vec<u8>,
    /// The base commit: what it reaches may be there. Empty: what HEAD reaches.
    pub base_commit: String,
    /// How long the search may take, in milliseconds.
    pub patience_ms: u64,
}

/// Looks for answers. Never fails: what could not be read is in the report.
pub fn scan(ground: &Ground, question: &Question) -> Report {
    let mut report = Report::default();
    let deadline = Instant::now() + Duration::from_millis(question.patience_ms);
    let mut tracked = HashSet::new();
    let mut top = question.workdir.clone();
    match place::find(ground, &question.workdir) {
        Ok(Some(place)) => {
            top = place.top.clone();
            let repository = Repository {
                ground,
                place: &place,
                base: Oid::from_hex(question.base_commit.trim().as_bytes()),
                deadline,
            };
            match repository.search(&mut report) {
                Ok(files) => tracked = files,
                Err(error) => report.unread(error),
            }
        }
        // The root itself is no work tree: its logs and caches are the system's.
        Ok(None) if top.iter().all(|byte| *byte == b'/') => return report,
        Ok(None) => {}
        Err(error) => report.unread(error),
    }
    leftovers::search(ground, &top, &tracked, deadline, &mut report);
    report
}

struct Repository<'a> {
    ground: &'a Ground,
    place: &'a Place,
    base: Option<Oid>,
    deadline: Instant,
}

impl Repository<'_> {
    /// Reports what the repository holds beyond its base; answers with the files of HEAD.
    fn search(&self, report: &mut Report) -> Result<HashSet<Vec<u8>>, Error> {
        let mut unread = Vec::new();
        let mut objects = Objects::open(self.ground, &self.place.common, self.deadline)?;
        let named = refs::all(self.ground, self.place, &mut unread);
        let head = refs::head(self.ground, self.place, &named)?;
        let Some(head) = head else {
            // An empty repository has nothing, or something that nothing leads to.
            self.rest(&mut objects, &named, &Reach::default(), true, report)?;
            return Ok(HashSet::new());
        };
        let head = root(&objects, &named, head).ok_or(Error::Missing(head))?;
        let base = self.base.and_then(|base| root(&objects, &named, base));
        let base = base.unwrap_or(head);
        report.base = Some(base.to_string());
        let mut reach = Reach::default();
        reach.history(&mut objects, base)?;
        self.take_head(&mut objects, &mut reach, base, head, report)?;
        let whole = match reach.contents(&mut objects) {
            Ok(()) => true,
            Err(error) => {
                report.unread(format!("contents of the history: {error}"));
                false
            }
        };
        self.rest(&mut objects, &named, &reach, whole, report)?;
        for reason in unread.iter().chain(&objects.unread) {
            report.unread(reason);
        }
        reach::paths(&mut objects, head, FILES)
    }

    /// HEAD may be a commit on top of the base that changes nothing, as published images have it.
    fn take_head(
        &self,
        objects: &mut Objects<'_>,
        reach: &mut Reach,
        base: Oid,
        head: Oid,
        report: &mut Report,
    ) -> Result<(), Error> {
        let same = reach::commit(objects, head)?.tree == reach::commit(objects, base)?.tree;
        if same {
            reach.commit(objects, head)?;
        } else if !reach.allows(objects, head)? {
            report.add(Kind::Heads, || "HEAD".to_owned());
        }
        Ok(())
    }

    /// Reports objects that were not reached, and the names that lead to them.
    fn rest(
        &self,
        objects: &mut Objects<'_>,
        named: &[Named],
        reach: &Reach,
        whole: bool,
        report: &mut Report,
    ) -> Result<(), Error> {
        let mut before = HashSet::new();
        for named in named {
            // A name of what is not there gives nothing away.
            let there = objects.has(named.oid);
            let once = before.insert((named.kind, &named.name, named.oid));
            if there && once && !reach.allows(objects, named.oid)? {
                report.add(named.kind, || named.name.clone());
            }
        }
        let mut lenders = HashSet::new();
        let mut names: Vec<_> = objects.names().collect();
        // In an order that two scans of one image share.
        names.sort();
        for oid in names {
            let kind = objects.kind(oid)?;
            let content = match kind {
                Type::Commit | Type::Tag => false,
                Type::Tree | Type::Blob => true,
            };
            if content && !whole || reach.allows(objects, oid)? {
                continue;
            }
            let kind = if content {
                Kind::Contents
            } else {
                Kind::Commits
            };
            report.add(kind, || oid.to_string());
            lenders.extend(objects.alternate(oid));
        }
        let mut lenders: Vec<_> = lenders.into_iter().collect();
        lenders.sort();
        for lender in lenders {
            report.add(Kind::Alternates, || lender);
        }
        Ok(())
    }
}

/// A commit that is there: the one of this name, or what replaces it where it is missing itself.
fn root(objects: &Objects<'_>, named: &[Named], oid: Oid) -> Option<Oid> {
    let replaced = format!("refs/replace/{oid}");
    let replacement = named.iter().find(|named| named.name == replaced);
    let replacement = replacement.map(|named| named.oid);
    [Some(oid), replacement]
        .into_iter()
        .flatten()
        .find(|oid| objects.has(*oid))
}
