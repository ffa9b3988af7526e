//! A sandbox as calls see it: what they may use until it is fenced.

mod hold;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::cgroup::Group;
use crate::plain::Stay;
use crate::pod::Spaces;
use crate::sandbox::Plan;
use crate::spawner::protocol::Entry;

pub use hold::ExecGroup;
use hold::Hold;

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
    hold: Hold,
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
    /// A sandbox of this name whose pid 1 runs, in control groups of its own.
    pub fn new(
        name: &str,
        plan: &Plan,
        boot_id: &str,
        (pid, init): (i32, OwnedFd),
        group: Arc<Group>,
    ) -> Self {
        Self::held(name, plan, boot_id, Hold::Group { init, pid, group })
    }

    /// A sandbox of this name in a pod, which has no pid 1 of its own.
    pub fn in_pod(name: &str, plan: &Plan, boot_id: &str, spaces: Spaces) -> Self {
        Self::held(name, plan, boot_id, Hold::Pod(spaces))
    }

    /// A sandbox of this name that is the container itself.
    pub fn in_place(name: &str, plan: &Plan, boot_id: &str, stay: Stay) -> Self {
        Self::held(name, plan, boot_id, Hold::Plain(stay))
    }

    /// The hold of a sandbox that is the container itself.
    pub fn stay(&self) -> Option<&Stay> {
        match &self.hold {
            Hold::Plain(stay) => Some(stay),
            Hold::Group { .. } | Hold::Pod(_) => None,
        }
    }

    fn held(name: &str, plan: &Plan, boot_id: &str, hold: Hold) -> Self {
        let Defaults { env, workdir, user } = plan.defaults.clone();
        Self {
            sandbox: name.to_owned(),
            generation: plan.generation,
            env,
            workdir,
            user,
            boot_id: boot_id.to_owned(),
            hold,
            fence: CancellationToken::new(),
        }
    }

    /// Cancelled when a reset or a destroy begins.
    pub fn fenced(&self) -> CancellationToken {
        self.fence.clone()
    }

    /// What tells the processes of one command from others.
    ///
    /// # Errors
    /// When its control group cannot be made.
    pub fn exec_group(&self) -> io::Result<ExecGroup> {
        self.hold.exec_group()
    }

    /// How often the kernel has killed here for want of memory.
    pub fn oom_kills(&self) -> u64 {
        self.hold.oom_kills()
    }

    /// Whether it can still take calls.
    pub fn is_alive(&self) -> bool {
        self.hold.is_alive()
    }

    /// Pid 1 as the host sees it, where it has one of its own.
    pub fn init_pid(&self) -> Option<i32> {
        self.hold.init_pid()
    }

    /// Its control groups, where it has some of its own.
    pub fn group(&self) -> Option<Arc<Group>> {
        self.hold.group()
    }

    /// Pids of every process in it, as this daemon sees them.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn pids(&self) -> io::Result<Vec<i32>> {
        self.hold.pids()
    }

    /// Kills every process in it, without waiting.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn kill(&self) -> io::Result<()> {
        self.hold.kill()
    }

    /// Waits until no process is in it. Cancel safe.
    ///
    /// # Errors
    /// When that cannot be watched.
    pub async fn empty(&self) -> io::Result<()> {
        self.hold.empty().await
    }

    /// What an entrant passes through; its descriptors come first in a request.
    pub fn door(&self) -> Vec<BorrowedFd<'_>> {
        self.hold.door()
    }

    /// How an entrant comes in, and the descriptors of the control groups that it joins.
    ///
    /// # Errors
    /// When a group cannot be opened.
    pub fn entry(&self, exec: Option<&ExecGroup>) -> io::Result<(Entry, Vec<OwnedFd>)> {
        self.hold.entry(exec)
    }
}
