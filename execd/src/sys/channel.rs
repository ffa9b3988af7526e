//! Stream sockets that carry descriptors beside bytes.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::check;

/// Descriptors in one message at most (the kernel takes 253).
pub const MOST: usize = 64;

const SPACE: usize = 512;

#[repr(C, align(8))]
struct Control([u8; SPACE]);

/// A connected pair of stream sockets, closed on exec.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0i32; 2];
    // SAFETY: the array takes two descriptors.
    check(i64::from(unsafe {
        libc::socketpair(
            libc::AF_UNIX,
            libc::SOCK_STREAM | libc::SOCK_CLOEXEC,
            0,
            fds.as_mut_ptr(),
        )
    }))?;
    // SAFETY: the kernel has just given us both.
    Ok(unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) })
}

/// A descriptor that this process was started with, not passed on from now on.
///
/// # Errors
/// When there is none of this number.
pub fn inherited(number: i32) -> io::Result<OwnedFd> {
    // SAFETY: an integer; nobody else in this program knows of the descriptor.
    unsafe {
        check(i64::from(libc::fcntl(
            number,
            libc::F_SETFD,
            libc::FD_CLOEXEC,
        )))?;
        Ok(OwnedFd::from_raw_fd(number))
    }
}

/// Sends all of `bytes`, the descriptors with the first of them.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut sent = 0;
    while sent < bytes.len() {
        let with = if sent == 0 { fds } else { &[] };
        match send_some(socket, &bytes[sent..], with) {
            Ok(n) => sent += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn send_some(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
    if fds.len() > MOST {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    let mut control = Control([0; SPACE]);
    let mut part = libc::iovec {
        iov_base: bytes.as_ptr() as *mut _,
        iov_len: bytes.len(),
    };
    // SAFETY: header, part and control live on this stack frame for the call; the control
    // buffer is larger than CMSG_SPACE of MOST descriptors.
    unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        if !fds.is_empty() {
            let length = std::mem::size_of_val(fds) / std::mem::size_of::<BorrowedFd<'_>>() * 4;
            header.msg_control = control.0.as_mut_ptr().cast();
            header.msg_controllen = libc::CMSG_SPACE(length as u32) as _;
            let message = libc::CMSG_FIRSTHDR(&raw const header);
            (*message).cmsg_level = libc::SOL_SOCKET;
            (*message).cmsg_type = libc::SCM_RIGHTS;
            (*message).cmsg_len = libc::CMSG_LEN(length as u32) as _;
            let data = libc::CMSG_DATA(message).cast::<i32>();
            for (place, fd) in fds.iter().enumerate() {
                data.add(place).write_unaligned(fd.as_raw_fd());
            }
        }
        let n =
            check(libc::sendmsg(socket.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL) as i64)?;
        Ok(n as usize)
    }
}

/// Reads up to `buffer` bytes and the descriptors that came with them, close on exec.
/// 0 bytes: the other end is closed.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut control = Control([0; SPACE]);
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: as in `send_some`; the descriptors read out are the kernel's gift to us.
    unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = SPACE as _;
        let n = loop {
            let n = libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_CMSG_CLOEXEC);
            match check(n as i64) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        let mut fds = Vec::new();
        let mut message = libc::CMSG_FIRSTHDR(&raw const header);
        while !message.is_null() {
            if (*message).cmsg_level == libc::SOL_SOCKET && (*message).cmsg_type == libc::SCM_RIGHTS
            {
                let bytes = (*message).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                let data = libc::CMSG_DATA(message).cast::<i32>();
                for place in 0..bytes / 4 {
                    fds.push(OwnedFd::from_raw_fd(data.add(place).read_unaligned()));
                }
            }
            message = libc::CMSG_NXTHDR(&raw const header, message);
        }
        Ok((n as usize, fds))
    }
}

/// Reads exactly `buffer`; false where the other end closed before the first byte.
pub fn receive_all(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    fds: &mut Vec<OwnedFd>,
) -> io::Result<bool> {
    let mut have = 0;
    while have < buffer.len() {
        let (n, more) = receive(socket, &mut buffer[have..])?;
        fds.extend(more);
        if n == 0 {
            return if have == 0 {
                Ok(false)
            } else {
                Err(io::Error::from(io::ErrorKind::UnexpectedEof))
            };
        }
        have += n;
    }
    Ok(true)
}
