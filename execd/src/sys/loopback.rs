//! Loop devices: a file as a block device.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use super::check;

const GET_FREE: u64 = 0x4c82;
const CONFIGURE: u64 = 0x4c0a;
/// The device is let go when its last user is.
const AUTOCLEAR: u32 = 4;
/// Tries at a free device: others may take it between the asking and the taking.
const TRIES: usize = 64;

/// `struct loop_config` of linux/loop.h.
#[repr(C)]
struct Config {
    fd: u32,
    block_size: u32,
    info: Info,
    reserved: [u64; 8],
}

/// `struct loop_info64`.
#[repr(C)]
struct Info {
    device: u64,
    inode: u64,
    real_device: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// A device over a file: its path, and the descriptor that keeps it until it is mounted.
pub fn attach(file: &File) -> io::Result<(String, File)> {
    let control = File::options()
        .read(true)
        .write(true)
        .open("/dev/loop-control")?;
    for _ in 0..TRIES {
        // SAFETY: no argument.
        let number = check(i64::from(unsafe {
            libc::ioctl(control.as_raw_fd(), GET_FREE as _)
        }))?;
        let path = format!("/dev/loop{number}");
        let device = File::options().read(true).write(true).open(&path)?;
        // SAFETY: all zero is a valid structure of integers.
        let mut config: Config = unsafe { std::mem::zeroed() };
        config.fd = file.as_raw_fd() as u32;
        config.info.flags = AUTOCLEAR;
        // SAFETY: the structure outlives the call and has the kernel's layout.
        let done = unsafe { libc::ioctl(device.as_raw_fd(), CONFIGURE as _, &raw const config) };
        match check(i64::from(done)) {
            Ok(_) => return Ok((path, device)),
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::from(io::ErrorKind::ResourceBusy))
}
