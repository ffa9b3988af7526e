//! Verbs that work on files.

use crate::Kind::{Attributes, Files, Held};
use crate::Shape::{Directory, Fresh, Mode, Number, OneOf, Path, Text};
use crate::Verb;
use crate::verb::verb;

const SIZE: crate::Shape = Number(0, 1 << 20);
const PLACE: crate::Shape = Number(0, 1 << 24);
const ID: crate::Shape = Number(0, 65_535);
/// The kernel's name for "leave it" too.
const TIME: crate::Shape = Number(-(1 << 31), 1 << 33);
const NANOSECONDS: crate::Shape = Number(0, 999_999_999);

const XATTRS: crate::Shape = OneOf(&[
    "user.a",
    "user.overlay.opaque",
    "user.overlay.redirect",
    "user.overlay.metacopy",
    "trusted.a",
    "trusted.overlay.opaque",
    "trusted.overlay.redirect",
    "security.a",
    "security.capability",
    "security.selinux",
    "system.posix_acl_access",
]);

#[rustfmt::skip]
pub(super) const VERBS: &[Verb] = &[
    verb("write", Files, &[Fresh, SIZE]),
    verb("overwrite", Files, &[Path, PLACE, SIZE]),
    verb("append", Files, &[Path, SIZE]),
    verb("truncate", Files, &[Path, PLACE]),
    verb("sparse", Files, &[Fresh, Number(0, 1 << 40)]),
    verb("punch", Files, &[Path, PLACE, Number(1, 1 << 20)]),
    verb("allocate", Files, &[Fresh, SIZE]),
    verb("read", Files, &[Path]),
    verb("mkdir", Files, &[Fresh, Mode]),
    verb("rmdir", Files, &[Directory]),
    verb("unlink", Files, &[Path]),
    verb("remove-tree", Files, &[Directory]),
    verb("rename", Files, &[Path, Fresh]),
    verb("replace", Files, &[Path, Path]),
    verb("exchange", Files, &[Path, Path]),
    verb("whiteout", Files, &[Path, Fresh]),
    verb("move-directory", Files, &[Directory, Fresh]),
    verb("hardlink", Files, &[Path, Fresh]),
    verb("symlink", Files, &[Path, Fresh]),
    verb("retarget", Files, &[Path, Fresh]),
    verb("fifo", Files, &[Fresh, Mode]),
    verb("socket-file", Files, &[Fresh]),
    verb("copy", Files, &[Path, Fresh]),
    verb("clone", Files, &[Path, Fresh]),
    verb("tmpfile", Files, &[Directory, Fresh]),
    verb("deep", Files, &[Directory, Number(1, 200)]),
    verb("many", Files, &[Directory, Number(1, 500)]),
    verb("same-size", Files, &[Path]),
    verb("chmod", Attributes, &[Path, Mode]),
    verb("chmod-directory", Attributes, &[Directory, Mode]),
    verb("chown", Attributes, &[Path, ID, ID]),
    verb("chown-directory", Attributes, &[Directory, ID, ID]),
    verb("times", Attributes, &[Path, TIME, NANOSECONDS]),
    verb("times-directory", Attributes, &[Directory, TIME, NANOSECONDS]),
    verb("setxattr", Attributes, &[Path, XATTRS, Text]),
    verb("setxattr-directory", Attributes, &[Directory, XATTRS, Text]),
    verb("removexattr", Attributes, &[Path, XATTRS]),
    verb("capability", Attributes, &[Path, Number(0, 40)]),
    verb("acl", Attributes, &[Path, ID, Number(0, 7)]),
    verb("default-acl", Attributes, &[Directory, ID, Number(0, 7)]),
    verb("flags", Attributes, &[Path, OneOf(&["i", "a", "d", "A", "S", "s", "u", "c", "ia"])]),
    verb("flags-directory", Attributes, &[Directory, OneOf(&["i", "a", "d", "A", "T", "D"])]),
    verb("project", Attributes, &[Path, Number(0, 1000)]),
    verb("map-store", Held, &[Path, Number(0, 65_535)]),
    verb("map-keep", Held, &[Path]),
    verb("keep-open", Held, &[Path]),
    verb("keep-deleted", Held, &[Fresh, SIZE]),
    verb("keep-directory", Held, &[Directory]),
    verb("keep-working-in", Held, &[Directory]),
    verb("keep-root-in", Held, &[Directory]),
    verb("lock", Held, &[Path]),
    verb("range-lock", Held, &[Path]),
    verb("file-lease", Held, &[Path]),
    verb("watch", Held, &[Path]),
    verb("watch-mounts", Held, &[Directory]),
    verb("keep-executing", Held, &[Fresh]),
    verb("keep-writing", Held, &[Fresh]),
];
