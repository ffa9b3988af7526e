//! What a slot cannot change, and how its class is supplied.

use crate::ids::{ClassId, ImageId, Tenant};
use serde::{Deserialize, Serialize};

/// Most reuses of a slot that any setting allows: nine rollouts in all.
pub const MAX_REUSES: u32 = 8;
/// Most images that a slot of a `carry: listed` class can name.
pub const MAX_LISTED: usize = 16;

/// When sandboxes are made and whether they come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Create when asked, destroy when returned.
    OnDemand,
    /// Keep never-used sandboxes ready, destroy when returned.
    Warm,
    /// As warm, and returned sandboxes come back after verification.
    Reuse,
}

/// When a slot that was handed out is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Replace {
    /// At every hand-out.
    OnLease,
    /// When it does not come back.
    OnLoss,
    /// As on-loss, and already when its last use begins.
    Ahead,
}

/// Which images a slot can be specialised to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Carry {
    /// The one image of its class.
    Own,
    /// Those that its create named, at most [`MAX_LISTED`].
    Listed,
    /// All of its machine's store.
    Any,
}

/// The images that one slot carries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Carries {
    /// Whatever its machine's store holds.
    Any,
    /// These.
    Images(Vec<ImageId>),
}

impl Carries {
    /// Whether a sandbox of `image` can be made in a slot that carries this.
    pub fn holds(&self, image: &ImageId) -> bool {
        match self {
            Carries::Any => true,
            Carries::Images(images) => images.contains(image),
        }
    }
}

/// Supply settings of a class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Supply {
    /// Supply mode.
    pub mode: Mode,
    /// When to replace.
    pub replace: Replace,
    /// Which images slots carry.
    pub carry: Carry,
    /// How often a slot may be used again; more than [`MAX_REUSES`] counts as that.
    pub reuses: u32,
    /// How long a slot may stand unused, and how far back demand is remembered.
    pub idle_timeout_ms: u64,
}

impl Default for Supply {
    /// The defaults of a template where slots do not shrink: reuse, ahead, any, 8 reuses, 300 s.
    fn default() -> Self {
        Self {
            mode: Mode::Reuse,
            replace: Replace::Ahead,
            carry: Carry::Any,
            reuses: MAX_REUSES,
            idle_timeout_ms: 300_000,
        }
    }
}

/// What one slot of a class takes from the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Resources {
    /// Thousandths of a CPU.
    pub cpu_milli: u64,
    /// Bytes.
    pub memory_bytes: u64,
}

/// A class as the caller declares it, at the latest with the first request for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassSpec {
    /// Digest over everything that slots of the class have in common.
    pub id: ClassId,
    /// Whose slots these are.
    pub tenant: Tenant,
    /// What each slot takes.
    pub resources: Resources,
    /// How it is supplied.
    pub supply: Supply,
    /// False where no reset can be proven (strategy `none`, host network without leave to reuse): single use.
    pub resettable: bool,
}

impl ClassSpec {
    /// Rollouts that a slot may see again after its first; 0 means single use.
    pub fn reuses(&self) -> u32 {
        match (self.resettable, self.supply.mode) {
            (true, Mode::Reuse) => self.supply.reuses.min(MAX_REUSES),
            (true, Mode::OnDemand | Mode::Warm) => 0,
            (false, Mode::OnDemand | Mode::Warm | Mode::Reuse) => 0,
        }
    }
}

/// The durable record of a class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Class {
    /// As declared.
    pub spec: ClassSpec,
    /// Being emptied: nothing is made, nothing is handed out, what returns is deleted. Ends with the last slot.
    pub draining: bool,
    /// Resets since the last one that read all contents.
    pub resets_since_full: u32,
    /// Create intents so far.
    pub creates: u64,
    /// Leases granted so far.
    pub leases: u64,
    /// Those of them for which a slot that could serve stood idle as they were asked for.
    pub warm: u64,
}
