//! System calls as they are.
//!
//! The program is single-threaded where it forks, and what the kernel writes goes only into buffers
//! that are lent for it with their lengths.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use rustix::process::Pid;

/// An argument of a system call.
pub(super) enum Argument {
    /// A number, a descriptor, or no pointer.
    Value(i64),
}

impl Argument {
    fn raw(&self) -> i64 {
        let Self::Value(value) = self;
        *value
    }
}

macro_rules! numbers {
    ($($kind:ty),*) => {$(
        impl From<$kind> for Argument {
            fn from(number: $kind) -> Self {
                #[allow(clippy::cast_possible_wrap, clippy::cast_lossless)]
                Self::Value(number as i64)
            }
        }
    )*};
}
numbers!(i32, u32, i64, u64, usize);

impl From<&CStr> for Argument {
    fn from(text: &CStr) -> Self {
        Self::Value(text.as_ptr() as i64)
    }
}

impl From<&[u8]> for Argument {
    fn from(bytes: &[u8]) -> Self {
        Self::Value(bytes.as_ptr() as i64)
    }
}

impl From<&mut [u8]> for Argument {
    fn from(bytes: &mut [u8]) -> Self {
        Self::Value(bytes.as_mut_ptr() as i64)
    }
}

impl From<&OwnedFd> for Argument {
    fn from(descriptor: &OwnedFd) -> Self {
        Self::Value(descriptor.as_raw_fd().into())
    }
}

/// Makes a system call with up to six arguments, the rest 0.
pub(super) fn raw(number: i64, arguments: &[Argument]) -> io::Result<i64> {
    let mut raw = [0; 6];
    for (place, argument) in raw.iter_mut().zip(arguments) {
        *place = argument.raw();
    }
    let [a, b, c, d, e, f] = raw;
    // SAFETY: pointers among the arguments point to what the caller lends for the call.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Makes a system call by its number's name; arguments are numbers, names and buffers.
macro_rules! call {
    ($number:expr $(, $argument:expr)* $(,)?) => {
        $crate::act::sys::raw($number, &[$($crate::act::sys::Argument::from($argument)),*])
    };
}
pub(super) use call;

/// A descriptor that a call returned.
pub(super) fn descriptor(result: io::Result<i64>) -> io::Result<OwnedFd> {
    let number = i32::try_from(result?).map_err(|_| io::Error::from_raw_os_error(libc::EBADF))?;
    // SAFETY: the kernel has just given out this number, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Opens a path with flags as the kernel has them, never waiting.
pub(super) fn open(path: &CStr, flags: i32, mode: u32) -> io::Result<OwnedFd> {
    let flags = flags | libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
    descriptor(call!(libc::SYS_openat, libc::AT_FDCWD, path, flags, mode))
}

/// A child's id for the parent, nothing for the child.
pub(super) fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: this process has one thread.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        child => Ok(Pid::from_raw(child)),
    }
}

/// A child that does this and then stays.
pub(super) fn spawn(work: impl FnOnce()) -> io::Result<Pid> {
    match fork()? {
        Some(child) => Ok(child),
        None => {
            work();
            close_standard();
            stay()
        }
    }
}

/// Lets go of standard input, output and error: who holds them holds the command's pipes.
pub(super) fn close_standard() {
    for number in 0..3 {
        let _ = call!(libc::SYS_close, number);
    }
}

/// Waits for ever.
pub(super) fn stay() -> ! {
    loop {
        // SAFETY: takes nothing.
        unsafe { libc::pause() };
    }
}

/// Ends without ceremony.
pub(super) fn end(code: i32) -> ! {
    // SAFETY: does not return.
    unsafe { libc::_exit(code) }
}

/// Maps a file shared and writable.
pub(super) fn map(file: &OwnedFd, length: usize, writable: bool) -> io::Result<Mapping> {
    let protection = libc::PROT_READ | if writable { libc::PROT_WRITE } else { 0 };
    // SAFETY: the kernel chooses the place.
    let place = unsafe {
        let file = file.as_raw_fd();
        libc::mmap(
            std::ptr::null_mut(),
            length,
            protection,
            libc::MAP_SHARED,
            file,
            0,
        )
    };
    if place == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(Mapping {
        place: place.cast(),
        length,
    })
}

/// A mapping, which stays until the process ends.
pub(super) struct Mapping {
    place: *mut u8,
    length: usize,
}

impl Mapping {
    /// Turns the bits of a byte around; its page must lie in the file.
    pub(super) fn flip(&self, at: usize) {
        if at < self.length {
            // SAFETY: within the mapping. A file cut short meanwhile ends this process alone.
            unsafe {
                let byte = self.place.add(at);
                byte.write_volatile(!byte.read_volatile());
            }
        }
    }
}

/// What a signal does from now on: nothing.
pub(super) fn ignore(signal: i32) {
    // SAFETY: no handler is set.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}
