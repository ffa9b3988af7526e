//! What outlives processes in the kernel and cannot be removed with a default pod's rights: connections
//! that are closing keep their ports for a minute, keys stay until nobody holds them. They are waited
//! for.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::time::{Duration, Instant};

/// Between two looks: nothing tells when one is gone.
const PAUSE: Duration = Duration::from_millis(50);

/// Keys by user, as they were before anything of a guest ran.
#[derive(Debug)]
pub struct Quiet(BTreeMap<String, u64>);

impl Quiet {
    /// Looks.
    ///
    /// # Errors
    /// When the kernel's tables cannot be read.
    pub fn find() -> io::Result<Self> {
        Ok(Self(keys(&read("/proc/key-users")?)))
    }

    /// Waits until no connection is closing and nobody has more keys than at the start. Blocks.
    ///
    /// # Errors
    /// A sentence that names what is left at the deadline.
    pub fn wait(&self, by: Instant) -> Result<(), String> {
        loop {
            let left = self
                .left()
                .map_err(|e| format!("the kernel's tables: {e}"))?;
            let Some(left) = left else { return Ok(()) };
            if Instant::now() > by {
                return Err(left);
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn left(&self) -> io::Result<Option<String>> {
        for table in ["tcp", "tcp6"] {
            let text = read(&format!("/proc/thread-self/net/{table}"))?;
            if let Some(row) = closing(&text) {
                return Ok(Some(format!("a connection is still closing: {row}")));
            }
        }
        let now = keys(&read("/proc/key-users")?);
        let more = now
            .iter()
            .find(|(user, count)| *count > self.0.get(*user).unwrap_or(&0));
        Ok(more.map(|(user, count)| format!("user {user} has {count} keys, more than before")))
    }
}

/// A table that this kernel does not have is empty.
fn read(path: &str) -> io::Result<String> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        other => other,
    }
}

/// A row in a state that nobody's descriptor holds: any but ESTABLISHED (1) and LISTEN (A) of
/// `net/tcp_states.h`.
fn closing(table: &str) -> Option<&str> {
    let closes = |row: &&str| {
        let state = row.split_whitespace().nth(3);
        !matches!(state, None | Some("01" | "0A"))
    };
    table.lines().skip(1).find(closes)
}

/// `uid: usage keys/instantiated ...` of `proc_key-users(5)`.
fn keys(text: &str) -> BTreeMap<String, u64> {
    let line = |line: &str| {
        let (user, rest) = line.split_once(':')?;
        let keys = rest.split_whitespace().nth(1)?.split('/').next()?;
        Some((user.trim().to_owned(), keys.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_that_close_are_found() {
        let head = "  sl  local_address rem_address   st\n";
        let row = |state: &str| format!("{head} 0: 0100007F:1F90 00000000:0000 {state} 0\n");
        assert!(closing(head).is_none());
        assert!(closing(&row("0A")).is_none());
        assert!(closing(&row("06")).is_some_and(|row| row.contains("06")));
    }

    #[test]
    fn keys_are_counted_by_user() {
        let text = "    0:   77 76/76 38/1000000 844/25000000\n 1000:  2 2/2 2/200 9/20000\n";
        let found = keys(text);
        assert_eq!((found["0"], found["1000"]), (76, 2));
    }
}
