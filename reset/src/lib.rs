//! Capture, digest and verify: the proof that a sandbox equals its baseline.
//!
//! The flow is one way. [`capture`] and [`observe`] look, [`baseline::verify`] compares, and only it
//! can make a [`baseline::Clean`]. [`layered`] is the order in which a returned sandbox is put back, and
//! [`inplace`] the one where there is no layer to throw away.
//!
//! - [`tree`]: a file tree as entries with a Merkle digest; canonical, versioned, comparable.
//! - [`capture`]: reads a mounted tree through a descriptor into a [`tree::Tree`].
//! - [`files`]: the three depths at which files are checked against a baseline.
//! - [`components`], [`observe`]: everything that is not a file, as canonical facts.
//! - [`noise`]: all that is left out of or smoothed in those facts, in one place.
//!
//! The crate is Linux only, synchronous, and holds no thread of its own.
#![deny(unsafe_code)]

pub mod baseline;
pub mod capture;
pub mod components;
pub mod difference;
pub mod digest;
pub mod envelope;
pub mod files;
pub mod ids;
pub mod inplace;
pub mod layered;
pub mod noise;
pub mod observe;
mod sys;
pub mod tree;
