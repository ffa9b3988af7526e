//! The spawner: a small single-threaded process, forked from execd's own sealed image,
//! that is the parent of everything that runs in sandboxes.
//!
//! Forking copies the forker's page tables and descriptor table, so the daemon with its
//! threads and heap never forks; this process does. It lives in an empty root, holds no
//! host path and no socket but the one to the daemon, and owns `wait`.
//!
//! `client` is the daemon's end, `server` the spawner's; `protocol` is what they say.
//! `namespaces` makes user and network namespaces ahead, `build` a sandbox's pid 1, and
//! `enter` brings one process in; `standby` is the daemon's hold on a pid 1 that waits.

pub mod build;
pub mod client;
pub mod enter;
pub mod launch;
mod namespaces;
pub mod protocol;
pub mod server;
pub mod standby;
pub mod wire;

pub use client::{SpawnError, Spawner};
pub use protocol::ExecSpec;
pub use standby::Standby;
