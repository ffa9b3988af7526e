//! The plain layout: a sandbox is the container's own root as it is, with nothing built around it.
//! It works with a default pod's rights where no user namespace is to be had, and is put back in place.
//!
//! Guest and daemon share everything but their ids: the daemon has one of its own that is not root's,
//! is not dumpable, and keeps nothing under a path that the guest could reach: its socket, its volume
//! and the stash are descriptors. A guest that ends the spawner or starves it ends its own slot; what
//! it does to the limits that later commands inherit is observed (`steady`).
//!
//! Nothing filters system calls here: that would take CAP_SYS_ADMIN, or no_new_privs, under which no
//! setuid program works. Where the container has no_new_privs already, guests are filtered.

mod descendants;
mod keep;
mod quiet;
mod root;
mod stay;
mod steady;

pub use descendants::Descendants;
pub use keep::{Plain, contents};
pub use quiet::Quiet;
pub use root::Root;
pub use stay::{Stay, enter};
