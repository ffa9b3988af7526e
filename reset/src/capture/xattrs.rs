//! Extended attributes in the guest's view: sorted, ids shifted, the overlay's own left out.

use std::ffi::CStr;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use super::entry::Buffers;
use super::{Options, View};
use crate::ids::IdMap;
use crate::sys;

/// Attributes by which an overlay remembers where a copy came from: they hold file handles and counts
/// that no two uppers share, and show nothing to the guest. The others (`opaque`, `redirect`,
/// `metacopy`, `whiteout`, `protattr`) count in a raw upper.
const OVERLAY_NOISE: [&[u8]; 5] = [b"origin", b"impure", b"nlink", b"upper", b"uuid"];

/// What stands for a file capability that belongs to another user namespace and that the kernel does
/// not show from here.
const FOREIGN_CAPABILITY: &[u8] = b"of another user namespace";

pub(super) type Xattrs = Vec<(Vec<u8>, Vec<u8>)>;

pub(super) fn read(
    dir: BorrowedFd<'_>,
    name: &CStr,
    options: &Options<'_>,
    buffers: &mut Buffers,
) -> Result<Xattrs, (&'static str, Errno)> {
    let Buffers { list, value, .. } = buffers;
    sys::list_xattrs(dir, name, list).map_err(|e| ("list extended attributes of", e))?;
    let mut xattrs = Xattrs::new();
    for attribute in list.split_inclusive(|b| *b == 0) {
        let Ok(attribute) = CStr::from_bytes_with_nul(attribute) else {
            continue;
        };
        if hidden(attribute.to_bytes(), options.view) {
            continue;
        }
        let bytes = attribute.to_bytes();
        let found = match sys::get_xattr(dir, name, attribute, value) {
            Ok(()) => canonical(bytes, value, options.ids),
            Err(Errno::OVERFLOW) if bytes == b"security.capability" => FOREIGN_CAPABILITY.to_vec(),
            Err(e) => return Err(("read an extended attribute of", e)),
        };
        xattrs.push((bytes.to_vec(), found));
    }
    xattrs.sort();
    Ok(xattrs)
}

fn hidden(name: &[u8], view: View) -> bool {
    match (
        view,
        name.strip_prefix(b"trusted.overlay."),
        name.strip_prefix(b"user.overlay."),
    ) {
        (View::Merged, Some(_), _) => true,
        (View::Merged, None, _) => false,
        (View::Upper, Some(own), _) | (View::Upper, None, Some(own)) => {
            OVERLAY_NOISE.contains(&own)
        }
        (View::Upper, None, None) => false,
    }
}

/// The value as a guest reads it: ids in access lists and in file capabilities are shifted.
fn canonical(name: &[u8], value: &[u8], ids: IdMap) -> Vec<u8> {
    match name {
        b"system.posix_acl_access" | b"system.posix_acl_default" => acl(value, ids),
        b"security.capability" => capability(value, ids),
        _ => value.to_vec(),
    }
}

/// `linux/posix_acl_xattr.h`: version (4), then per entry tag (2), permissions (2), id (4).
fn acl(value: &[u8], ids: IdMap) -> Vec<u8> {
    const USER: u16 = 0x02;
    const GROUP: u16 = 0x08;
    let mut shifted = value.to_vec();
    for entry in shifted.get_mut(4..).unwrap_or_default().chunks_exact_mut(8) {
        let tag = u16::from_le_bytes([entry[0], entry[1]]);
        if tag == USER || tag == GROUP {
            let id = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
            entry[4..].copy_from_slice(&ids.shown(id).to_le_bytes());
        }
    }
    shifted
}

/// `linux/capability.h`: revision 3 is revision 2 with the id of the owning namespace's root behind it.
/// A guest whose own root that is sees revision 2.
fn capability(value: &[u8], ids: IdMap) -> Vec<u8> {
    const V2: usize = 20;
    const V3: usize = 24;
    let mut shown = value.to_vec();
    if value.len() == V3 && value[3] == 3 {
        let root = u32::from_le_bytes([value[20], value[21], value[22], value[23]]);
        match ids.inside(root) {
            Some(0) => {
                shown.truncate(V2);
                shown[3] = 2;
            }
            Some(id) => shown[20..].copy_from_slice(&id.to_le_bytes()),
            None => shown = FOREIGN_CAPABILITY.to_vec(),
        }
    } else if value.len() == V2 && ids.base != 0 {
        // The host's root, not the guest's: it grants nothing inside, and does not show there.
        shown = FOREIGN_CAPABILITY.to_vec();
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_overlays_own_attributes_are_hidden() {
        assert!(hidden(b"trusted.overlay.opaque", View::Merged));
        assert!(!hidden(b"trusted.overlay.opaque", View::Upper));
        assert!(!hidden(b"user.overlay.redirect", View::Upper));
        assert!(hidden(b"trusted.overlay.origin", View::Upper));
        assert!(!hidden(b"trusted.overlayish", View::Merged));
        assert!(!hidden(b"user.overlay.opaque", View::Merged));
    }

    #[test]
    fn ids_in_access_lists_are_shifted() {
        let list = |id: u32| [&[2, 0, 0, 0, 2, 0, 6, 0][..], &id.to_le_bytes()].concat();
        assert_eq!(acl(&list(1_000_033), IdMap::at(1_000_000)), list(33));
        assert_eq!(acl(&list(33), IdMap::CANONICAL), list(33));
        assert_eq!(acl(b"\x02", IdMap::CANONICAL), b"\x02");
    }

    #[test]
    fn a_capability_of_the_guests_root_is_a_plain_one() {
        let mut v2 = vec![1, 0, 0, 2];
        v2.extend([7; 16]);
        let mut v3 = vec![1, 0, 0, 3];
        v3.extend([7; 16]);
        v3.extend(1_000_000_u32.to_le_bytes());
        assert_eq!(capability(&v3, IdMap::at(1_000_000)), v2);
        assert_eq!(capability(&v2, IdMap::CANONICAL), v2);
        assert_eq!(capability(&v3, IdMap::at(2_000_000)), FOREIGN_CAPABILITY);
        assert_eq!(capability(&v2, IdMap::at(1_000_000)), FOREIGN_CAPABILITY);
    }
}
