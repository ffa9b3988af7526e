//! Data on its way into a sandbox: frames of a length (4 bytes, little endian) and as many
//! bytes, and an empty frame at the end. A pipe alone cannot tell the end of the data from
//! a sender that died.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;

/// Head of a frame of `length` bytes.
pub fn head(length: u32) -> [u8; 4] {
    length.to_le_bytes()
}

/// The last frame.
pub const END: [u8; 4] = [0; 4];

/// Reads the payload of frames. A pipe that ends before the last frame is an error of kind
/// `UnexpectedEof`.
#[derive(Debug)]
pub struct Frames {
    pipe: File,
    left: usize,
    ended: bool,
}

impl Frames {
    /// Frames from a pipe.
    pub fn new(pipe: OwnedFd) -> Self {
        Self {
            pipe: File::from(pipe),
            left: 0,
            ended: false,
        }
    }

    /// Reads and drops what is left, up to the last frame.
    ///
    /// # Errors
    /// As reading.
    pub fn finish(&mut self) -> io::Result<()> {
        let mut buffer = [0; 64 * 1024];
        while self.read(&mut buffer)? > 0 {}
        Ok(())
    }
}

impl Read for Frames {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.ended || buffer.is_empty() {
            return Ok(0);
        }
        if self.left == 0 {
            let mut length = [0; 4];
            self.pipe.read_exact(&mut length)?;
            self.left = u32::from_le_bytes(length) as usize;
            if self.left == 0 {
                self.ended = true;
                return Ok(0);
            }
        }
        let wanted = buffer.len().min(self.left);
        let got = self.pipe.read(&mut buffer[..wanted])?;
        if got == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= got;
        Ok(got)
    }
}
