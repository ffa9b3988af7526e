//! The program that runs in a pod: this one.

use std::fs;
use std::path::PathBuf;

use super::PodError;
use super::options::Layout;

/// This program and what it needs to run.
#[derive(Debug)]
pub struct Program {
    /// Where it lies on the machine.
    pub path: PathBuf,
    /// Libraries that it was linked with, its loader among them; none where it is static.
    pub libraries: Vec<PathBuf>,
}

impl Program {
    /// This program, for a pod of this layout.
    ///
    /// # Errors
    /// Where it is linked dynamically and the pod's root is an image, which has other libraries
    /// or none.
    pub fn own(layout: Layout) -> Result<Self, PodError> {
        let path = fs::read_link("/proc/self/exe").map_err(PodError::at("finding execd"))?;
        let maps = fs::read_to_string("/proc/self/maps").map_err(PodError::at("finding execd"))?;
        let libraries = libraries(&maps);
        if layout != Layout::Mounted && !libraries.is_empty() {
            return Err(PodError::Missing(format!(
                "{} is linked dynamically and cannot run in an image's root: build it with \
                 -C target-feature=+crt-static",
                path.display()
            )));
        }
        Ok(Self { path, libraries })
    }
}

/// The shared objects that a process has mapped.
fn libraries(maps: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = maps
        .lines()
        .filter_map(|line| line.find('/').map(|at| &line[at..]))
        .filter(|path| path.ends_with(".so") || path.contains(".so."))
        .map(PathBuf::from)
        .collect();
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_libraries_are_found_once() {
        let maps = "7f-80 r-xp 00 fe:00 5 /usr/lib/libc.so.6\n\
                    80-81 rw-p 00 fe:00 5 /usr/lib/libc.so.6\n\
                    81-82 r-xp 00 fe:00 6 /usr/lib64/ld-linux-x86-64.so.2\n\
                    82-83 rw-p 00 00:00 0 [heap]\n\
                    83-84 r-xp 00 fe:00 7 /bin/execd\n";
        let found = libraries(maps);
        assert_eq!(found.len(), 2);
        assert!(libraries("82-83 rw-p 00 00:00 0 [stack]\n").is_empty());
    }
}
