//! Which sockets listen, by inode.

use std::collections::{BTreeMap, BTreeSet};

use super::proc_dir::{ObserveError, ProcDir};
use crate::components::network::sockets;

/// The listening sockets of one network namespace. The kernel's tables of TCP are shared by all
/// namespaces and take milliseconds to read, so this is made once for all processes of a sandbox.
#[derive(Debug)]
pub(super) struct Listeners(BTreeMap<u64, String>);

impl Listeners {
    /// Reads the tables of the namespace of the process whose directory this is.
    pub(super) fn read(process: &ProcDir) -> Result<Self, ObserveError> {
        let mut found = BTreeMap::new();
        for table in ["tcp", "tcp6", "udp", "udp6", "raw", "raw6"] {
            let path = format!("net/{table}");
            let Some(text) = process.text_if_there(&path)? else {
                continue;
            };
            let rows = sockets::parse(&text).ok_or(ObserveError::Form { path })?;
            let listening = rows.iter().filter(|socket| socket.listens(table));
            found.extend(listening.map(|socket| (socket.inode, socket.place(table))));
        }
        if let Some(text) = process.text_if_there("net/unix")? {
            let listening = sockets::unix(&text).filter(|socket| socket.listens());
            found.extend(listening.map(|socket| (socket.inode, socket.place())));
        }
        Ok(Listeners(found))
    }

    /// Those among these sockets, sorted.
    pub(super) fn among(&self, open: &BTreeSet<u64>) -> Vec<String> {
        let places: BTreeSet<&String> = open.iter().filter_map(|inode| self.0.get(inode)).collect();
        places.into_iter().cloned().collect()
    }
}
