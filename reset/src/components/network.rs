//! Interfaces, addresses, routes and sockets of a network namespace.

pub(crate) mod sockets;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::Facts;
use crate::ids::IdMap;
use sockets::{Socket, Tables};

/// Whose network namespace it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scope {
    /// The sandbox's own, made for this generation: everything in it counts.
    Own,
    /// Shared with others: only sockets of the sandbox's ids count. Sockets in TIME_WAIT carry no id
    /// here; whoever shares a namespace has to wait for them or to taint.
    Shared,
}

/// The files below `/proc/PID/net` that are read; one that does not exist is recorded as such.
pub const FILES: [&str; 20] = [
    "arp",
    "dev",
    "fib_trie",
    "icmp",
    "icmp6",
    "if_inet6",
    "ip6_tables_names",
    "ip_tables_names",
    "ipv6_route",
    "packet",
    "raw",
    "raw6",
    "route",
    "tcp",
    "tcp6",
    "udp",
    "udp6",
    "udplite",
    "udplite6",
    "unix",
];

/// Facts of the texts of [`FILES`]. `ephemeral` is the range of `net/ipv4/ip_local_port_range`. None
/// for a text that has not the form that is expected.
pub fn facts(
    texts: &BTreeMap<String, Option<String>>,
    scope: Scope,
    own: impl Fn(u32) -> bool,
    ids: IdMap,
    ephemeral: (u16, u16),
) -> Option<Facts> {
    let mut facts = Facts::new();
    facts.put(
        "namespace",
        if scope == Scope::Own { "own" } else { "shared" },
    );
    for name in FILES {
        let shared_out = scope == Scope::Shared && !Tables::PORTS.contains(&name);
        let Some(text) = texts.get(name)? else {
            facts.put(name, "no such file");
            continue;
        };
        if shared_out {
            continue;
        }
        let lines = match name {
            "dev" => interfaces(text),
            "fib_trie" => local_addresses(text),
            "route" => without_columns(text, 1, &[4, 5]),
            "ipv6_route" => without_columns(text, 0, &[6, 7]),
            "if_inet6" => without_columns(text, 0, &[1]),
            "packet" => without_columns(text, 1, &[0, 1, 5, 6, 8]),
            "unix" => sockets::unix_names(text),
            "arp" => text.lines().skip(1).map(str::to_owned).collect(),
            "ip_tables_names" | "ip6_tables_names" => text.lines().map(str::to_owned).collect(),
            _ => {
                // A closing socket's row carries no owner: the kernel prints 0, which in a
                // shared namespace would count any of the machine's as the guest's root's.
                let counted = |s: &Socket| !s.closing(name) && (scope == Scope::Own || own(s.uid));
                let table = sockets::parse(text)?;
                let kept = table.iter().filter(|s| counted(s));
                kept.map(|s| s.line(name, ids, ephemeral)).collect()
            }
        };
        facts.put_sorted(name, lines);
    }
    Some(facts)
}

/// Tables that need not be read, each with an empty text: those in which the counters of
/// `/proc/net/sockstat` and `sockstat6` count no socket of this namespace. Reading them would take
/// milliseconds, since all namespaces share the kernel's tables.
pub(crate) fn empty_tables(counters: &str) -> Vec<(String, Option<String>)> {
    let empty = |line: &str| {
        let (name, counts) = line.split_once(": ")?;
        let table = name.to_ascii_lowercase();
        let unused = counts.starts_with("inuse 0") && counts.split(' ').nth(1) == Some("0");
        let known = Tables::PORTS.contains(&table.as_str());
        (unused && known).then_some((table, Some(String::new())))
    };
    counters.lines().filter_map(empty).collect()
}

/// Names of interfaces: the part before the colon, from the third line on.
fn interfaces(text: &str) -> Vec<String> {
    let names = text.lines().skip(2).filter_map(|line| line.split_once(':'));
    names.map(|(name, _)| name.trim().to_owned()).collect()
}

/// Addresses that the trie lists as local to this host.
fn local_addresses(text: &str) -> Vec<String> {
    let mut address = "";
    let mut found = BTreeSet::new();
    for line in text.lines().map(str::trim) {
        if let Some(node) = line.strip_prefix("|-- ") {
            address = node;
        } else if line.contains("host LOCAL") {
            found.insert(address.to_owned());
        }
    }
    found.into_iter().collect()
}

/// All lines but the first `skip`, without the columns at these places.
fn without_columns(text: &str, skip: usize, dropped: &[usize]) -> Vec<String> {
    let row = |line: &str| {
        let cells = line.split_whitespace().enumerate();
        let kept: Vec<&str> = cells
            .filter(|(at, _)| !dropped.contains(at))
            .map(|(_, cell)| cell)
            .collect();
        kept.join(" ")
    };
    text.lines().skip(skip).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TCP: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";

    fn texts(rows: &str) -> BTreeMap<String, Option<String>> {
        let mut texts: BTreeMap<String, Option<String>> =
            FILES.map(|name| (name.into(), None)).into();
        texts.insert("tcp".into(), Some(format!("{TCP}{rows}")));
        texts
    }

    fn of(rows: &str, scope: Scope) -> Option<String> {
        let ids = IdMap::at(100_000);
        let own = |uid| ids.inside(uid).is_some();
        let facts = facts(&texts(rows), scope, own, ids, (32768, 60999))?;
        facts.get("tcp").map(str::to_owned)
    }

    const LISTENS: &str = "   0: 0100007F:1538 00000000:0000 0A 00000000:00000000 00:00000000 00000000 100005        0 4242 1 x 100 0\n";
    const WAITS: &str = "   1: 0100007F:1538 0100007F:9C40 06 00000000:00000000 03:00000000 00000000     0        0 0 3 x\n";
    const TALKS: &str = "   2: 0100007F:9C41 0100007F:1538 01 00000000:00000000 00:00000000 00000000 100005        0 4243 1 x\n";

    #[test]
    fn sockets_in_words() {
        let listens = "127.0.0.1:5432 to 0.0.0.0:0 state 0A uid 5";
        assert_eq!(of(LISTENS, Scope::Own).as_deref(), Some(listens));
        assert_eq!(
            of(&format!("{LISTENS}{WAITS}"), Scope::Own).as_deref(),
            Some(listens)
        );
        let talks = "127.0.0.1:ephemeral to 127.0.0.1:5432 state 01 uid 5";
        assert_eq!(of(TALKS, Scope::Own).as_deref(), Some(talks));
    }

    #[test]
    fn of_a_shared_namespace_only_own_sockets_count() {
        let foreign = LISTENS.replace("100005", "33");
        assert_eq!(of(&foreign, Scope::Shared).as_deref(), Some(""));
        assert_ne!(of(LISTENS, Scope::Shared).as_deref(), Some(""));
        assert_ne!(of(&foreign, Scope::Own).as_deref(), Some(""));
    }

    #[test]
    fn a_missing_text_is_no_fact() {
        let none = facts(
            &BTreeMap::new(),
            Scope::Own,
            |_| true,
            IdMap::CANONICAL,
            (1, 2),
        );
        assert!(none.is_none());
        assert!(of("nonsense\n", Scope::Own).is_none());
    }

    #[test]
    fn only_tables_without_a_socket_need_no_reading() {
        let counters = "sockets: used 3\nTCP: inuse 0 orphan 0 tw 2\nUDP: inuse 10 mem 0\n\
            RAW: inuse 0\nFRAG: inuse 0 memory 0\nTCP6: inuse 1\nUDPLITE6: inuse 0\n";
        let names: Vec<_> = empty_tables(counters)
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(names, ["tcp", "raw", "udplite6"]);
    }

    #[test]
    fn local_addresses_come_from_the_trie() {
        let trie = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 127.0.0.0\n        /8 host LOCAL\n     |-- 127.0.0.1\n        /32 host LOCAL\n     |-- 127.255.255.255\n        /32 link BROADCAST\n";
        assert_eq!(local_addresses(trie), ["127.0.0.0", "127.0.0.1"]);
    }
}
