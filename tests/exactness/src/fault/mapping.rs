//! A store through a shared mapping.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Changes the first byte of a file by a store into memory. On a tmpfs no time stamp moves.
pub(super) fn flip(path: &Path) -> io::Result<()> {
    let file = File::options().read(true).write(true).open(path)?;
    // SAFETY: a new mapping, wherever the kernel puts it.
    let start = unsafe {
        mmap(
            std::ptr::null_mut(),
            1,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED,
            &file,
            0,
        )?
    };
    let byte = start.cast::<u8>();
    // SAFETY: one byte of a file that is not empty is mapped there, and nobody else knows of it.
    unsafe { byte.write_volatile(byte.read_volatile() ^ 1) };
    // SAFETY: the mapping made above.
    unsafe { munmap(start, 1)? };
    Ok(())
}
