//! What is written to a session's shell, and what it writes back. Plain POSIX sh: dash,
//! bash and busybox read it alike.

/// Moves the mark's pipe, which the shell gets as its stderr, to descriptor 9 and merges the
/// outputs.
pub(super) const PREPARE: &[u8] = b"exec 9>&2 2>&1\n";

/// A command and its mark. The command runs in the shell itself, with an empty stdin and
/// without descriptor 9, and finds the status of the last one in `$?`. `command eval` is an
/// `eval` whose syntax errors do not end the shell (POSIX, special built-ins); bash knows no
/// `{` on the line after such an error, so a line of its own comes first.
pub(super) fn wrap(command: &[u8], last: i32, token: &str) -> Vec<u8> {
    let mut text = Vec::with_capacity(command.len() + 128);
    text.extend_from_slice(b":\n{ ");
    if last != 0 {
        text.extend_from_slice(format!("(exit {last}); ").as_bytes());
    }
    text.extend_from_slice(b"command eval '");
    for byte in command {
        match byte {
            b'\'' => text.extend_from_slice(b"'\\''"),
            other => text.push(*other),
        }
    }
    text.extend_from_slice(b"'\n} </dev/null 9>&-; command printf '%s %s\\n' ");
    text.extend_from_slice(token.as_bytes());
    text.extend_from_slice(b" \"$?\" >&9\n");
    text
}

/// Looks for a command's mark in what came over the mark's pipe.
#[derive(Debug, Default)]
pub(super) struct Marks {
    line: Vec<u8>,
}

/// No mark is longer; a longer line is not ours.
const LINE: usize = 256;

impl Marks {
    /// Takes what came; the command's status once its whole mark is there.
    pub(super) fn take(&mut self, bytes: &[u8], token: &str) -> Option<i32> {
        let mut status = None;
        for byte in bytes {
            if *byte != b'\n' {
                if self.line.len() < LINE {
                    self.line.push(*byte);
                }
                continue;
            }
            let line = std::mem::take(&mut self.line);
            status = status.or_else(|| parse(&line, token));
        }
        status
    }
}

fn parse(line: &[u8], token: &str) -> Option<i32> {
    let number = line.strip_prefix(token.as_bytes())?.strip_prefix(b" ")?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn marks_are_found_in_pieces_and_only_whole() {
        let mut marks = Marks::default();
        assert_eq!(marks.take(b"other 3\ntok", "token"), None);
        assert_eq!(marks.take(b"en 1", "token"), None);
        assert_eq!(marks.take(b"2\n", "token"), Some(12));
        assert_eq!(marks.take(b"token x\n", "token"), None);
        assert_eq!(marks.take(&[b'a'; 10_000], "token"), None);
        assert_eq!(marks.take(b"\ntoken 7\n", "token"), Some(7));
    }

    /// The commands' output and, in the place of marks, their tokens and statuses.
    fn run(shell: &str, commands: &[&str]) -> String {
        let mut child = Command::new(shell)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut text = b"exec 9>&1 2>&1\n".to_vec();
        for (n, command) in commands.iter().enumerate() {
            text.extend(wrap(command.as_bytes(), 9, &format!("mark{n}")));
        }
        child.stdin.take().unwrap().write_all(&text).unwrap();
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
    }

    #[test]
    fn shells_keep_their_state_and_survive_bad_syntax() {
        for shell in ["/bin/bash", "/bin/sh"] {
            let said = run(
                shell,
                &[
                    "cd /usr; x='a'\"'\"'b'; f() { echo f$1; }",
                    "echo $?; pwd; echo $x; f 1; false",
                    "cat",
                    "echo hidden >&9",
                    "echo 'not closed",
                    "(exit 42)",
                    "# a comment",
                ],
            );
            let lines: Vec<_> = said.lines().collect();
            assert_eq!(lines[0], "mark0 0", "{shell}: {said}");
            assert_eq!(
                &lines[1..6],
                ["9", "/usr", "a'b", "f1", "mark1 1"],
                "{shell}: {said}"
            );
            assert_eq!(lines[6], "mark2 0", "{shell}: cat read the script: {said}");
            assert!(!lines.contains(&"hidden"), "{shell}: {said}");
            assert!(
                lines
                    .iter()
                    .any(|line| line.starts_with("mark4 ") && *line != "mark4 0")
            );
            assert!(lines.contains(&"mark5 42"), "{shell}: {said}");
            assert_eq!(lines.last(), Some(&"mark6 0"), "{shell}: {said}");
        }
    }
}
