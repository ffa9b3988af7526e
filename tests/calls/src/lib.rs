//! A real execd with sandboxes to make calls in, for tests.
//!
//! `rootfs` makes a small image from the machine's own programs, `daemon` starts execd over
//! it, `sandbox` makes calls, `cases` runs tests by name and reports them.

pub mod cases;
pub mod daemon;
pub mod rootfs;
pub mod sandbox;
