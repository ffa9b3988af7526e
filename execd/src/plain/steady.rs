//! What a guest's root could do to the daemon and its spawner from beside them, and later commands
//! would inherit: limits, priority, place in the order of the kernel's victims, what a dump holds. Each
//! is a fact of the sandbox, and must be as it was.

use std::io;

use innkeeper_reset::components::{Facts, limits};

use crate::pod::{Own, text};

/// Adds the facts of every process of the daemon's, in the order in which they were started.
///
/// # Errors
/// When one cannot be read; then nothing is known.
pub(super) fn facts(own: &Own) -> io::Result<Facts> {
    let mut facts = Facts::new();
    for (number, process) in own.list().into_iter().enumerate() {
        let name = if number == 0 { "daemon" } else { "spawner" };
        let read = |file: &str| text(own.proc(), &format!("{}/{file}", process.pid));
        let table = limits::table(&read("limits")?);
        let table = table.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        for (limit, value) in table {
            facts.put(format!("{name} {limit}"), value);
        }
        for file in ["oom_score_adj", "coredump_filter"] {
            facts.put(format!("{name} {file}"), read(file)?.trim());
        }
        facts.put(format!("{name} scheduling"), scheduling(&read("stat")?));
        facts.put(format!("{name} affinity"), affinity(&read("status")?));
    }
    Ok(facts)
}

/// Priority, nice value, real-time priority and policy: fields 18, 19, 40 and 41 of `proc_pid_stat(5)`.
fn scheduling(stat: &str) -> String {
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3).copied().unwrap_or("?");
    format!(
        "nice {} priority {} policy {}",
        field(19),
        field(40),
        field(41)
    )
}

fn affinity(status: &str) -> &str {
    let line = |name| {
        status
            .lines()
            .find_map(|line: &str| line.strip_prefix(name))
    };
    line("Cpus_allowed_list:").unwrap_or("?").trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_inherited_is_read_of_the_daemon_and_its_spawner() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let own = Own::new(child.id() as i32).unwrap();
        let fresh = facts(&own).unwrap();
        assert!(fresh.get("spawner Max open files").is_some());
        assert_eq!(facts(&own).unwrap(), fresh);
        std::fs::write(format!("/proc/{}/oom_score_adj", child.id()), "700").unwrap();
        let changed = facts(&own).unwrap();
        assert_eq!(changed.get("spawner oom_score_adj"), Some("700"));
        assert_ne!(changed, fresh);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(facts(&own).is_err(), "a daemon without its spawner");
    }
}
