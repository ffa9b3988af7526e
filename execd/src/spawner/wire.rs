//! Messages on the socket between daemon and spawner: number of the request (8 bytes),
//! length (4 bytes), JSON; little endian. Descriptors come with the first byte.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use serde::{Serialize, de::DeserializeOwned};

use crate::sys::channel;

/// Bytes of one message at most: argv and environment at the kernel's limit, as JSON
/// numbers of up to four characters a byte.
const MOST: usize = 32 * 1024 * 1024;

/// Sends one message.
pub fn send<T: Serialize>(
    socket: BorrowedFd<'_>,
    id: u64,
    message: &T,
    fds: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut bytes = vec![0; 12];
    serde_json::to_writer(&mut bytes, message)?;
    let length = bytes.len() - 12;
    if length > MOST {
        return Err(io::Error::from_raw_os_error(libc::E2BIG));
    }
    bytes[..8].copy_from_slice(&id.to_le_bytes());
    bytes[8..12].copy_from_slice(&(length as u32).to_le_bytes());
    channel::send(socket, &bytes, fds)
}

/// Reads one message; none where the other end has closed.
pub fn receive<T: DeserializeOwned>(
    socket: BorrowedFd<'_>,
) -> io::Result<Option<(u64, T, Vec<OwnedFd>)>> {
    let mut head = [0; 12];
    let mut fds = Vec::new();
    if !channel::receive_all(socket, &mut head, &mut fds)? {
        return Ok(None);
    }
    let (id, length) = head.split_at(8);
    let id = u64::from_le_bytes(id.try_into().unwrap_or_default());
    let length = u32::from_le_bytes(length.try_into().unwrap_or_default()) as usize;
    if length > MOST {
        return Err(io::Error::from(io::ErrorKind::InvalidData));
    }
    let mut body = vec![0; length];
    channel::receive_all(socket, &mut body, &mut fds)?;
    Ok(Some((id, serde_json::from_slice(&body)?, fds)))
}
