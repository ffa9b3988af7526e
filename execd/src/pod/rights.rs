//! What this container allows, found by looking and trying, not assumed.

use std::fs;
use std::io;

use super::Layout;
use crate::sys::process::{self, Fork};
use crate::sys::{caps, mount};

/// Whose rights the daemon has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// A default pod's: the machine's own ids, few capabilities.
    Pod,
    /// A user's, in a user namespace of his own: shifted ids.
    User,
}

impl Rights {
    /// The word in records.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pod => "pod",
            Self::User => "user",
        }
    }
}

/// What was found at start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Whose rights.
    pub rights: Rights,
    /// Effective capabilities.
    pub caps: u64,
    /// Ids that the container has: (first, count), in its own view.
    pub ids: Vec<(u32, u32)>,
    /// Whether a user namespace can be made here.
    pub namespaces: bool,
    /// Whether a new /proc can be mounted in one: not where the container's is masked.
    pub own_proc: bool,
    /// Whether no program can gain rights here.
    pub no_new_privs: bool,
    /// Whether the daemon could make control groups.
    pub own_groups: bool,
}

/// Every id there is: the map of the initial user namespace.
const ALL: (u32, u32) = (0, u32::MAX);

/// Without these an identity map cannot be written.
const NEEDED: [(u32, &str); 3] = [(6, "CAP_SETGID"), (7, "CAP_SETUID"), (31, "CAP_SETFCAP")];

impl Standing {
    /// Looks and tries. Call it before the daemon has threads.
    ///
    /// # Errors
    /// When the kernel's own files about this process cannot be read.
    pub fn find() -> io::Result<Self> {
        let ids = map(&fs::read_to_string("/proc/self/uid_map")?);
        Ok(Self {
            rights: whose(&ids),
            caps: caps::effective(&fs::read_to_string("/proc/self/status")?),
            ids: ids
                .iter()
                .map(|(inside, _, count)| (*inside, *count))
                .collect(),
            namespaces: works(process::NEW_USER, || Ok(())),
            own_proc: works(
                process::NEW_USER | process::NEW_MOUNT | process::NEW_PID,
                || {
                    mount::Filesystem::open(c"proc")?
                        .mount(mount::NOSUID)
                        .map(drop)
                },
            ),
            no_new_privs: no_new_privs(&fs::read_to_string("/proc/self/status")?),
            own_groups: can_make_groups(),
        })
    }

    /// What of all this makes sandboxes impossible, as a sentence with what to do.
    pub fn refusal(&self, layout: Layout) -> Option<String> {
        let lacks = NEEDED.iter().find(|(bit, _)| self.caps & (1 << bit) == 0);
        if let Some((_, name)) = lacks {
            return Some(format!(
                "this container lacks {name}: keep the default capabilities, or add SETUID, SETGID and SETFCAP"
            ));
        }
        if !self.namespaces && layout != Layout::Plain {
            return Some(
                "this container cannot make a user namespace: give it a seccomp profile that lets clone and unshare through, and allow user namespaces on the node"
                    .to_owned(),
            );
        }
        None
    }
}

/// Whether this can be done in new namespaces.
fn works(namespaces: u64, work: impl FnOnce() -> io::Result<()>) -> bool {
    // SAFETY: the daemon has one thread at its start.
    #[allow(unsafe_code)]
    match unsafe { process::fork(namespaces, None) } {
        Ok(Fork::Child) => process::exit(i32::from(work().is_err())),
        Ok(Fork::Parent { pid, .. }) => process::wait(pid).is_ok_and(|status| status == 0),
        Err(_) => false,
    }
}

fn no_new_privs(status: &str) -> bool {
    let value = status
        .lines()
        .find_map(|line| line.strip_prefix("NoNewPrivs:"));
    value.is_some_and(|value| value.trim() == "1")
}

fn can_make_groups() -> bool {
    let probe = format!("/sys/fs/cgroup/execd-{}", std::process::id());
    let made = fs::create_dir(&probe).is_ok();
    let _ = fs::remove_dir(&probe);
    made
}

/// The lines of a uid_map: (inside, outside, count).
fn map(text: &str) -> Vec<(u32, u32, u32)> {
    let line = |line: &str| {
        let mut numbers = line.split_whitespace().map(str::parse);
        match (numbers.next(), numbers.next(), numbers.next()) {
            (Some(Ok(inside)), Some(Ok(outside)), Some(Ok(count))) => {
                Some((inside, outside, count))
            }
            _ => None,
        }
    };
    text.lines().filter_map(line).collect()
}

/// A map that is not the machine's own was made by somebody without root's rights, or for him.
fn whose(map: &[(u32, u32, u32)]) -> Rights {
    match map {
        [(inside, outside, count)] if (*inside, *count) == ALL && *outside == 0 => Rights::Pod,
        _ => Rights::User,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCKER: u64 = 0xa804_25fb;

    fn standing(caps: u64, namespaces: bool) -> Standing {
        Standing {
            rights: Rights::Pod,
            caps,
            ids: vec![ALL],
            namespaces,
            own_proc: false,
            no_new_privs: false,
            own_groups: false,
        }
    }

    #[test]
    fn shifted_ids_are_a_users() {
        let pod = map("         0          0 4294967295\n");
        assert_eq!(whose(&pod), Rights::Pod);
        let user = map("         0       1000          1\n         1     100000      65536\n");
        assert_eq!(user, [(0, 1000, 1), (1, 100_000, 65_536)]);
        assert_eq!(whose(&user), Rights::User);
        assert_eq!(whose(&map("0 490078208 65536\n")), Rights::User);
    }

    #[test]
    fn what_is_missing_is_named() {
        let mounted = Layout::Mounted;
        assert_eq!(standing(DOCKER, true).refusal(mounted), None);
        let no_setfcap = standing(DOCKER & !(1 << 31), true).refusal(mounted);
        assert!(no_setfcap.is_some_and(|text| text.contains("CAP_SETFCAP")));
        assert_eq!(standing(DOCKER, false).refusal(Layout::Plain), None);
        let no_namespaces = standing(DOCKER, false).refusal(mounted);
        assert!(no_namespaces.is_some_and(|text| text.contains("seccomp")));
    }
}
