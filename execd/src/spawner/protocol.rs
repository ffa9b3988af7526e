//! What the daemon and the spawner say to each other. A message is a length, JSON, and
//! descriptors beside it; a reply carries the number of its request.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::inside;
use crate::pod;

/// From the daemon. Descriptors, in order, are named at each variant.
#[derive(Debug, Serialize, Deserialize)]
pub enum Request {
    /// Makes a fresh user namespace for the ids `base..base + 65536` and a network namespace
    /// owned by it with loopback up. No descriptors.
    /// Reply: `Kit`, with the user namespace and then the network namespace.
    Kit { base: u32 },
    /// Makes a sandbox's pid 1, which then stands by. Descriptors: see
    /// [`StandBySpec::descriptors`]. Reply: `Forked`.
    StandBy(StandBySpec),
    /// Builds a sandbox in a pod. No descriptors. Reply: `Assembled`.
    Assemble(pod::Recipe),
    /// Answers once nothing is left in the pod but the daemon's own processes. No descriptors.
    /// Reply: `Empty`.
    AwaitEmpty,
    /// Runs a command in a sandbox. Descriptors: the door, cgroups, a memory file that
    /// holds the [`ExecSpec`], stdio. The spawner does not read that file: pid 1 of every
    /// later sandbox is forked from its memory, where no argument or variable of a command
    /// may stand. Reply: `Running` and later `Exited`.
    Exec(Entry),
    /// Runs our own code in a sandbox with the guest's rights. Descriptors: the door, cgroups, the channel for the answer, then those of the call. Reply: `Running`, `Exited`.
    Call(CallMessage),
}

/// From the spawner.
#[derive(Debug, Serialize, Deserialize)]
pub enum Reply {
    /// The answer to `Kit`.
    Kit,
    /// The answer to `StandBy`, with init's pidfd and the channel to it. `pid` is init's, as
    /// the host sees it.
    Forked { pid: i32 },
    /// The answer to `Assemble`, with the descriptors of [`pod::Recipe`].
    Assembled { killer: i32, seen: Box<RawValue> },
    /// The answer to `AwaitEmpty`.
    Empty,
    /// A command runs, with its pidfd and, where it has a terminal, the master end.
    /// `guest_pid` is its pid as the guest sees it, `mark` what it and all that it starts
    /// carry (0: nothing).
    Running { guest_pid: i32, mark: u32 },
    /// A command ended: the raw wait status.
    Exited { status: i32 },
    /// The request failed at this step, with this errno where there is one.
    Failed {
        step: String,
        errno: i32,
        exit_code: i32,
    },
}

/// How a process comes into a sandbox.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Entry {
    /// What it passes through; the first descriptors.
    pub door: Door,
    /// What it joins; the next ones.
    pub cgroups: Cgroups,
}

/// What an entrant passes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Door {
    /// All namespaces of a pid 1, by its pidfd.
    Init,
    /// The namespaces of a sandbox that has no pid 1, each by a descriptor: user, mount, ipc,
    /// uts and, where it is the sandbox's own, network.
    Spaces {
        /// Whether the network namespace is among them.
        network: bool,
    },
    /// Nothing: the sandbox is where the spawner is.
    Stay,
}

impl Door {
    /// Descriptors in all.
    pub fn count(self) -> usize {
        match self {
            Self::Init => 1,
            Self::Spaces { network } => 4 + usize::from(network),
            Self::Stay => 0,
        }
    }
}

impl Entry {
    /// Descriptors in all.
    pub fn count(self) -> usize {
        self.door.count() + self.cgroups.count()
    }
}

/// How many cgroup descriptors go with a request: the cgroup v2 directory first (where
/// there is one), then the `tasks` files of the v1 hierarchies.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Cgroups {
    /// A cgroup v2 directory to be cloned into.
    pub v2: bool,
    /// `tasks` files of v1 hierarchies to join.
    pub v1: usize,
}

/// A pid 1 that is to stand by.
#[derive(Debug, Serialize, Deserialize)]
pub struct StandBySpec {
    /// First host id of the range.
    pub base: u32,
    /// Cgroups to join.
    pub cgroups: Cgroups,
    /// How the sandbox is to be observed.
    pub observe: inside::observe::Observe,
    /// Name of the host, as the guest sees it.
    pub hostname: String,
    /// Bytes of `/dev/shm`.
    pub shm_bytes: u64,
}

impl StandBySpec {
    /// Descriptors in order: /dev, user namespace, network namespace, then the cgroups.
    pub fn descriptors(&self) -> usize {
        3 + self.cgroups.count()
    }
}

impl Cgroups {
    /// Descriptors in all.
    pub fn count(self) -> usize {
        usize::from(self.v2) + self.v1
    }
}

/// A command to run in a live sandbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ExecSpec {
    /// The command, its first word looked up in PATH of `env` inside the sandbox.
    pub argv: Vec<Vec<u8>>,
    /// The whole environment, K=V.
    pub env: Vec<Vec<u8>>,
    /// Directory to start in.
    pub cwd: Vec<u8>,
    /// name, uid, name:group or uid:gid; resolved inside the sandbox.
    pub user: String,
    /// File mode creation mask.
    pub umask: u32,
    /// Give it a terminal of (rows, columns); no stdio descriptors then.
    pub terminal: Option<(u16, u16)>,
}

/// Our own code to run inside.
#[derive(Debug, Serialize, Deserialize)]
pub struct CallMessage {
    /// How it comes in.
    pub entry: Entry,
    /// What to do.
    pub call: inside::Call,
    /// Descriptors of the call itself.
    pub descriptors: usize,
}
