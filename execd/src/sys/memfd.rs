//! The daemon's own program as a sealed memory file.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};

use super::check;

/// Copies this program into a memory file that can be neither written nor opened by
/// others. A guest whose target is a link to `/proc/self/exe` then can neither run nor
/// overwrite it (the CVE-2019-5736 kind): the file is ours, mode 0700, and sealed.
pub fn sealed_self(name: &CStr) -> io::Result<File> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING | 0x10; // MFD_EXEC
    // SAFETY: the name is NUL terminated.
    let mut fd = unsafe { libc::memfd_create(name.as_ptr(), flags) };
    if fd < 0 {
        // Kernels before 6.3 do not know MFD_EXEC.
        // SAFETY: as above.
        fd = unsafe { libc::memfd_create(name.as_ptr(), flags & !0x10) };
    }
    check(i64::from(fd))?;
    // SAFETY: the kernel has just given us this descriptor.
    let mut file = unsafe { File::from_raw_fd(fd) };
    io::copy(&mut File::open("/proc/self/exe")?, &mut file)?;
    // SAFETY: a descriptor and integers.
    unsafe {
        check(i64::from(libc::fchmod(fd, 0o700)))?;
        let seals =
            libc::F_SEAL_SEAL | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE;
        check(i64::from(libc::fcntl(
            file.as_raw_fd(),
            libc::F_ADD_SEALS,
            seals,
        )))?;
    }
    Ok(file)
}
