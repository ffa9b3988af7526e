//! Directories: opening without following, and their names in order.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, RawDir, openat};
use rustix::io::Errno;

/// Opens a directory by one name in another. Its access time is left alone where the kernel allows.
pub(super) fn open(dir: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(dir, name, how | OFlags::NOATIME, Mode::empty()) {
        // Only an owner or CAP_FOWNER may leave the access time alone.
        Err(Errno::PERM) => openat(dir, name, how, Mode::empty()),
        opened => opened,
    }
}

/// The names of all directories on the way down, in one vector that shrinks on the way back.
#[derive(Default)]
pub(super) struct Names {
    /// Offset and length with the zero byte.
    spans: Vec<(u32, u16)>,
    bytes: Vec<u8>,
    buffer: Vec<MaybeUninit<u8>>,
}

/// The names of one directory: what is left of them, and where its part of the vectors begins.
pub(super) struct Range {
    next: usize,
    end: usize,
    first: usize,
    first_byte: usize,
}

/// One name.
#[derive(Clone, Copy)]
pub(super) struct Name(usize);

impl Names {
    /// Reads all names of a directory but `.` and `..`, sorted by bytes. None when there are too many.
    pub(super) fn list(
        &mut self,
        fd: BorrowedFd<'_>,
        limit: usize,
    ) -> Result<Option<Range>, Errno> {
        let (first, first_byte) = (self.spans.len(), self.bytes.len());
        if self.buffer.is_empty() {
            self.buffer.resize(64 << 10, MaybeUninit::uninit());
        }
        let mut dir = RawDir::new(fd, &mut self.buffer);
        while let Some(entry) = dir.next() {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let (Ok(start), true) = (
                u32::try_from(self.bytes.len()),
                self.spans.len() - first < limit,
            ) else {
                return Ok(None);
            };
            self.spans.push((start, name.count_bytes() as u16 + 1));
            self.bytes.extend_from_slice(name.to_bytes_with_nul());
        }
        let bytes = &self.bytes;
        // With the zero byte at its end a name still sorts as it does without.
        self.spans[first..].sort_unstable_by_key(|(start, len)| {
            &bytes[*start as usize..*start as usize + usize::from(*len)]
        });
        Ok(Some(Range {
            next: first,
            end: self.spans.len(),
            first,
            first_byte,
        }))
    }

    pub(super) fn next(&self, range: &mut Range) -> Option<Name> {
        let name = Some(Name(range.next)).filter(|name| name.0 < range.end)?;
        range.next += 1;
        Some(name)
    }

    pub(super) fn get(&self, name: Name) -> &CStr {
        let (start, len) = self.spans[name.0];
        let bytes = &self.bytes[start as usize..start as usize + usize::from(len)];
        CStr::from_bytes_until_nul(bytes).unwrap_or(c"")
    }

    /// Gives up the names of the innermost directory.
    pub(super) fn forget(&mut self, range: &Range) {
        self.spans.truncate(range.first);
        self.bytes.truncate(range.first_byte);
    }
}
