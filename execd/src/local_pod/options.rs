//! What a local pod is made from.

use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::{Arg, Parser, ValueExt};

use super::PodError;
use crate::cgroup::Limits;

/// Whose rights make the pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// Root makes it; in it is root with a default pod's capabilities.
    Pod,
    /// An ordinary user makes it, in a user namespace with ids of its own.
    User,
}

/// Where its root comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Execd alone, with the layer store mounted read only.
    Mounted,
    /// The task's image, to be taken apart.
    Sliced,
    /// The task's image as it is.
    Plain,
}

impl Layout {
    /// The word in options.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mounted => "mounted",
            Self::Sliced => "sliced",
            Self::Plain => "plain",
        }
    }
}

/// Options of `execd pod`.
#[derive(Debug)]
pub struct Options {
    /// The state directory of this machine's innkeeper.
    pub state: PathBuf,
    /// Whose rights.
    pub rights: Rights,
    /// What to do.
    pub task: Task,
}

/// What `execd pod` is for.
#[derive(Debug)]
pub enum Task {
    /// Make this pod and wait for its end.
    Make(Box<Pod>),
    /// Remove what dead ones left.
    Sweep,
    /// Say whether pods can be made.
    Probe,
    /// Let all pods of a tenant read what one has prepared.
    Publish(Prepared),
}

/// A prepared layer in the pod that made it.
#[derive(Debug)]
pub struct Prepared {
    /// The pod.
    pub pod: String,
    /// Whose it is.
    pub tenant: String,
    /// The template key.
    pub key: String,
}

/// One pod.
#[derive(Debug)]
pub struct Pod {
    /// Its slot's name.
    pub name: String,
    /// Whose it is: tenants share no prepared layers.
    pub tenant: String,
    /// Where its root comes from.
    pub layout: Layout,
    /// Layers of its image, bottom first.
    pub layers: Vec<String>,
    /// Shares the network of this machine.
    pub host_network: bool,
    /// Its limits, set from outside as a kubelet would.
    pub limits: Limits,
    /// Milliseconds without a manager after which it ends itself.
    pub orphan_ttl_ms: u64,
}

impl Options {
    /// Reads the words behind `execd pod`.
    ///
    /// # Errors
    /// [`PodError::Usage`].
    pub fn parse(words: impl Iterator<Item = OsString>) -> Result<Self, PodError> {
        let usage = |error: lexopt::Error| PodError::Usage(error.to_string());
        let mut parser = Parser::from_args(words);
        let (mut state, mut name, mut layout) = (None, None, Layout::Mounted);
        let (mut rights, mut task, mut publish) = (Rights::Pod, None, None);
        let mut pod = Pod {
            name: String::new(),
            tenant: "default".to_owned(),
            layout,
            layers: Vec::new(),
            host_network: false,
            limits: Limits::default(),
            orphan_ttl_ms: 0,
        };
        while let Some(arg) = parser.next().map_err(usage)? {
            let Arg::Long(option) = arg else {
                return Err(usage(arg.unexpected()));
            };
            match option {
                "sweep" => {
                    task = Some(Task::Sweep);
                    continue;
                }
                "probe" => {
                    task = Some(Task::Probe);
                    continue;
                }
                _ => {}
            }
            let option = option.to_owned();
            let value = parser.value().map_err(usage)?;
            let number = || value.parse::<u64>().map_err(usage);
            let word = || value.clone().string().map_err(usage);
            match option.as_str() {
                "state" => state = Some(PathBuf::from(value)),
                "name" => name = Some(safe(&word()?)?),
                "publish" => publish = Some(safe(&word()?)?),
                "tenant" => pod.tenant = safe(&word()?)?,
                "layout" => layout = read_layout(&word()?)?,
                "rights" => rights = read_rights(&word()?)?,
                "layers" => {
                    let layers = word()?;
                    let names = layers.split(',').filter(|name| !name.is_empty());
                    pod.layers = names.map(safe).collect::<Result<_, _>>()?;
                }
                "network" => pod.host_network = word()? == "host",
                "cpu-millis" => pod.limits.cpu_millis = number()?,
                "memory" => pod.limits.memory_bytes = number()?,
                "pids" => pod.limits.pids = number()?,
                "orphan-ttl-ms" => pod.orphan_ttl_ms = number()?,
                other => {
                    return Err(PodError::Usage(format!(
                        "execd pod has no option --{other}"
                    )));
                }
            }
        }
        let missing = |what: &str| PodError::Usage(format!("{what} is missing"));
        let state = match (state, &task) {
            (Some(state), _) => state,
            (None, Some(Task::Probe)) => PathBuf::new(),
            (None, Some(Task::Sweep | Task::Make(_) | Task::Publish(_)) | None) => {
                return Err(missing("--state DIR"));
            }
        };
        if let Some(task) = task {
            return Ok(Self {
                state,
                rights,
                task,
            });
        }
        pod.name = name.ok_or_else(|| missing("--name SLOT"))?;
        if let Some(key) = publish {
            let task = Task::Publish(Prepared {
                pod: pod.name,
                tenant: pod.tenant,
                key,
            });
            return Ok(Self {
                state,
                rights,
                task,
            });
        }
        pod.layout = layout;
        if layout != Layout::Mounted && pod.layers.is_empty() {
            return Err(missing("--layers ID,ID.."));
        }
        Ok(Self {
            state,
            rights,
            task: Task::Make(Box::new(pod)),
        })
    }
}

fn read_layout(word: &str) -> Result<Layout, PodError> {
    match word {
        "mounted" => Ok(Layout::Mounted),
        "sliced" => Ok(Layout::Sliced),
        "plain" => Ok(Layout::Plain),
        other => Err(PodError::Usage(format!("there is no layout {other}"))),
    }
}

fn read_rights(word: &str) -> Result<Rights, PodError> {
    match word {
        "pod" => Ok(Rights::Pod),
        "user" => Ok(Rights::User),
        other => Err(PodError::Usage(format!("a pod has no rights {other}"))),
    }
}

/// A word that is one name of a folder, since it becomes one.
fn safe(word: &str) -> Result<String, PodError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    if word.is_empty() || word.starts_with('.') || word.len() > 128 || !word.chars().all(plain) {
        return Err(PodError::Usage(format!("\"{word}\" is no name")));
    }
    Ok(word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, PodError> {
        Options::parse(line.split(' ').map(OsString::from))
    }

    #[test]
    fn a_pod_is_described() {
        let options =
            parse("--state /s --name a-1 --layout sliced --layers x,y --rights user --pids 7");
        let Options { rights, task, .. } = options.unwrap();
        let Task::Make(pod) = task else {
            panic!("{task:?}")
        };
        assert_eq!((rights, pod.layout), (Rights::User, Layout::Sliced));
        assert_eq!(pod.layers, ["x", "y"]);
        assert_eq!(pod.limits.pids, 7);
    }

    #[test]
    fn what_would_leave_its_folder_or_lacks_something_is_refused() {
        for line in [
            "--state /s --name ../x",
            "--state /s --name a/b",
            "--state /s --name a --layout sliced",
            "--state /s",
            "--name a",
            "--state /s --name a --rights root",
            "--state /s --name a --layers x,../y",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
