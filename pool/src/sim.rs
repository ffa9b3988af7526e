//! A world that behaves: slots that come and go with lag, lose answers, fail and die, and that know the truth about
//! themselves, so that what the pool says can be held against it. For tests and the simulator.

mod real;
mod run;
mod work;

pub use real::{Real, World};
pub use run::{CrashPoint, Run};
pub use work::Faults;

/// A small generator of numbers that look random (splitmix64); the same seed gives the same numbers.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// A number below `end`, 0 when that is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.next_u64() % end }
    }

    /// True with a chance of `per_mille` in a thousand.
    pub fn chance(&mut self, per_mille: u32) -> bool {
        self.below(1000) < u64::from(per_mille)
    }
}
