//! Terminals of a sandbox.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::check;

/// Opens a new terminal of the `/dev/pts` that this process sees: (master, slave).
pub fn open(rows: u16, columns: u16) -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    // SAFETY: constant path; descriptors from the kernel; integers.
    unsafe {
        let fd = libc::open(c"/dev/pts/ptmx".as_ptr(), flags);
        check(i64::from(fd))?;
        let master = OwnedFd::from_raw_fd(fd);
        let unlocked: i32 = 0;
        check(i64::from(libc::ioctl(
            fd,
            libc::TIOCSPTLCK as _,
            &raw const unlocked,
        )))?;
        let slave = libc::ioctl(fd, libc::TIOCGPTPEER as _, flags);
        check(i64::from(slave))?;
        let slave = OwnedFd::from_raw_fd(slave);
        resize(std::os::fd::AsFd::as_fd(&master), rows, columns)?;
        Ok((master, slave))
    }
}

/// Tells a terminal its size.
pub fn resize(master: BorrowedFd<'_>, rows: u16, columns: u16) -> io::Result<()> {
    let size = libc::winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: the structure outlives the call.
    check(i64::from(unsafe {
        libc::ioctl(master.as_raw_fd(), libc::TIOCSWINSZ as _, &raw const size)
    }))
    .map(drop)
}

/// Makes a terminal the controlling one of this session.
pub fn control(slave: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: integers.
    check(i64::from(unsafe {
        libc::ioctl(slave.as_raw_fd(), libc::TIOCSCTTY as _, 0)
    }))
    .map(drop)
}
