//! The only place with raw system calls: what rustix does not have, and what needs a fallback.
#![allow(unsafe_code)]

mod at;
mod fsmount;

pub(crate) use at::{STAT_AT, get_xattr, inode_flags, list_xattrs};
pub(crate) use fsmount::mqueue;
