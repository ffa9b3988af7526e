//! What holds the processes of a sandbox together: control groups and a pid 1 with root's
//! rights, the user namespace alone in a pod.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use tokio::io::Interest;

use crate::cgroup::{self, Group};
use crate::plain::{Descendants, Stay};
use crate::pod::{self, Kin, Spaces};
use crate::spawner::protocol::{Cgroups, Door, Entry};
use crate::sys::{process, watch};

/// The hold on one sandbox.
#[derive(Debug)]
pub(super) enum Hold {
    /// Root's.
    Group {
        init: OwnedFd,
        pid: i32,
        group: Arc<Group>,
    },
    /// A pod's.
    Pod(Spaces),
    /// Of a container that is the sandbox.
    Plain(Stay),
}

/// What tells the processes of one command from others: what it started can be killed as a
/// whole, whatever sessions and process groups it made.
#[derive(Debug)]
pub enum ExecGroup {
    /// A control group.
    Group(cgroup::ExecGroup),
    /// A mark that the command and all that it starts carry.
    Kin(Kin),
    /// Parents and sessions.
    Descendants(Descendants),
}

impl ExecGroup {
    /// Kills the command and all its descendants.
    pub fn kill(&self) {
        match self {
            Self::Group(group) => group.kill(),
            Self::Kin(kin) => kin.kill(),
            Self::Descendants(family) => family.kill(),
        }
    }

    /// Pids in it, as this daemon sees them.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn pids(&self) -> io::Result<Vec<i32>> {
        match self {
            Self::Group(group) => group.pids(),
            Self::Kin(kin) => kin.pids(),
            Self::Descendants(family) => family.pids(),
        }
    }

    /// Waits until none is left. Cancel safe.
    pub async fn empty(&self) {
        match self {
            Self::Group(group) => group.empty().await,
            Self::Kin(kin) => kin.empty().await,
            Self::Descendants(family) => family.empty().await,
        }
    }

    /// The command runs, and carries this mark (0: none).
    pub fn marked(&self, mark: u32) {
        match self {
            Self::Group(_) => {}
            Self::Kin(kin) => kin.marked(mark),
            Self::Descendants(family) => family.marked(mark),
        }
    }
}

impl Hold {
    pub(super) fn exec_group(&self) -> io::Result<ExecGroup> {
        match self {
            Self::Group { group, .. } => group.exec_group().map(ExecGroup::Group),
            Self::Pod(spaces) => Ok(ExecGroup::Kin(spaces.kin())),
            Self::Plain(stay) => Ok(ExecGroup::Descendants(stay.descendants())),
        }
    }

    pub(super) fn oom_kills(&self) -> u64 {
        match self {
            Self::Group { group, .. } => group.oom_kills(),
            Self::Pod(_) | Self::Plain(_) => pod::oom_kills(),
        }
    }

    pub(super) fn is_alive(&self) -> bool {
        match self {
            Self::Group { init, .. } => process::signal(init.as_fd(), 0).is_ok(),
            // Namespaces live as long as their descriptors.
            Self::Pod(_) | Self::Plain(_) => true,
        }
    }

    pub(super) fn init_pid(&self) -> Option<i32> {
        match self {
            Self::Group { pid, .. } => Some(*pid),
            Self::Pod(_) | Self::Plain(_) => None,
        }
    }

    pub(super) fn group(&self) -> Option<Arc<Group>> {
        match self {
            Self::Group { group, .. } => Some(Arc::clone(group)),
            Self::Pod(_) | Self::Plain(_) => None,
        }
    }

    pub(super) fn pids(&self) -> io::Result<Vec<i32>> {
        match self {
            Self::Group { group, .. } => group.pids(),
            Self::Pod(spaces) => spaces.pids(),
            Self::Plain(stay) => stay.pids(),
        }
    }

    pub(super) fn kill(&self) -> io::Result<()> {
        match self {
            Self::Group { init, group, .. } => {
                group.kill()?;
                // Already dead is as good.
                let _ = process::signal(init.as_fd(), libc::SIGKILL);
                Ok(())
            }
            Self::Pod(spaces) => spaces.kill(),
            Self::Plain(stay) => stay.kill(),
        }
    }

    /// Pid 1 has ended, and with it its pid namespace, and no entrant is in the group; in a
    /// pod, nothing but the daemon's own processes is left.
    pub(super) async fn empty(&self) -> io::Result<()> {
        match self {
            Self::Group { init, group, .. } => {
                let watched = watch::watch(init.try_clone()?, Interest::READABLE)?;
                watched.readable().await?.retain_ready();
                group.empty().await
            }
            Self::Pod(spaces) => spaces.empty().await,
            Self::Plain(stay) => stay.empty().await,
        }
    }

    pub(super) fn door(&self) -> Vec<BorrowedFd<'_>> {
        match self {
            Self::Group { init, .. } => vec![init.as_fd()],
            Self::Pod(spaces) => spaces.door(),
            Self::Plain(_) => Vec::new(),
        }
    }

    pub(super) fn entry(&self, exec: Option<&ExecGroup>) -> io::Result<(Entry, Vec<OwnedFd>)> {
        match self {
            Self::Group { group, .. } => {
                let exec = exec.and_then(|exec| match exec {
                    ExecGroup::Group(group) => Some(group),
                    ExecGroup::Kin(_) | ExecGroup::Descendants(_) => None,
                });
                let (cgroups, fds) = group.joining(exec)?;
                let door = Door::Init;
                Ok((Entry { door, cgroups }, fds))
            }
            Self::Pod(spaces) => {
                let entry = Entry {
                    door: spaces.kind(),
                    cgroups: Cgroups::default(),
                };
                Ok((entry, Vec::new()))
            }
            Self::Plain(_) => {
                let entry = Entry {
                    door: Door::Stay,
                    cgroups: Cgroups::default(),
                };
                Ok((entry, Vec::new()))
            }
        }
    }
}
