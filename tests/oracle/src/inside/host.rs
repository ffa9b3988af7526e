//! The machine as a guest sees it: names, and the files of /proc that belong to no process.

use std::fs;

use crate::text::{error, escaped, shown};
use crate::{Record, sys};

/// Files of /proc whose text is recorded.
const SAYING: [&str; 14] = [
    "cgroups",
    "cmdline",
    "consoles",
    "crypto",
    "devices",
    "filesystems",
    "key-users",
    "keys",
    "misc",
    "modules",
    "partitions",
    "swaps",
    "timer_list",
    "version",
];

pub(super) fn observe(record: &mut Record) {
    let name = rustix::system::uname();
    for (field, value) in [
        ("system", name.sysname()),
        ("nodename", name.nodename()),
        ("release", name.release()),
        ("version", name.version()),
        ("machine", name.machine()),
        ("domain", name.domainname()),
    ] {
        record.put("host", field, escaped(value.to_bytes()));
    }
    for file in SAYING {
        record.put(
            &format!("proc {file}"),
            "says",
            shown(format!("/proc/{file}")),
        );
    }
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    for name in names.filter(|name| name.parse::<u32>().is_err()) {
        record.put(&format!("proc {name}"), "there", "yes");
    }
    for (name, number) in sys::KEYRINGS {
        let id = sys::keyring(number).map_or_else(error, |id| id.to_string());
        record.put("keyrings", name, id);
    }
}
