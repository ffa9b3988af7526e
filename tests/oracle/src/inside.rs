//! All that a guest can observe.
//!
//! Nothing is left out because it would be noise: what fresh sandboxes differ in is for
//! [`crate::Noise`] to find. What cannot be read is recorded with its error.

mod clocks;
mod host;
mod own;

use std::os::fd::AsFd;

use rustix::fs::{CWD, Mode, OFlags};

use crate::files::{self, Walk};
use crate::ids::Ids;
use crate::{Depth, Record, ipc, mounts, processes, tables, tree};

/// Trees that are no files of the sandbox but views of the kernel; each is read in its own way.
const VIEWS: [&str; 2] = ["/proc", "/sys"];

/// Observes from the process that calls this, which becomes the subject `process self`.
pub fn observe(depth: Depth) -> Record {
    let mut record = Record::new();
    // First what the observation itself moves.
    clocks::observe(&mut record);
    own::observe(&mut record);
    mounts::observe(&mut record, "/proc/self/mountinfo");
    mounts::space(&mut record, "/proc/self/mountinfo", "");
    processes::observe(&mut record, "/proc", &processes::named("/proc"), Ids::SAME);
    tables::observe(&mut record, "/proc/self/net");
    host::observe(&mut record);
    ipc::observe(&mut record);
    tree::observe(&mut record, "sysctl", "/proc/sys");
    tree::observe(&mut record, "cgroup", "/sys/fs/cgroup");
    tree::names(&mut record, "sys", "/sys", 3);
    match rustix::fs::openat(CWD, "/", OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
        Ok(root) => files::observe(
            &mut record,
            root.as_fd(),
            &Walk {
                depth,
                kind: "file",
                views: &VIEWS,
                ids: Ids::SAME,
            },
        ),
        Err(errno) => record.put("file /", "type", crate::text::error(errno)),
    }
    record
}
