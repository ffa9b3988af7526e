//! What belongs to namespaces and shows only to who is in them: names, System V IPC, sysctls.

use std::fs::File;
use std::os::fd::AsFd;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::text::{error, escaped};
use crate::{Record, ipc, tree};

/// Parts of /proc/sys that show the namespaces of the reader.
const SYSCTLS: [&str; 3] = ["/proc/sys/kernel", "/proc/sys/net", "/proc/sys/fs/mqueue"];

/// Records them for the namespaces of a process. A thread of its own enters and ends there.
pub(super) fn observe(record: &mut Record, base: &str) {
    let seen = std::thread::scope(|scope| {
        let entered = scope.spawn(|| {
            let mut record = Record::new();
            match enter(base) {
                Ok(()) => look(&mut record),
                Err(why) => record.put("namespaces", "entered", why),
            }
            record
        });
        entered.join()
    });
    match seen {
        Ok(seen) => record.take(seen),
        Err(_) => record.put("namespaces", "entered", "the observer broke off"),
    }
}

fn enter(base: &str) -> Result<(), String> {
    for (name, kind) in [
        ("ipc", LinkNameSpaceType::InterProcessCommunication),
        ("uts", LinkNameSpaceType::HostNameAndNISDomainName),
        ("net", LinkNameSpaceType::Network),
    ] {
        let namespace = File::open(format!("{base}/ns/{name}")).map_err(|e| e.to_string())?;
        move_into_link_name_space(namespace.as_fd(), Some(kind)).map_err(error)?;
    }
    Ok(())
}

fn look(record: &mut Record) {
    let name = rustix::system::uname();
    record.put("host", "nodename", escaped(name.nodename().to_bytes()));
    record.put("host", "domain", escaped(name.domainname().to_bytes()));
    ipc::observe(record);
    for folder in SYSCTLS {
        tree::observe(record, "sysctl", folder);
    }
}
