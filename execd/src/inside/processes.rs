//! Reading processes from beside them, where the daemon may not: with the ids of each one's owner, and
//! so with no more right than it has itself.

use std::fs::File;

use innkeeper_reset::components::processes::ProcessView;
use innkeeper_reset::ids::IdMap;
use innkeeper_reset::observe::{Observer, ProcDir, Programs};

use super::Answer;
use crate::pod::text;
use crate::sys::process;

/// Reads each of these: its pid and the service it belongs to.
pub(super) fn run(list: &[(u32, String)]) -> Answer {
    match read(list) {
        Ok(views) => Answer::Processes(views),
        Err(message) => Answer::Failed { errno: 0, message },
    }
}

fn read(list: &[(u32, String)]) -> Result<Vec<ProcessView>, String> {
    let proc = File::open("/proc").map_err(|e| e.to_string())?;
    let proc = ProcDir::new(proc.into()).map_err(|e| e.to_string())?;
    let programs = Programs::default();
    list.iter()
        .map(|(pid, service)| {
            let status = text(proc.as_fd(), &format!("{pid}/status")).map_err(|e| e.to_string())?;
            let (uid, gid) = owner(&status).ok_or_else(|| format!("process {pid} has no owner"))?;
            process::set_filesystem_owner(uid, gid);
            let view = Observer::new(&proc, IdMap::IDENTITY, &programs).process(*pid, service);
            process::set_filesystem_owner(0, 0);
            view.map_err(|e| e.to_string())
        })
        .collect()
}

/// The effective user and group of `/proc/PID/status`.
fn owner(status: &str) -> Option<(u32, u32)> {
    let id = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().nth(1)?.parse().ok()
    };
    Some((id("Uid:")?, id("Gid:")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_effective_ids_own_a_process() {
        let status = "Name:\tx\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\n";
        assert_eq!(owner(status), Some((2, 6)));
        assert_eq!(owner("Name:\tx\n"), None);
    }
}
