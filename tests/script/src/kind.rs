//! Kinds of operations: what a run must have covered.

use std::fmt;

/// What an operation works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Making, changing, moving and removing files of every type.
    Files,
    /// Modes, owners, times, extended attributes, access lists, flags.
    Attributes,
    /// What holds on to files: mappings, descriptors of deleted files, locks, watches.
    Held,
    /// Processes that do not want to end.
    Processes,
    /// System V and POSIX objects.
    Ipc,
    /// Sockets, listeners, interfaces.
    Network,
    /// Kernel keyrings.
    Keyrings,
    /// Disk, inodes, memory, processes and descriptors used up.
    Exhaustion,
    /// Mounting, unmounting, other roots.
    Mounts,
    /// Writing where /proc and /sys let one.
    Proc,
    /// Control groups.
    Cgroups,
    /// Device nodes and terminals.
    Devices,
    /// Namespaces, host names and other calls that change the kernel's mind.
    Kernel,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 13] = [
        Kind::Files,
        Kind::Attributes,
        Kind::Held,
        Kind::Processes,
        Kind::Ipc,
        Kind::Network,
        Kind::Keyrings,
        Kind::Exhaustion,
        Kind::Mounts,
        Kind::Proc,
        Kind::Cgroups,
        Kind::Devices,
        Kind::Kernel,
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Files => "files",
            Kind::Attributes => "attributes",
            Kind::Held => "held",
            Kind::Processes => "processes",
            Kind::Ipc => "ipc",
            Kind::Network => "network",
            Kind::Keyrings => "keyrings",
            Kind::Exhaustion => "exhaustion",
            Kind::Mounts => "mounts",
            Kind::Proc => "proc",
            Kind::Cgroups => "cgroups",
            Kind::Devices => "devices",
            Kind::Kernel => "kernel",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
