//! Capabilities by raw calls. (The `caps` crate works on whole processes through /proc and
//! allocates per capability; here 41 prctl calls in a forked child are the fast path.)

use std::io;

use super::check;

/// What a container of Docker has: chown, dac_override, fowner, fsetid, kill, setgid,
/// setuid, setpcap, net_bind_service, net_raw, sys_chroot, mknod, audit_write, setfcap.
/// Source: the default list of moby's oci/caps/defaults.go.
pub const DOCKER: u64 = 0xa804_25fb;

const LAST: u32 = 63;
const VERSION: u32 = 0x2008_0522;

/// Takes out of the bounding set all that is not in `keep`.
pub fn bound(keep: u64) -> io::Result<()> {
    for number in (0..=LAST).filter(|n| keep & (1 << n) == 0) {
        // SAFETY: integers.
        let result = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, u64::from(number), 0, 0, 0) };
        if result < 0 {
            let error = io::Error::last_os_error();
            // Past the kernel's last capability.
            if error.raw_os_error() == Some(libc::EINVAL) && number > 30 {
                break;
            }
            return Err(error);
        }
    }
    Ok(())
}

/// Sets the permitted and effective sets, and empties the inheritable one.
pub fn set(keep: u64) -> io::Result<()> {
    let header = [VERSION, 0];
    let low = keep as u32;
    let high = (keep >> 32) as u32;
    let data = [low, low, 0, high, high, 0];
    // SAFETY: both arrays have the layout of version 3.
    check(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), data.as_ptr()) }).map(drop)
}

/// Keeps the capabilities over file systems while this thread's file system ids are a
/// guest's: an overlay is created with those ids and needs both. Inherited by threads and
/// programs started later; entering a user namespace clears it.
pub fn keep_over_id_changes() -> io::Result<()> {
    const NO_SETUID_FIXUP: u64 = 1 << 2;
    // SAFETY: integers.
    check(i64::from(unsafe {
        libc::prctl(libc::PR_SET_SECUREBITS, NO_SETUID_FIXUP, 0, 0, 0)
    }))
    .map(drop)
}

/// Keeps the permitted set when this process leaves uid 0; the effective one is to be set again.
pub fn keep_over_setuid() -> io::Result<()> {
    // SAFETY: integers.
    check(i64::from(unsafe {
        libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0)
    }))
    .map(drop)
}

/// The permitted set of this process.
pub fn permitted() -> io::Result<u64> {
    let header = [VERSION, 0];
    let mut data = [0u32; 6];
    // SAFETY: both arrays have the layout of version 3.
    check(unsafe { libc::syscall(libc::SYS_capget, header.as_ptr(), data.as_mut_ptr()) })?;
    Ok(u64::from(data[1]) | u64::from(data[4]) << 32)
}

/// Those of a set that this process has.
pub fn permitted_of(set: u64) -> io::Result<u64> {
    Ok(permitted()? & set)
}

/// The effective set in a text of `/proc/PID/status`; none where it is not there.
pub fn effective(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(0)
}
