//! Templates as people write them: the file, its fields and their defaults.
//!
//! A file goes through three steps: it is read into a [`Template`] (this page), resolved against
//! the image store into a [`Resolved`] ([`resolve`]), and thereby given its template key
//! ([`key`]) and slot class ([`class`]).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

mod check;
pub mod class;
pub mod form;
pub mod key;
pub mod parse;
pub mod resolve;
mod scrub;

use parse::{Cpu, Size, Span};
pub use resolve::Resolved;

/// A template file: every field may be left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Template {
    /// Name, digest or unique digest prefix of an image in the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// What HEAD of the working directory must be once prepare is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_commit: Option<String>,
    /// Absolute; else the image's, else `/`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
    /// name, uid, name:group or uid:gid; else the image's, else root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Added to the image's environment and overriding it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Commands run once per template key, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prepare: Vec<Vec<String>>,
    /// Programs that run beside the guest's commands.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<Service>,
    /// Limits; one left out is no limit of the sandbox's own.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub resources: Resources,
    /// Where a sandbox's writes go.
    pub upper: Upper,
    /// Whether the working directory is copied into a fresh upper.
    pub workdir_copy: WorkdirCopy,
    /// The network of the guest.
    pub network: Network,
    /// The network while prepare runs; else that of the guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prepare_network: Option<Network>,
    /// Use a sandbox with the host's network more than once.
    pub reuse_host_network: bool,
    /// How a returned sandbox is put back.
    pub strategy: Strategy,
    /// Whose rights execd builds sandboxes with.
    pub rights: Rights,
    /// Paths that an in-place reset restores.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub restore: Vec<String>,
    /// How often a reset is verified deeper than by swap.
    pub verify: Verify,
    /// Supply settings: a default for a class not declared yet, never part of the key.
    #[serde(skip_serializing_if = "Supply::is_empty")]
    pub supply: Supply,
    /// Kubernetes: the pod's runtime class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_class: Option<String>,
    /// Kubernetes: labels that a node must have.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Kubernetes: tolerations as in a pod.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<serde_json::Value>,
    /// Kubernetes: names of secrets to pull with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pull_secrets: Vec<String>,
    /// Kubernetes: the pod's priority class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class: Option<String>,
}

/// A service with its readiness probe; without a probe it is ready once it runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// Unique in the template.
    pub name: String,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Added to the template's environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Else the template's working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Else the template's user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// How it is known to be ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<Ready>,
}

/// A readiness probe: exactly one of its fields is set, which [`resolve::bind`] checks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Ready {
    /// A command that exits 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
    /// A port of loopback that accepts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp: Option<u16>,
    /// An address on loopback that answers with a status below 400.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<String>,
}

/// Limits of one sandbox.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Resources {
    /// CPUs: `"1"`, `0.5`, `"500m"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    /// Memory, the page cache and a memory upper included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Size>,
    /// Processes and threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pids: Option<u64>,
    /// Bytes written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<Size>,
    /// Files written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inodes: Option<u64>,
}

impl Resources {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Defines an enum whose words are those of the file, with the first as the default.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$vdoc])* #[serde(rename = $word)] $variant),+
        }

        impl $name {
            /// The word in the file.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// Every word that there is.
            pub const WORDS: &'static [&'static str] = &[$($word),+];
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(word: &str) -> Result<Self, String> {
                match word {
                    $($word => Ok(Self::$variant),)+
                    other => Err(format!("\"{other}\": write {}", Self::WORDS.join(" or "))),
                }
            }
        }
    };
}

words!(
    /// Where a sandbox's writes go.
    Upper {
        /// Disk where the wished size does not fit memory.
        #[default] Auto = "auto",
        /// A file system in memory.
        Memory = "memory",
        /// The state directory's file system.
        Disk = "disk",
    }
);
words!(
    /// Whether the working directory is copied into a fresh upper.
    WorkdirCopy {
        /// Decided once by size, where the platform needs it.
        #[default] Auto = "auto",
        /// Always.
        Yes = "yes",
        /// Never.
        No = "no",
    }
);
words!(
    /// A network that a sandbox is given.
    Network {
        /// Its own, with loopback only.
        #[default] None = "none",
        /// The host's.
        Host = "host",
        /// The pod's.
        Pod = "pod",
    }
);
words!(
    /// How a returned sandbox is put back.
    Strategy {
        /// The best that the platform allows.
        #[default] Auto = "auto",
        /// One overlay over the image.
        Layered = "layered",
        /// Overlays over parts of the image.
        Sliced = "sliced",
        /// Changes undone entry by entry.
        InPlace = "in-place",
        /// Not at all: single use.
        None = "none",
    }
);
words!(
    /// Whose rights execd builds sandboxes with.
    Rights {
        /// Those that it has.
        #[default] Auto = "auto",
        /// Root's.
        Root = "root",
        /// A default pod's.
        Pod = "pod",
        /// An ordinary user's.
        User = "user",
    }
);
words!(
    /// Who makes sandboxes ready before they are asked for.
    Mode {
        /// Nobody: create when asked.
        OnDemand = "on-demand",
        /// Never used ones stand ready.
        Warm = "warm",
        /// As warm, and returned ones come back after verification.
        #[default] Reuse = "reuse",
    }
);
words!(
    /// When a slot that was handed out is replaced.
    Replace {
        /// At once.
        OnLease = "on-lease",
        /// When it does not come back.
        OnLoss = "on-loss",
        /// As on loss, and when its last use begins.
        #[default] Ahead = "ahead",
    }
);
words!(
    /// Which images a slot carries.
    Carry {
        /// Its one image.
        Own = "own",
        /// Those that its pod names.
        Listed = "listed",
        /// All of the store.
        #[default] Any = "any",
    }
);
words!(
    /// What an idle slot gives up. Kubernetes only.
    Shrink {
        /// Nothing.
        #[default] Off = "off",
        /// Requests and limits.
        Full = "full",
        /// Requests.
        Requests = "requests",
    }
);

/// How often a reset is verified deeper than by swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Verify {
    /// Every n-th reset of a slot walks the merged tree; 0 and 1: every one.
    pub walk_every: u32,
    /// Every n-th reset of a class reads all contents; 0 and 1: every one.
    pub full_every: u32,
}

impl Default for Verify {
    fn default() -> Self {
        Self {
            walk_every: 4,
            full_every: 64,
        }
    }
}

/// Supply settings; what is left out comes from the class's declaration or its default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Supply {
    /// Default reuse.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Default ahead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replace: Option<Replace>,
    /// Default any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carry: Option<Carry>,
    /// How often a slot is used again; default and at most 8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reuses: Option<u32>,
    /// How long a slot stands idle before it is given up; default 300s where slots do not shrink.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<Span>,
    /// Kubernetes only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shrink: Option<Shrink>,
    /// Kubernetes only: full requests of a node's slots over what the node has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overcommit: Option<f64>,
}

impl Supply {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Why a template cannot be used. Always the writer's to mend.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("template {path} cannot be read: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A field is unknown, missing or of the wrong form; the parser names it.
    #[error("the template is not valid: {0}")]
    Parse(String),
    /// A field's value makes no sense; the sentence names the field.
    #[error("the template is not valid: {0}")]
    Value(String),
    /// Valid, but not built yet.
    #[error("the template asks for {0}, which this version does not have yet")]
    NotYet(String),
    /// Slots of this form cannot be made here; the sentence says why and what to do.
    #[error("{0}")]
    Form(String),
    /// The image store does not have it, or cannot be read.
    #[error(transparent)]
    Image(#[from] innkeeper_images::Error),
}

impl FromStr for Template {
    type Err = Error;

    /// Reads YAML or JSON. JSON is tried first where the text looks like it, since its own
    /// parser gives the better message.
    fn from_str(text: &str) -> Result<Self, Error> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        if text.trim_start().starts_with('{') {
            let json = serde_json::from_str(text);
            if let Ok(template) = json {
                return Ok(template);
            }
            // A YAML flow mapping also starts with a brace.
            return serde_yaml_ng::from_str(text)
                .map_err(|_| Error::Parse(json.unwrap_err().to_string()));
        }
        serde_yaml_ng::from_str(text).map_err(|error| Error::Parse(error.to_string()))
    }
}

impl Template {
    /// Reads a template file.
    pub fn from_path(path: &Path) -> Result<Self, Error> {
        let read = |source| Error::Read {
            path: path.to_owned(),
            source,
        };
        std::fs::read_to_string(path).map_err(read)?.parse()
    }

    /// The form in which a lease request carries it.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a template has only string keys")
    }
}

#[cfg(test)]
mod tests;
