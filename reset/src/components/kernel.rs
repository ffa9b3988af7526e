//! Kernel state of the sandbox's namespaces that is neither ipc nor network tables.

use std::collections::BTreeMap;

use super::Facts;
use super::network::Scope;

/// Files below `/proc/sys` whose values belong to a namespace (`namespaces(7)`, the kernel's
/// `admin-guide/sysctl`): uts, ipc, and user namespace.
pub const SYSCTLS: [&str; 30] = [
    "fs/mqueue/msg_default",
    "fs/mqueue/msg_max",
    "fs/mqueue/msgsize_default",
    "fs/mqueue/msgsize_max",
    "fs/mqueue/queues_max",
    "kernel/auto_msgmni",
    "kernel/domainname",
    "kernel/hostname",
    "kernel/msg_next_id",
    "kernel/msgmax",
    "kernel/msgmnb",
    "kernel/msgmni",
    "kernel/sem",
    "kernel/sem_next_id",
    "kernel/shm_next_id",
    "kernel/shm_rmid_forced",
    "kernel/shmall",
    "kernel/shmmax",
    "kernel/shmmni",
    "user/max_cgroup_namespaces",
    "user/max_fanotify_groups",
    "user/max_fanotify_marks",
    "user/max_inotify_instances",
    "user/max_inotify_watches",
    "user/max_ipc_namespaces",
    "user/max_mnt_namespaces",
    "user/max_net_namespaces",
    "user/max_pid_namespaces",
    "user/max_user_namespaces",
    "user/max_uts_namespaces",
];

/// Those of the network namespace: read where it is the sandbox's own.
pub const NETWORK_SYSCTLS: [&str; 16] = [
    "net/core/somaxconn",
    "net/ipv4/conf/all/forwarding",
    "net/ipv4/conf/all/rp_filter",
    "net/ipv4/icmp_echo_ignore_all",
    "net/ipv4/ip_default_ttl",
    "net/ipv4/ip_forward",
    "net/ipv4/ip_local_port_range",
    "net/ipv4/ip_local_reserved_ports",
    "net/ipv4/ip_nonlocal_bind",
    "net/ipv4/ip_unprivileged_port_start",
    "net/ipv4/ping_group_range",
    "net/ipv4/tcp_keepalive_time",
    "net/ipv4/tcp_syncookies",
    "net/ipv4/tcp_tw_reuse",
    "net/ipv6/conf/all/disable_ipv6",
    "net/ipv6/conf/all/forwarding",
];

/// Whether what a file says depends on the user namespace of whoever reads it: limits of that
/// namespace, and groups in its numbers.
pub fn depends_on_reader(name: &str) -> bool {
    name.starts_with("user/") || name == "net/ipv4/ping_group_range"
}

/// The names that are read.
pub fn names(scope: Scope) -> impl Iterator<Item = &'static str> {
    let network = NETWORK_SYSCTLS.iter().filter(move |_| scope == Scope::Own);
    SYSCTLS.iter().chain(network).copied()
}

/// Facts of all sysctls; a value of none stands for a file that this kernel does not have. None when
/// one was not read at all.
pub fn facts(values: &BTreeMap<String, Option<String>>, scope: Scope) -> Option<Facts> {
    let mut facts = Facts::new();
    for name in names(scope) {
        let value = values
            .get(name)?
            .as_deref()
            .map(|text| text.trim_end_matches('\n'));
        facts.put(name, value.unwrap_or("no such file"));
    }
    Some(facts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_must_have_been_read() {
        let mut values: BTreeMap<_, _> = names(Scope::Own).map(|n| (n.to_owned(), None)).collect();
        values.insert("kernel/hostname".into(), Some("box\n".into()));
        let found = facts(&values, Scope::Own).expect("complete");
        assert_eq!(found.get("kernel/hostname"), Some("box"));
        values.remove("kernel/sem");
        assert!(facts(&values, Scope::Own).is_none());
    }
}
