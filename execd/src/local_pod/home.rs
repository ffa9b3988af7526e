//! The folder that a pod has on the machine, and what is left of one that is dead.
//!
//! ```text
//! STATE/pods/SLOT/pod.json   its processes and rights
//!                /log        what its execd says
//!                /run/       execd.sock
//!                /state/     its state volume
//!                /root/      where its root is mounted, seen by nobody else
//! STATE/pods/.prepared/TENANT/   prepared layers, which all pods of a tenant read
//! STATE/pods/.trash/
//! ```

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use super::options::{Options, Prepared, Rights};
use super::{PodError, ids};
use crate::cgroup::Hierarchy;

/// A process that is not confused with a later one of the same number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pid: i32,
    /// Ticks between the machine's start and its own.
    start: u64,
}

impl Process {
    /// The process that has this pid now.
    pub fn now(pid: i32) -> io::Result<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        // The name in parentheses may hold anything; 19 fields after it comes the start.
        let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let mut fields = rest.split_whitespace();
        let state = fields.next().unwrap_or_default();
        let start = fields.nth(18).and_then(|field| field.parse().ok());
        match start {
            Some(start) if state != "Z" => Ok(Self { pid, start }),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Whether it still runs.
    pub fn lives(&self) -> bool {
        Self::now(self.pid).is_ok_and(|now| now == *self)
    }
}

/// What a pod's folder says of it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Record {
    /// Which start of the machine the processes are of.
    pub machine: String,
    /// The pod's pid 1.
    pub init: Process,
    /// Who waits for it.
    pub parent: Process,
    /// Layers of its own root.
    pub layers: Vec<String>,
}

/// A pod's folder, held by its lock.
#[derive(Debug)]
pub struct Home {
    path: PathBuf,
    _lock: File,
}

impl Home {
    /// Takes the folder of a pod, empty; None where a pod of this name is there already.
    pub fn take(options: &Options, name: &str) -> Result<Option<Self>, PodError> {
        let pods = pods(&options.state);
        let fail = |path: &Path| PodError::at(format!("making {}", path.display()));
        for path in [&pods, &pods.join(".trash"), &pods.join(".locks")] {
            private(path).map_err(fail(path))?;
        }
        let path = pods.join(name);
        let lock = lock(&pods.join(".locks").join(name)).map_err(fail(&pods))?;
        let Some(lock) = lock.filter(|_| !read(&path).is_some_and(|pod| pod.init.lives())) else {
            return Ok(None);
        };
        remove(options, name)?;
        private(&path).map_err(fail(&path))?;
        Ok(Some(Self { path, _lock: lock }))
    }

    /// Makes a folder in it.
    pub fn folder(&self, name: &str) -> Result<PathBuf, PodError> {
        let path = self.path.join(name);
        private(&path).map_err(PodError::at(format!("making {}", path.display())))?;
        Ok(path)
    }

    /// Says which processes the pod is, and what it stands on.
    pub fn record(&self, init: i32, layers: &[String]) -> Result<(), PodError> {
        let step = || PodError::at("recording its processes");
        let record = Record {
            machine: machine().map_err(step())?,
            init: Process::now(init).map_err(step())?,
            parent: Process::now(std::process::id() as i32).map_err(step())?,
            layers: layers.to_vec(),
        };
        let bytes = serde_json::to_vec(&record).map_err(|e| step()(e.into()))?;
        let (new, path) = (self.path.join("pod.json.new"), self.path.join("pod.json"));
        fs::write(&new, bytes).map_err(step())?;
        fs::rename(&new, &path).map_err(step())
    }

    /// Removes all of a pod that has ended.
    pub fn remove(self, options: &Options, name: &str) -> Result<(), PodError> {
        let removed = remove(options, name);
        let _ = fs::remove_file(pods(&options.state).join(".locks").join(name));
        removed
    }
}

/// Takes a lock file; None where another process has it. One that its last holder removed before
/// it was locked here is no lock any more.
fn lock(path: &Path) -> io::Result<Option<File>> {
    loop {
        let file = File::create(path)?;
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(None);
        }
        match fs::metadata(path) {
            Ok(now) if now.ino() == file.metadata()?.ino() => return Ok(Some(file)),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
}

/// The folder of all pods.
pub fn pods(state: &Path) -> PathBuf {
    state.join("pods")
}

/// Where the prepared layers of a tenant's pods lie.
pub fn prepared(state: &Path, tenant: &str) -> PathBuf {
    pods(state).join(".prepared").join(tenant)
}

/// Moves a prepared layer out of the pod that made it to where every pod of its tenant reads it,
/// and none writes. The one who made it finds it there too.
///
/// # Errors
/// [`PodError::Step`] where it is in neither place.
pub fn publish(options: &Options, layer: &Prepared) -> Result<(), PodError> {
    let Prepared { pod, tenant, key } = layer;
    let from = pods(&options.state)
        .join(pod)
        .join("state/prepared")
        .join(key);
    let to = prepared(&options.state, tenant).join(key);
    let work = || match fs::rename(&from, &to) {
        // Another pod was first, or this is asked for again.
        Err(_) if to.exists() => Ok(()),
        done => done,
    };
    match options.rights {
        Rights::Pod => work().map_err(PodError::at("publishing a prepared layer")),
        Rights::User => ids::within(work),
    }
}

/// The control groups of the pods of a state directory; beside those of its daemon, which sweeps
/// its own.
pub fn groups(state: &Path) -> io::Result<Hierarchy> {
    let state = fs::canonicalize(state)?;
    let hash = blake3::hash(state.as_os_str().as_encoded_bytes()).to_hex();
    Hierarchy::open(&format!("pods-{}", &hash[..12]))
}

/// Removes what dead pods have left. One that lives is not touched.
///
/// # Errors
/// [`PodError::Step`] where something of one cannot be removed.
pub fn sweep(options: &Options) -> Result<(), PodError> {
    let pods = pods(&options.state);
    let names = fs::read_dir(&pods).into_iter().flatten().flatten();
    for name in names.filter_map(|entry| entry.file_name().into_string().ok()) {
        if name.starts_with('.') {
            continue;
        }
        // A pod that lives or is being made is held.
        if let Some(home) = Home::take(options, &name)? {
            home.remove(options, &name)?;
        }
    }
    empty(options, &pods.join(".trash"))
}

fn remove(options: &Options, name: &str) -> Result<(), PodError> {
    if options.rights == Rights::Pod
        && let Ok(groups) = groups(&options.state)
    {
        groups.forget(name);
    }
    let pods = pods(&options.state);
    let (path, trash) = (pods.join(name), pods.join(".trash"));
    let away = trash.join(format!("{name}.{}", std::process::id()));
    match fs::rename(&path, &away) {
        Ok(()) => empty(options, &trash),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(PodError::at(format!("removing {}", path.display()))(error)),
    }
}

/// Empties the trash, with the rights of who made what lies in it.
fn empty(options: &Options, trash: &Path) -> Result<(), PodError> {
    let work = || {
        for entry in fs::read_dir(trash).into_iter().flatten().flatten() {
            match fs::remove_dir_all(entry.path()) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    };
    let step = PodError::at(format!("emptying {}", trash.display()));
    match options.rights {
        Rights::Pod => work().map_err(step),
        Rights::User => ids::within(work),
    }
}

fn read(path: &Path) -> Option<Record> {
    let bytes = fs::read(path.join("pod.json")).ok()?;
    let record: Record = serde_json::from_slice(&bytes).ok()?;
    (machine().ok()? == record.machine).then_some(record)
}

fn machine() -> io::Result<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(id.trim().to_owned())
}

/// A folder that only its owner enters.
fn private(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_start_too() {
        let own = Process::now(std::process::id() as i32).unwrap();
        assert!(own.lives());
        let other = Process {
            start: own.start + 1,
            ..own
        };
        assert!(!other.lives());
    }
}
