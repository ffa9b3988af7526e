//! Off uid 0. Guest root has the kernel's id 0 in a default pod, and may do to a process of
//! that id what any user may to his own: signal it, limit it, renice it. An id that the
//! guest's map leaves out closes all of it.

use std::io;

use crate::sys::{caps, process};

/// Ids that no distribution gives out, below the 65,536 that a guest has.
const FIRST: u32 = 60_000;
const COUNT: u32 = 5_000;

/// Two ids of one pod's daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ids {
    /// The daemon's: in no guest's map.
    pub own: u32,
    /// For killing: in every guest's map.
    pub killer: u32,
}

impl Ids {
    /// Draws them anew for each pod, so that the kernel's limits per user are the pod's own.
    ///
    /// # Errors
    /// When the kernel gives no random bytes.
    pub fn draw() -> io::Result<Self> {
        let mut bytes = [0; 8];
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        let [a, b, c, d, e, f, g, h] = bytes;
        Ok(Self::from_draws(
            u32::from_le_bytes([a, b, c, d]),
            u32::from_le_bytes([e, f, g, h]),
        ))
    }

    fn from_draws(own: u32, killer: u32) -> Self {
        let own = own % COUNT;
        // Any of the others.
        let killer = (own + 1 + killer % (COUNT - 1)) % COUNT;
        Self {
            own: FIRST + own,
            killer: FIRST + killer,
        }
    }
}

/// Takes the id `own` and keeps the capabilities of a default pod, and no others. Call it
/// before this process has threads.
///
/// # Errors
/// When the kernel refuses.
pub fn leave(own: u32) -> io::Result<()> {
    caps::keep_over_setuid()?;
    process::become_ids(own, own, &[])?;
    caps::set(caps::permitted()? & caps::DOCKER)?;
    // The kernel gives what /proc shows of a process that may not be dumped to root, whose id is
    // the guest's root's: its oom score could be raised. Of others it is the process's own, and
    // tracing is closed by the id as well as by the user namespace.
    process::set_dumpable(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_ids_of_the_range_that_differ() {
        for (own, killer) in [
            (0, 0),
            (4_999, 0),
            (17, 4_998),
            (u32::MAX, u32::MAX),
            (5, 4_999),
        ] {
            let ids = Ids::from_draws(own, killer);
            assert_ne!(ids.own, ids.killer, "{own} {killer}");
            for id in [ids.own, ids.killer] {
                assert!((60_000..65_000).contains(&id), "{id}");
            }
        }
    }
}
