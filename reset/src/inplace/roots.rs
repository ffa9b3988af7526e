//! The restore roots: below them a copy of every file is kept, so that its contents can be put back.

/// Paths relative to the root of the tree, without slashes at either end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roots(Vec<Vec<u8>>);

/// Where rollouts are known to change files, beside their working directory. `/usr` and `/opt` are
/// large and rarely written: what changes there makes the sandbox single use.
const USUAL: [&str; 11] = [
    "/dev",
    "/etc",
    "/home",
    "/media",
    "/mnt",
    "/root",
    "/run",
    "/srv",
    "/tmp",
    "/usr/local",
    "/var",
];

impl Roots {
    /// These paths, absolute or relative to the root; `/` covers everything.
    pub fn new<P: AsRef<[u8]>>(paths: impl IntoIterator<Item = P>) -> Self {
        let canonical = |path: P| {
            let names = path.as_ref().split(|b| *b == b'/');
            let names: Vec<&[u8]> = names
                .filter(|name| !name.is_empty() && *name != b".")
                .collect();
            names.join(&b'/')
        };
        Roots(paths.into_iter().map(canonical).collect())
    }

    /// The usual ones: the working directory, and where systems and users keep what they change.
    pub fn usual(workdir: &[u8]) -> Self {
        let usual = USUAL.iter().map(|path| path.as_bytes());
        // A working directory that is the root would mean a copy of all of it.
        let workdir = Some(workdir).filter(|dir| dir.iter().any(|b| *b != b'/' && *b != b'.'));
        Roots::new(usual.chain(workdir))
    }

    /// Whether a path is one of these or lies below one.
    pub fn cover(&self, path: &[u8]) -> bool {
        self.0.iter().any(|root| {
            root.is_empty()
                || path
                    .strip_prefix(root.as_slice())
                    .is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_names_count() {
        let roots = Roots::new(["/etc/", "var//lib", "./x"]);
        for inside in ["etc", "etc/passwd", "var/lib", "var/lib/dpkg/status", "x"] {
            assert!(roots.cover(inside.as_bytes()), "{inside}");
        }
        for outside in ["", "etcetera", "var", "var/libx", "usr"] {
            assert!(!roots.cover(outside.as_bytes()), "{outside}");
        }
        assert!(Roots::new(["/"]).cover(b"usr/bin/env"));
    }

    #[test]
    fn a_working_directory_that_is_the_root_is_no_restore_root() {
        assert!(Roots::usual(b"/testbed").cover(b"testbed/setup.py"));
        for workdir in [&b"/"[..], b"", b"/."] {
            let roots = Roots::usual(workdir);
            assert!(!roots.cover(b"usr/bin/env") && roots.cover(b"etc/passwd"));
        }
    }
}
