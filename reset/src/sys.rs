//! The only place with raw system calls: what rustix does not have, and what needs a fallback.
#![allow(unsafe_code)]

mod at;
mod fsmount;
mod set;

pub(crate) use at::{STAT_AT, get_xattr, inode_flags, list_xattrs};
pub(crate) use fsmount::mqueue;
pub(crate) use set::{remove_xattr, set_inode_flags, set_mode, set_xattr};
