//! Removing System V objects.

use std::io;

use super::check;

/// The three kinds of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Shared memory.
    Memory,
    /// Semaphores.
    Semaphores,
    /// Message queue.
    Messages,
}

/// Removes one object by its id, with the effective user id `owner`: the kernel lets its owner do so,
/// and others only with CAP_SYS_ADMIN.
///
/// # Errors
/// When the kernel refuses.
pub fn remove(kind: Kind, id: i32, owner: u32) -> io::Result<()> {
    become_effective(owner)?;
    // SAFETY: integers; IPC_RMID reads no buffer.
    let removed = check(i64::from(unsafe {
        match kind {
            Kind::Memory => libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()),
            Kind::Semaphores => libc::semctl(id, 0, libc::IPC_RMID),
            Kind::Messages => libc::msgctl(id, libc::IPC_RMID, std::ptr::null_mut()),
        }
    }));
    become_effective(0)?;
    removed.map(drop)
}

/// By the raw call: glibc's wrapper signals every thread.
fn become_effective(uid: u32) -> io::Result<()> {
    const SAME: u32 = u32::MAX;
    // SAFETY: integers.
    check(unsafe { libc::syscall(libc::SYS_setresuid, SAME, uid, SAME) }).map(drop)
}
