//! How often each verb is drawn.

use innkeeper_test_script::{Kind, Verb, verbs};

use crate::dice::Dice;

/// How many operations of a hundred are of a kind. Files and what belongs to them are what resets
/// mostly go wrong on; what the kernel refuses anyhow needs few tries.
fn weight(kind: Kind) -> u64 {
    match kind {
        Kind::Files => 24,
        Kind::Attributes => 17,
        Kind::Held => 10,
        Kind::Processes => 12,
        Kind::Ipc => 8,
        Kind::Network => 8,
        Kind::Keyrings => 2,
        Kind::Exhaustion => 2,
        Kind::Mounts => 4,
        Kind::Proc => 4,
        Kind::Cgroups => 2,
        Kind::Devices => 5,
        Kind::Kernel => 2,
    }
}

/// All verbs by kind.
pub(super) struct Bag(Vec<(u64, Vec<&'static Verb>)>);

impl Bag {
    pub(super) fn new() -> Self {
        let of = |kind| verbs().filter(|verb| verb.kind == kind).collect();
        Self(
            Kind::ALL
                .into_iter()
                .map(|kind| (weight(kind), of(kind)))
                .collect(),
        )
    }

    pub(super) fn verb(&self, dice: &mut Dice) -> Option<&'static Verb> {
        let all = self.0.iter().map(|(weight, _)| weight).sum();
        let mut place = dice.below(all);
        for (weight, verbs) in &self.0 {
            match place.checked_sub(*weight) {
                Some(rest) => place = rest,
                None => return dice.one(verbs).copied(),
            }
        }
        None
    }
}
