//! System V IPC of the namespace that the calling thread is in.

use crate::Record;
use crate::text::shown;

pub(crate) fn observe(record: &mut Record) {
    for table in ["msg", "sem", "shm"] {
        let text = shown(format!("/proc/sysvipc/{table}"));
        // The first line names the columns.
        let objects: Vec<_> = text.split("\\x0a").skip(1).collect();
        record.put(
            "ipc",
            &format!("{table} objects"),
            objects.len().to_string(),
        );
        for (number, line) in objects.iter().enumerate() {
            record.put(&format!("ipc {table} #{number}"), "line", *line);
        }
    }
}
