//! What tells the time, kept apart: it differs in every observation.

use rustix::time::{ClockId, clock_gettime};

use crate::Record;
use crate::text::shown;

pub(super) fn observe(record: &mut Record) {
    for (name, clock) in [
        ("real time", ClockId::Realtime),
        ("monotonic", ClockId::Monotonic),
        ("since boot", ClockId::Boottime),
    ] {
        record.put("clock", name, clock_gettime(clock).tv_sec.to_string());
    }
    for name in [
        "uptime",
        "loadavg",
        "stat",
        "interrupts",
        "softirqs",
        "vmstat",
        "meminfo",
        "diskstats",
    ] {
        record.put("clock", name, shown(format!("/proc/{name}")));
    }
}
