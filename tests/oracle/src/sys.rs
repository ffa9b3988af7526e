//! System calls that rustix does not have. Each only asks.
#![allow(unsafe_code)]

use rustix::io::Errno;

/// A question about the calling process.
pub(crate) type Question = fn() -> rustix::io::Result<i64>;

/// Questions about the calling process.
pub(crate) const SELF: [(&str, Question); 10] = [
    ("dumpable", || prctl(libc::PR_GET_DUMPABLE)),
    ("kept capabilities", || prctl(libc::PR_GET_KEEPCAPS)),
    ("secure bits", || prctl(libc::PR_GET_SECUREBITS)),
    ("seccomp", || prctl(libc::PR_GET_SECCOMP)),
    ("no new rights", || prctl(libc::PR_GET_NO_NEW_PRIVS)),
    ("child subreaper", || {
        prctl_into(libc::PR_GET_CHILD_SUBREAPER)
    }),
    ("signal at parent's death", || {
        prctl_into(libc::PR_GET_PDEATHSIG)
    }),
    ("io priority", || called(libc::SYS_ioprio_get, [1, 0, 0])),
    ("scheduling policy", || {
        called(libc::SYS_sched_getscheduler, [0; 3])
    }),
    ("real interval timer", || interval_timer(libc::ITIMER_REAL)),
];

/// Keyrings by the numbers of `linux/keyctl.h`.
pub(crate) const KEYRINGS: [(&str, i64); 5] = [
    ("thread", -1),
    ("process", -2),
    ("session", -3),
    ("user", -4),
    ("user session", -5),
];

/// The id of a keyring, without making one.
pub(crate) fn keyring(number: i64) -> rustix::io::Result<i64> {
    const GET_KEYRING_ID: i64 = 0;
    called(libc::SYS_keyctl, [GET_KEYRING_ID, number, 0])
}

fn called(number: i64, arguments: [i64; 3]) -> rustix::io::Result<i64> {
    let [one, two, three] = arguments;
    // SAFETY: none of the calls made here takes a pointer.
    answer(unsafe { libc::syscall(number, one, two, three) })
}

fn prctl(option: i32) -> rustix::io::Result<i64> {
    // SAFETY: these options take no pointer.
    answer(unsafe { libc::prctl(option, 0, 0, 0, 0) }.into())
}

fn prctl_into(option: i32) -> rustix::io::Result<i64> {
    let mut value = 0i32;
    // SAFETY: these options write one int, which lives during the call.
    answer(unsafe { libc::prctl(option, &raw mut value, 0, 0, 0) }.into())?;
    Ok(value.into())
}

fn interval_timer(which: i32) -> rustix::io::Result<i64> {
    // SAFETY: all-zero is a value of this plain structure.
    let mut timer: libc::itimerval = unsafe { std::mem::zeroed() };
    // SAFETY: the structure lives during the call.
    answer(unsafe { libc::syscall(libc::SYS_getitimer, which, &raw mut timer) })?;
    Ok(timer.it_value.tv_sec * 1_000_000 + timer.it_value.tv_usec)
}

fn answer(returned: i64) -> rustix::io::Result<i64> {
    if returned < 0 {
        let failed = std::io::Error::last_os_error();
        return Err(Errno::from_io_error(&failed).unwrap_or(Errno::INVAL));
    }
    Ok(returned)
}
