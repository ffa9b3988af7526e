//! The guest's view of ids: user and group ids as a sandbox sees them.

use serde::{Deserialize, Serialize};

/// What the kernel shows for an id that a user namespace does not map
/// (`/proc/sys/kernel/overflowuid`, 65534 unless someone changed it).
pub const UNMAPPED: u32 = 65534;

/// One contiguous range: host id `base + x` is `x` inside, for `x < count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdMap {
    /// First host id of the range.
    pub base: u32,
    /// Number of ids in the range.
    pub count: u32,
}

impl IdMap {
    /// Ids as they stand on disk in the store: 0 to 65535, unshifted.
    pub const CANONICAL: IdMap = IdMap {
        base: 0,
        count: 65536,
    };

    /// All ids as they are, for a reader in the guest's own user namespace: none is hidden.
    pub const IDENTITY: IdMap = IdMap {
        base: 0,
        count: u32::MAX,
    };

    /// The range of 65,536 ids that starts at `base`.
    pub const fn at(base: u32) -> Self {
        IdMap { base, count: 65536 }
    }

    /// The id inside, or none for one that is not of this range.
    pub fn inside(&self, host: u32) -> Option<u32> {
        host.checked_sub(self.base).filter(|x| *x < self.count)
    }

    /// The id as a guest would see it: [`UNMAPPED`] for one outside of the range.
    pub fn shown(&self, host: u32) -> u32 {
        self.inside(host).unwrap_or(UNMAPPED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shifts_and_hides() {
        let map = IdMap::at(1_000_000);
        assert_eq!(map.shown(1_000_000), 0);
        assert_eq!(map.shown(1_065_535), 65535);
        assert_eq!(map.shown(1_065_536), UNMAPPED);
        assert_eq!(map.shown(0), UNMAPPED);
        assert_eq!(map.shown(u32::MAX), UNMAPPED);
        assert_eq!(IdMap::CANONICAL.shown(33), 33);
        assert_eq!(IdMap::IDENTITY.shown(4_000_000_000), 4_000_000_000);
    }
}
