//! What stands behind a verb.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use innkeeper_test_script::Operation;

use super::{
    attributes, cgroups, devices, exhaustion, files, held, ipc, kernel, keyrings, mounts, network,
    proc, processes,
};

/// Does one operation in the calling process.
pub(super) type Deed = fn(&Arguments<'_>) -> io::Result<After>;

/// What becomes of the process that did it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// It ends.
    End,
    /// It stays for ever, with all that it holds.
    Stay,
}

/// All deeds.
pub(super) fn all() -> impl Iterator<Item = &'static (&'static str, Deed)> {
    [
        files::DEEDS,
        attributes::DEEDS,
        held::DEEDS,
        processes::DEEDS,
        ipc::DEEDS,
        network::DEEDS,
        keyrings::DEEDS,
        exhaustion::DEEDS,
        mounts::DEEDS,
        proc::DEEDS,
        cgroups::DEEDS,
        devices::DEEDS,
        kernel::DEEDS,
    ]
    .into_iter()
    .flatten()
}

/// The deed of a verb.
pub(super) fn find(name: &str) -> Option<Deed> {
    all().find(|(verb, _)| *verb == name).map(|(_, deed)| *deed)
}

/// The arguments of one operation. They fit the verb, so that a number asked for is there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arguments<'a>(&'a Operation);

impl<'a> Arguments<'a> {
    pub(super) fn of(operation: &'a Operation) -> Self {
        Self(operation)
    }

    pub(super) fn bytes(&self, index: usize) -> &'a [u8] {
        self.0.arguments()[index].bytes()
    }

    pub(super) fn text(&self, index: usize) -> String {
        String::from_utf8_lossy(self.bytes(index)).into_owned()
    }

    pub(super) fn path(&self, index: usize) -> &'a Path {
        Path::new(OsStr::from_bytes(self.bytes(index)))
    }

    /// With the zero at its end that the kernel wants.
    pub(super) fn name(&self, index: usize) -> CString {
        CString::new(self.bytes(index)).expect("words hold no zero")
    }

    pub(super) fn number(&self, index: usize) -> i64 {
        self.0.arguments()[index].number().unwrap_or_default()
    }

    /// A number that its verb bounds between 0 and what a length may be.
    pub(super) fn length(&self, index: usize) -> usize {
        usize::try_from(self.number(index)).unwrap_or_default()
    }

    pub(super) fn mode(&self, index: usize) -> u32 {
        self.0.arguments()[index].mode().unwrap_or_default()
    }
}
