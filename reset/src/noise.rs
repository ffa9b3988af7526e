//! All noise in one place: what is left out of the facts or made the same, and why.
//!
//! Noise is what two fresh sandboxes of one template differ in. Anything that is not listed here is
//! compared as it is. For files see [`crate::tree`]: no device and inode numbers, no change, birth and
//! access times, no size and link count of directories.

use crate::components::Component;
use crate::ids::IdMap;

/// One kind of noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Noise {
    /// Where it is.
    pub component: Component,
    /// What is left out or made the same.
    pub what: &'static str,
    /// Why it says nothing.
    pub why: &'static str,
}

const fn noise(component: Component, what: &'static str, why: &'static str) -> Noise {
    Noise {
        component,
        what,
        why,
    }
}

/// The whole list.
pub const LIST: [Noise; 15] = [
    noise(
        Component::Mounts,
        "mount and parent ids, peer group numbers",
        "counted up by the kernel",
    ),
    noise(
        Component::Mounts,
        "minor device numbers",
        "counted up per anonymous file system",
    ),
    noise(
        Component::Mounts,
        "layer directories of an overlay",
        "the store's names; layers are compared apart",
    ),
    noise(
        Component::Mounts,
        "uid= and gid= within the range of ids",
        "ranges differ; shown as inside",
    ),
    noise(
        Component::Ipc,
        "ids, pids and times of System V objects",
        "given out in order of creation",
    ),
    noise(
        Component::Network,
        "packet counters, queues, timers, reference counts",
        "traffic of services",
    ),
    noise(
        Component::Network,
        "socket inodes and addresses",
        "counted up by the kernel",
    ),
    noise(
        Component::Network,
        "ephemeral ports of sockets that do not listen",
        "drawn at random",
    ),
    noise(
        Component::Network,
        "closing TCP sockets in an own namespace",
        "left by readiness probes",
    ),
    noise(
        Component::Network,
        "unix sockets without a name, autobound names",
        "drawn at random",
    ),
    noise(
        Component::Network,
        "interfaces, routes and others' sockets in a shared namespace",
        "not the sandbox's",
    ),
    noise(
        Component::Processes,
        "pids, start times, process groups, cpu time, memory",
        "differ in every start",
    ),
    noise(
        Component::Processes,
        "caught and pending signals, threads",
        "set as a service goes along",
    ),
    noise(
        Component::Processes,
        "order of processes",
        "they are compared sorted",
    ),
    noise(
        Component::Limits,
        "usage counters of control groups",
        "not limits",
    ),
];

/// Options of an overlay that name directories of the store.
const LAYER_OPTIONS: [&str; 7] = [
    "lowerdir",
    "lowerdir+",
    "datadir+",
    "upperdir",
    "workdir",
    "lowerdir-",
    "datadir",
];

/// One mount option without noise; none when all of it is.
pub(crate) fn mount_option(file_system: &str, option: &str, ids: IdMap) -> Option<String> {
    let Some((name, value)) = option.split_once('=') else {
        return Some(option.to_owned());
    };
    if file_system == "overlay" && LAYER_OPTIONS.contains(&name) {
        return None;
    }
    match (name, value.parse()) {
        ("uid" | "gid", Ok(id)) => Some(format!("{name}={}", id_in_range(ids, id))),
        (_, Ok(_) | Err(_)) => Some(option.to_owned()),
    }
}

/// An id of the range as inside; any other as it is.
pub(crate) fn id_in_range(ids: IdMap, id: u32) -> u32 {
    ids.inside(id).unwrap_or(id)
}

/// An optional field of mountinfo without the number of its peer group.
pub(crate) fn propagation(field: &str) -> &str {
    field.split_once(':').map_or(field, |(kind, _)| kind)
}

/// TCP states (`net/tcp_states.h`) in which one side has closed: FIN_WAIT1, FIN_WAIT2, TIME_WAIT,
/// CLOSE_WAIT, LAST_ACK, CLOSING.
pub(crate) const CLOSING: [&str; 6] = ["04", "05", "06", "08", "09", "0B"];

/// TCP's LISTEN.
pub(crate) const LISTEN: &str = "0A";

/// A port in words: `ephemeral` for one that the kernel may have drawn, unless it listens.
pub(crate) fn port(port: u16, ephemeral: (u16, u16), listens: bool) -> String {
    if !listens && (ephemeral.0..=ephemeral.1).contains(&port) {
        "ephemeral".to_owned()
    } else {
        port.to_string()
    }
}

/// A name of a unix socket; five hexadecimal digits behind the @ are the kernel's choice.
pub(crate) fn unix_name(name: &str) -> &str {
    let digits = name.strip_prefix('@').unwrap_or_default();
    let autobound = digits.len() == 5 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    if autobound { "@autobound" } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_options() {
        let ids = IdMap::at(100_000);
        let option = |fs, text| mount_option(fs, text, ids);
        assert_eq!(option("overlay", "upperdir=/u"), None);
        assert_eq!(
            option("overlay", "redirect_dir=on"),
            Some("redirect_dir=on".into())
        );
        assert_eq!(option("devpts", "gid=100005"), Some("gid=5".into()));
        assert_eq!(option("tmpfs", "size=64k"), Some("size=64k".into()));
        assert_eq!(option("tmpfs", "upperdir=/u"), Some("upperdir=/u".into()));
        assert_eq!(propagation("shared:12"), "shared");
    }

    #[test]
    fn ports_and_names() {
        let range = (32768, 60999);
        assert_eq!(port(40000, range, false), "ephemeral");
        assert_eq!(port(40000, range, true), "40000");
        assert_eq!(port(80, range, false), "80");
        assert_eq!(unix_name("@0001f"), "@autobound");
        assert_eq!(unix_name("/run/x"), "/run/x");
        assert_eq!(unix_name("@dbus5"), "@dbus5");
    }
}
