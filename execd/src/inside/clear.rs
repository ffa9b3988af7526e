//! Removing ipc objects that outlive their processes, where the namespace outlives its guest.

use std::fs;
use std::io;

use super::Answer;
use crate::sys::ipc::{self, Kind};

/// Kind, table and the name of the column of ids.
const TABLES: [(Kind, &str, &str); 3] = [
    (Kind::Memory, "shm", "shmid"),
    (Kind::Semaphores, "sem", "semid"),
    (Kind::Messages, "msg", "msqid"),
];

/// Removes all. It runs as the guest's root, which may take the id of every owner.
pub(super) fn run() -> Answer {
    for (kind, table, column) in TABLES {
        let path = format!("/proc/sysvipc/{table}");
        let done = fs::read_to_string(&path).and_then(|text| {
            let objects = objects(&text, column);
            let objects = objects.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
            objects
                .into_iter()
                .try_for_each(|(id, owner)| ipc::remove(kind, id, owner))
        });
        if let Err(error) = done {
            return Answer::Failed {
                errno: error.raw_os_error().unwrap_or(0),
                message: format!("the objects of {path} cannot be removed: {error}"),
            };
        }
    }
    Answer::Cleared
}

/// Id and owner of every row; none for a table of another form.
fn objects(text: &str, column: &str) -> Option<Vec<(i32, u32)>> {
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next()?.split_whitespace().collect();
    let place = |name: &str| header.iter().position(|cell| *cell == name);
    let (id, owner) = (place(column)?, place("uid")?);
    lines
        .map(|line| {
            let cells: Vec<&str> = line.split_whitespace().collect();
            Some((
                cells.get(id)?.parse().ok()?,
                cells.get(owner)?.parse().ok()?,
            ))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_owners_are_found_by_their_columns() {
        let text = "key msqid perms cbytes qnum lspid lrpid uid gid\n7 3 600 0 0 1 1 1000 0\n";
        assert_eq!(objects(text, "msqid"), Some(vec![(3, 1000)]));
        assert_eq!(objects("key x\n", "msqid"), None);
        assert_eq!(objects("key msqid uid\nrow\n", "msqid"), None);
    }
}
