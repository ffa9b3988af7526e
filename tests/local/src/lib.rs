//! What the suite of one machine shares: a manager with the images of the fixtures, leases as
//! tests use them, and the listing that is taken from inside a sandbox.
//!
//! Images are those that the recipes in `fixtures/` build; the first run of a machine builds
//! them. Recorded data is looked for in INNKEEPER_SHARED, else in `../shared` beside the
//! repository. What cannot run says `not run: NAME: REASON`.

mod fixtures;
mod guest;
mod house;
mod leaks;
mod listing;
mod program;
mod trial;

pub use fixtures::{built, repository, shared};
pub use guest::{Guest, Shown};
pub use house::House;
pub use leaks::{Groups, Traces, children};
pub use listing::Listing;
pub use program::static_execd;
pub use trial::trial;

/// Whether long tests run at full length.
pub fn soak() -> bool {
    std::env::var_os("INNKEEPER_SOAK").is_some_and(|value| value == "1")
}
