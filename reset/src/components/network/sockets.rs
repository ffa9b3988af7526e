//! The kernel's tables of sockets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::ids::IdMap;
use crate::noise;

/// Which tables there are.
pub(crate) struct Tables;

impl Tables {
    /// Tables of sockets with an address and a port (or a protocol number in its place).
    pub(crate) const PORTS: [&'static str; 10] = [
        "icmp", "icmp6", "raw", "raw6", "tcp", "tcp6", "udp", "udp6", "udplite", "udplite6",
    ];
}

/// One row of `/proc/net/tcp` and its kin (`proc_net_tcp(5)`).
pub(crate) struct Socket {
    local: (IpAddr, u16),
    remote: (IpAddr, u16),
    state: String,
    pub(crate) uid: u32,
    pub(crate) inode: u64,
}

impl Socket {
    pub(crate) fn listens(&self, table: &str) -> bool {
        match table.starts_with("tcp") {
            true => self.state == noise::LISTEN,
            // An unconnected socket of the others takes from anyone who sends.
            false => self.remote.0.is_unspecified(),
        }
    }

    pub(crate) fn closing(&self, table: &str) -> bool {
        table.starts_with("tcp") && noise::CLOSING.contains(&self.state.as_str())
    }

    pub(crate) fn line(&self, table: &str, ids: IdMap, ephemeral: (u16, u16)) -> String {
        let exact = table.starts_with("tcp") && self.listens(table);
        let end = |(address, port): (IpAddr, u16)| {
            format!(
                "{}:{}",
                bracketed(address),
                noise::port(port, ephemeral, exact)
            )
        };
        let uid = noise::id_in_range(ids, self.uid);
        format!(
            "{} to {} state {} uid {uid}",
            end(self.local),
            end(self.remote),
            self.state
        )
    }

    /// Where it can be reached, for a process's list of listeners.
    pub(crate) fn place(&self, table: &str) -> String {
        format!("{table} {}:{}", bracketed(self.local.0), self.local.1)
    }
}

fn bracketed(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

/// All rows but the heading. None for one that has not the form.
pub(crate) fn parse(text: &str) -> Option<Vec<Socket>> {
    text.lines().skip(1).map(row).collect()
}

fn row(line: &str) -> Option<Socket> {
    let cells: Vec<&str> = line.split_whitespace().collect();
    let cell = |at: usize| cells.get(at).copied();
    Some(Socket {
        local: end(cell(1)?)?,
        remote: end(cell(2)?)?,
        state: cell(3)?.to_owned(),
        uid: cell(7)?.parse().ok()?,
        inode: cell(9)?.parse().ok()?,
    })
}

/// Address and port in hexadecimal; an address is printed as words of 32 bits of the host's order.
fn end(text: &str) -> Option<(IpAddr, u16)> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| {
        let digits = address.get(at * 8..at * 8 + 8)?;
        u32::from_str_radix(digits, 16).ok().map(u32::to_ne_bytes)
    };
    let address = match address.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for (at, four) in bytes.chunks_exact_mut(4).enumerate() {
                four.copy_from_slice(&word(at)?);
            }
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    Some((address, port))
}

/// A unix socket that has a name: a row of `/proc/net/unix`.
pub(crate) struct Unix<'a> {
    kind: &'a str,
    flags: &'a str,
    state: &'a str,
    pub(crate) inode: u64,
    name: &'a str,
}

impl Unix<'_> {
    /// Bit of the flags for a socket that listens (`__SO_ACCEPTCON`).
    pub(crate) fn listens(&self) -> bool {
        u32::from_str_radix(self.flags, 16).is_ok_and(|flags| flags & 0x10000 != 0)
    }

    /// A connection carries the name of its listener (`SS_CONNECTED` of a stream).
    fn is_connection(&self) -> bool {
        self.state == "03" && self.kind != "0002"
    }

    pub(crate) fn place(&self) -> String {
        format!("unix {}", noise::unix_name(self.name))
    }
}

/// All unix sockets that have a name.
pub(crate) fn unix(text: &str) -> impl Iterator<Item = Unix<'_>> {
    text.lines().skip(1).filter_map(|line| {
        let mut cells = line.split_whitespace();
        let [_num, _refs, _protocol, flags, kind, state, inode] =
            std::array::from_fn(|_| cells.next());
        let (flags, kind, state, inode) = (flags?, kind?, state?, inode?);
        // A name may hold blanks: it is all that follows the inode number.
        let after = line
            .find(&format!(" {inode} "))
            .map(|at| at + inode.len() + 2)?;
        Some(Unix {
            kind,
            flags,
            state,
            inode: inode.parse().ok()?,
            name: line.get(after..)?,
        })
    })
}

/// Names of unix sockets, each once: connections to a listener carry its name too, in numbers that
/// depend on who talks at the moment.
pub(super) fn unix_names(text: &str) -> Vec<String> {
    let named = unix(text).filter(|socket| !socket.is_connection());
    let line = |s: Unix<'_>| {
        format!(
            "type {} flags {} {}",
            s.kind,
            s.flags,
            noise::unix_name(s.name)
        )
    };
    let mut lines: Vec<String> = named.map(line).collect();
    lines.sort();
    lines.dedup();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        assert_eq!(
            end("0100007F:0016"),
            Some(("127.0.0.1".parse().unwrap(), 22))
        );
        let v6 = end("00000000000000000000000001000000:0050");
        assert_eq!(v6, Some(("::1".parse().unwrap(), 80)));
        assert_eq!(end("01:0016"), None);
    }

    #[test]
    fn unix_sockets() {
        let table = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000: 00000002 00000000 00010000 0001 01 20 /run/a b\n\
            0000: 00000003 00000000 00000000 0001 03 21\n\
            0000: 00000003 00000000 00000000 0001 03 22 /run/a b\n\
            0000: 00000002 00000000 00000000 0002 01 23 @00a1f\n\
            0000: 00000002 00000000 00000000 0002 01 24 /dev/log\n";
        let names = [
            "type 0001 flags 00010000 /run/a b",
            "type 0002 flags 00000000 /dev/log",
            "type 0002 flags 00000000 @autobound",
        ];
        assert_eq!(unix_names(table), names);
    }
}
