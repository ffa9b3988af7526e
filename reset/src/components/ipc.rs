//! System V objects and POSIX message queues.

use super::Facts;
use crate::ids::IdMap;
use crate::noise;

/// The texts of `/proc/sysvipc`, and one line per message queue.
#[derive(Debug, Clone, Default)]
pub struct Texts {
    /// `sysvipc/shm`.
    pub shm: String,
    /// `sysvipc/sem`.
    pub sem: String,
    /// `sysvipc/msg`.
    pub msg: String,
    /// Name, mode, owner and contents line of every message queue.
    pub queues: Vec<String>,
}

/// Facts of all objects. None for a table without the columns that are expected.
pub fn facts(texts: &Texts, ids: IdMap) -> Option<Facts> {
    const OWNERS: [&str; 4] = ["uid", "gid", "cuid", "cgid"];
    let mut facts = Facts::new();
    let tables = [
        ("shm", &texts.shm, ["key", "perms", "size", "nattch"]),
        ("sem", &texts.sem, ["key", "perms", "nsems", "key"]),
        ("msg", &texts.msg, ["key", "perms", "cbytes", "qnum"]),
    ];
    for (name, text, columns) in tables {
        facts.put_sorted(name, table(text, &columns, &OWNERS, ids)?);
    }
    facts.put_sorted("queues", texts.queues.clone());
    Some(facts)
}

/// The named columns of a table whose first line names them; `owners` hold ids.
fn table(text: &str, columns: &[&str], owners: &[&str], ids: IdMap) -> Option<Vec<String>> {
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next()?.split_whitespace().collect();
    let place = |column: &&str| header.iter().position(|name| name == column);
    let plain: Vec<usize> = columns.iter().map(place).collect::<Option<_>>()?;
    let owned: Vec<usize> = owners.iter().map(place).collect::<Option<_>>()?;
    let row = |line: &str| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let mut kept = Vec::new();
        for (at, name) in plain.iter().zip(columns) {
            kept.push(format!("{name} {}", cells.get(*at)?));
        }
        for (at, name) in owned.iter().zip(owners) {
            let id = cells.get(*at)?.parse().ok()?;
            kept.push(format!("{name} {}", noise::id_in_range(ids, id)));
        }
        Some(kept.join(" "))
    };
    lines.map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(shm_rows: &str) -> Texts {
        Texts {
            shm: format!("       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      atime      dtime      ctime                   rss                  swap\n{shm_rows}"),
            sem: "       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime\n".into(),
            msg: "       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid  cuid  cgid      stime      rtime      ctime\n".into(),
            queues: Vec::new(),
        }
    }

    #[test]
    fn a_segment_shows_its_pids_and_times_do_not() {
        let ids = IdMap::at(70000);
        let row = "1234 0 1600 4096 10 10 0 70001 70001 70001 70001 111 0 111 4096 0\n";
        let again = "1234 9 1600 4096 77 77 0 70001 70001 70001 70001 222 0 222 0 0\n";
        assert_ne!(facts(&texts(""), ids), facts(&texts(row), ids));
        assert_eq!(facts(&texts(again), ids), facts(&texts(row), ids));
        let found = facts(&texts(row), ids).and_then(|f| f.get("shm").map(str::to_owned));
        let expected = "key 1234 perms 1600 size 4096 nattch 0 uid 1 gid 1 cuid 1 cgid 1";
        assert_eq!(found.as_deref(), Some(expected));
    }

    #[test]
    fn an_unknown_table_is_no_table() {
        assert!(facts(&Texts::default(), IdMap::CANONICAL).is_none());
        assert!(facts(&texts("1 2\n"), IdMap::CANONICAL).is_none());
    }
}
