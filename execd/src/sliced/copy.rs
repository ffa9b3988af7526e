//! Making the template: the copied parts of the pod's root in a directory of their own, which is
//! never written again.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::plan::{Part, Treatment};
use crate::replica::ReplicaError;
use crate::replica::attributes::{Place, Time, View};
use crate::replica::look::{open, stat};
use crate::replica::tree::{Copier, make_directory};

/// Fills an empty directory with the template of a root.
///
/// # Errors
/// When something cannot be read or made; what was made so far is of no use then.
pub fn template(
    root: BorrowedFd<'_>,
    parts: &[Part],
    own: &BTreeSet<Vec<u8>>,
    target: BorrowedFd<'_>,
) -> Result<(), ReplicaError> {
    let mut filler = Filler(Copier::new(target, own, View::Merged));
    let here = open(root, c".").map_err(filler.0.fail("opening"))?;
    let there = open(target, c".").map_err(filler.0.fail("opening"))?;
    filler.parts(&here, &there, parts, b"")?;
    let seen = stat(here.as_fd(), c"").map_err(filler.0.fail("looking at"))?;
    filler.0.settle(
        Place::itself(here.as_fd()),
        &seen,
        Place::itself(there.as_fd()),
        Time::Fixed,
    )
}

struct Filler<'a>(Copier<'a>);

impl Filler<'_> {
    /// The parts that are children of `above`, and below those the ones of split directories.
    fn parts(
        &mut self,
        from: &OwnedFd,
        to: &OwnedFd,
        parts: &[Part],
        above: &[u8],
    ) -> Result<(), ReplicaError> {
        for part in parts {
            let Some(name) = child_of(above, &part.path) else {
                continue;
            };
            self.0.path = part.path.clone();
            let name = CString::new(name).map_err(|e| self.0.fail("naming")(e.into()))?;
            self.part(from, to, parts, part, &name)?;
            self.0.path = part.path.clone();
        }
        self.0.path = above.to_vec();
        Ok(())
    }

    fn part(
        &mut self,
        from: &OwnedFd,
        to: &OwnedFd,
        parts: &[Part],
        part: &Part,
        name: &CStr,
    ) -> Result<(), ReplicaError> {
        let (here, there) = (from.as_fd(), to.as_fd());
        match part.treatment {
            Treatment::LeftOut => Ok(()),
            Treatment::Empty => self.0.empty(here, there, name),
            Treatment::Slice => make_directory(there, name).map_err(self.0.fail("making")),
            Treatment::Copied => {
                let seen = stat(here, name).map_err(self.0.fail("looking at"))?;
                self.0.entry(here, there, name, &seen).map(drop)
            }
            Treatment::Split => {
                make_directory(there, name).map_err(self.0.fail("making"))?;
                let deeper = open(here, name).map_err(self.0.fail("opening"))?;
                let made = open(there, name).map_err(self.0.fail("opening"))?;
                self.parts(&deeper, &made, parts, &part.path)?;
                let seen = stat(here, name).map_err(self.0.fail("looking at"))?;
                let (from, to) = (Place { at: here, name }, Place { at: there, name });
                self.0.settle(from, &seen, to, Time::Fixed)
            }
        }
    }
}

/// The name of a path in the directory `above`, if it lies directly there.
fn child_of<'a>(above: &[u8], path: &'a [u8]) -> Option<&'a [u8]> {
    let rest = if above.is_empty() {
        path
    } else {
        path.strip_prefix(above)?.strip_prefix(b"/")?
    };
    (!rest.is_empty() && !rest.contains(&b'/')).then_some(rest)
}

#[cfg(test)]
mod tests;
