//! Whether sandboxes of a template start with a copy of the work directory in their upper:
//! decided once, in its prepare, and then done in every one of them or in none.

use std::os::fd::AsFd;
use std::sync::Arc;

use innkeeper_proto::v1::TemplateSpec;
use innkeeper_reset::files;
use innkeeper_reset::tree::Tree;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, StatxFlags, statx};

use super::{TemplateError, upper_kind};
use crate::sandbox::{Machine, Sandbox, upper};

/// What is copied unasked: some 60 ms of every build, and that much of its memory.
const AUTO: Size = Size {
    bytes: 96 << 20,
    entries: 20_000,
};

/// How much a directory holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Size {
    bytes: u64,
    entries: u64,
}

impl Size {
    fn fits(self, room: Size) -> bool {
        self.bytes <= room.bytes && self.entries <= room.entries
    }
}

/// The directory to copy, if one is to be. Looks at the sandbox of a finished prepare.
///
/// # Errors
/// [`TemplateError::Invalid`] where it was asked for and cannot be.
pub(super) fn decide(
    machine: &Machine,
    spec: &TemplateSpec,
    sandbox: &Sandbox,
) -> Result<Option<Vec<u8>>, TemplateError> {
    let wish = spec.workdir_copy.as_str();
    if wish == "yes" && machine.is_own_image() {
        return Err(TemplateError::Invalid(
            "workdir_copy: yes is not to be had where the image is a pod's own root: leave it out, or use the strategy layered"
                .to_owned(),
        ));
    }
    if wish == "no" || !machine.copies_workdir() {
        return Ok(None);
    }
    let path = spec.workdir.trim_matches('/');
    let room = room(spec)?;
    let limit = if wish == "yes" {
        room
    } else {
        smaller(room, AUTO)
    };
    let fits = !path.is_empty() && measure(sandbox, path, limit).is_some();
    match (fits, wish) {
        (true, _) => Ok(Some(path.as_bytes().to_vec())),
        (false, "yes") => Err(TemplateError::Invalid(format!(
            "workdir_copy: yes needs a workdir that is a directory, reached by no link, and of at most half the sandbox's disk; {:?} is not",
            spec.workdir
        ))),
        (false, _) => Ok(None),
    }
}

/// The upper that sandboxes of this tree start with, if it is not empty.
///
/// # Errors
/// [`TemplateError::Capture`] where the tree cannot have been captured over such an upper.
pub(super) fn prefilled(
    tree: &Tree,
    copied: Option<&[u8]>,
) -> Result<Option<Arc<Tree>>, TemplateError> {
    let Some(path) = copied else { return Ok(None) };
    match files::prefilled(tree, path) {
        Ok(Some(upper)) => Ok(Some(Arc::new(upper))),
        Ok(None) => Err(TemplateError::Capture(
            "the copied work directory is not among its files".to_owned(),
        )),
        Err(error) => Err(TemplateError::Capture(error.to_string())),
    }
}

/// Half of the upper.
fn room(spec: &TemplateSpec) -> Result<Size, TemplateError> {
    Ok(match upper_kind(spec)? {
        upper::Kind::Memory { bytes, inodes } | upper::Kind::Image { bytes, inodes } => Size {
            bytes: bytes / 2,
            entries: inodes / 2,
        },
        upper::Kind::Disk => Size {
            bytes: u64::MAX,
            entries: u64::MAX,
        },
    })
}

fn smaller(a: Size, b: Size) -> Size {
    Size {
        bytes: a.bytes.min(b.bytes),
        entries: a.entries.min(b.entries),
    }
}

/// How much lies in a directory; none where it is more than the limit, or no such directory.
fn measure(sandbox: &Sandbox, path: &str, limit: Size) -> Option<Size> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let how = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let root = rustix::fs::openat2(&sandbox.overlay, path, flags, Mode::empty(), how).ok()?;
    let mut size = Size::default();
    let mut left = vec![root];
    while let Some(directory) = left.pop() {
        for entry in Dir::read_from(&directory).ok()? {
            let entry = entry.ok()?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let wanted = StatxFlags::SIZE | StatxFlags::TYPE | StatxFlags::BLOCKS;
            let stat = statx(directory.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW, wanted).ok()?;
            size.entries += 1;
            size.bytes += stat.stx_blocks * 512;
            if !size.fits(limit) {
                return None;
            }
            if FileType::from_raw_mode(u32::from(stat.stx_mode)).is_dir() {
                let flags = flags | OFlags::NOFOLLOW;
                left.push(rustix::fs::openat(&directory, name, flags, Mode::empty()).ok()?);
            }
        }
    }
    Some(size)
}
