//! The store from outside: real archives, real tools, hostile input, killed imports.
//!
//! These tests need root, as imports do.

mod concurrent;
mod folder;
mod hostile;
mod layers;
mod listing;
mod records;
mod registry;
mod tarball;
mod tools;
