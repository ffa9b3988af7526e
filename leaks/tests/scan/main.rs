//! Scans of repositories that git itself made, and of ones that nobody should make.

mod found;
mod hostile;
mod leftovers;
mod repository;
