//! A sandbox as calls see it: what they may use until it is fenced.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

pub use crate::cgroup::ExecGroup;
use crate::cgroup::Group;
use crate::sandbox::Plan;
use crate::spawner::protocol::Cgroups;

/// A live sandbox.
#[derive(Debug)]
pub struct Live {
    /// SLOT.GENERATION.
    pub sandbox: String,
    /// The n-th set of namespaces in its slot.
    pub generation: u64,
    /// Environment of image and template, K=V.
    pub env: Vec<Vec<u8>>,
    /// The template's working directory.
    pub workdir: Vec<u8>,
    /// The template's user.
    pub user: String,
    /// Boot id of the daemon.
    pub boot_id: String,
    init: OwnedFd,
    init_pid: i32,
    group: Arc<Group>,
    fence: CancellationToken,
}

/// What a live sandbox takes over from its template.
#[derive(Debug, Clone)]
pub struct Defaults {
    /// Environment, K=V.
    pub env: Vec<Vec<u8>>,
    /// Working directory.
    pub workdir: Vec<u8>,
    /// User.
    pub user: String,
}

impl Live {
    /// A sandbox of this name whose pid 1 runs.
    pub fn new(
        name: &str,
        plan: &Plan,
        boot_id: &str,
        (init_pid, init): (i32, OwnedFd),
        group: Arc<Group>,
    ) -> Self {
        let Defaults { env, workdir, user } = plan.defaults.clone();
        Self {
            sandbox: name.to_owned(),
            generation: plan.generation,
            env,
            workdir,
            user,
            boot_id: boot_id.to_owned(),
            init,
            init_pid,
            group,
            fence: CancellationToken::new(),
        }
    }

    /// Cancelled when a reset or a destroy begins.
    pub fn fenced(&self) -> CancellationToken {
        self.fence.clone()
    }

    /// An own kill group for one command.
    ///
    /// # Errors
    /// When the group cannot be made.
    pub fn exec_group(&self) -> io::Result<ExecGroup> {
        self.group.exec_group()
    }

    /// How often the kernel has killed here for want of memory.
    pub fn oom_kills(&self) -> u64 {
        self.group.oom_kills()
    }

    /// Pid 1's pidfd.
    pub fn init(&self) -> BorrowedFd<'_> {
        self.init.as_fd()
    }

    /// Pid 1 as the host sees it.
    pub fn init_pid(&self) -> i32 {
        self.init_pid
    }

    /// Its group.
    pub fn group(&self) -> &Arc<Group> {
        &self.group
    }

    /// What an entrant joins.
    ///
    /// # Errors
    /// When a group cannot be opened.
    pub fn joining(&self, exec: Option<&ExecGroup>) -> io::Result<(Cgroups, Vec<OwnedFd>)> {
        self.group.joining(exec)
    }
}
