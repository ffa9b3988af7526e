//! The group of one sandbox.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::exec::{self, ExecGroup};
use super::{children, remove_tree};
use crate::spawner::protocol::Cgroups;

/// Limits of a sandbox; 0 is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Thousandths of a processor.
    pub cpu_millis: u64,
    /// Bytes, page cache and tmpfs included.
    pub memory_bytes: u64,
    /// Processes and threads.
    pub pids: u64,
}

/// Microseconds of a scheduling period.
const PERIOD: u64 = 100_000;

/// One sandbox's group in every hierarchy.
#[derive(Debug)]
pub struct Group {
    unified: PathBuf,
    v1: Vec<(&'static str, PathBuf)>,
    limits_in_v2: bool,
    execs: AtomicU64,
}

impl Group {
    pub(super) fn create(
        unified: PathBuf,
        v1: Vec<(&'static str, PathBuf)>,
        limits_in_v2: bool,
    ) -> io::Result<Self> {
        let group = Self {
            unified,
            v1,
            limits_in_v2,
            execs: AtomicU64::new(0),
        };
        let made = group.make();
        if made.is_err() {
            group.remove();
        }
        made.map(|()| group)
    }

    fn make(&self) -> io::Result<()> {
        fs::create_dir(&self.unified)?;
        self.v1
            .iter()
            .try_for_each(|(_, directory)| fs::create_dir(directory))
    }

    /// Sets the limits of a new group.
    ///
    /// # Errors
    /// When the kernel refuses one.
    pub fn limit(&self, limits: Limits) -> io::Result<()> {
        let quota = limits.cpu_millis * PERIOD / 1000;
        if self.limits_in_v2 {
            set(&self.unified, "cpu.max", quota, || {
                format!("{quota} {PERIOD}")
            })?;
            set(&self.unified, "memory.max", limits.memory_bytes, || {
                limits.memory_bytes.to_string()
            })?;
            set(&self.unified, "pids.max", limits.pids, || {
                limits.pids.to_string()
            })?;
        }
        for (controller, directory) in &self.v1 {
            let (file, value) = match *controller {
                "memory" => ("memory.limit_in_bytes", limits.memory_bytes),
                "cpu" => ("cpu.cfs_quota_us", quota),
                _ => ("pids.max", limits.pids),
            };
            set(directory, file, value, || value.to_string())?;
        }
        Ok(())
    }

    /// A child group in which one command and all that it starts can be killed.
    ///
    /// # Errors
    /// When the directory cannot be made.
    pub fn exec_group(&self) -> io::Result<ExecGroup> {
        let number = self.execs.fetch_add(1, Ordering::Relaxed) + 1;
        ExecGroup::create(self.unified.join(format!("exec-{number}")))
    }

    /// What a process joins: the version 2 directory (of the command, if one is given) and
    /// the `tasks` files of version 1.
    ///
    /// # Errors
    /// When a file cannot be opened.
    pub fn joining(&self, exec: Option<&ExecGroup>) -> io::Result<(Cgroups, Vec<OwnedFd>)> {
        let directory = exec.map_or(&self.unified, ExecGroup::directory);
        let mut fds: Vec<OwnedFd> = vec![File::open(directory)?.into()];
        for (_, directory) in &self.v1 {
            let tasks = File::options().write(true).open(directory.join("tasks"))?;
            fds.push(tasks.into());
        }
        Ok((
            Cgroups {
                v2: true,
                v1: self.v1.len(),
            },
            fds,
        ))
    }

    /// Moves a process with all its threads into it.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn admit(&self, pid: i32) -> io::Result<()> {
        let directories = std::iter::once(&self.unified).chain(self.v1.iter().map(|(_, d)| d));
        for directory in directories {
            fs::write(directory.join("cgroup.procs"), pid.to_string())?;
        }
        Ok(())
    }

    /// Kills every process in it.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn kill(&self) -> io::Result<()> {
        fs::write(self.unified.join("cgroup.kill"), "1")
    }

    /// Waits until no process is in it. Cancel safe.
    ///
    /// # Errors
    /// When the group cannot be watched.
    pub async fn empty(&self) -> io::Result<()> {
        exec::empty(&self.unified).await
    }

    /// Host pids of every process in it, child groups included.
    ///
    /// # Errors
    /// When a group cannot be read.
    pub fn pids(&self) -> io::Result<Vec<i32>> {
        let mut pids = Vec::new();
        let mut left = vec![self.unified.clone()];
        while let Some(directory) = left.pop() {
            let text = fs::read_to_string(directory.join("cgroup.procs"))?;
            pids.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()));
            left.extend(children(&directory));
        }
        Ok(pids)
    }

    /// How often the kernel has killed for want of memory here.
    pub fn oom_kills(&self) -> u64 {
        let v1 = self.v1.iter().find(|(c, _)| *c == "memory");
        let file = match v1 {
            Some((_, directory)) => directory.join("memory.oom_control"),
            None => self.unified.join("memory.events"),
        };
        let text = fs::read_to_string(file).unwrap_or_default();
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count.and_then(|n| n.trim().parse().ok()).unwrap_or(0)
    }

    /// Limits as the kernel holds them, by name, for an observation.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn limits(&self) -> io::Result<Vec<(String, String)>> {
        let mut out = Vec::new();
        let v2: &[&str] = if self.limits_in_v2 {
            &["cpu.max", "memory.max", "pids.max"]
        } else {
            &[]
        };
        for file in v2 {
            out.push(((*file).to_owned(), read(self.unified.join(file))?));
        }
        for (controller, directory) in &self.v1 {
            let file = match *controller {
                "memory" => "memory.limit_in_bytes",
                "cpu" => "cpu.cfs_quota_us",
                _ => "pids.max",
            };
            out.push((file.to_owned(), read(directory.join(file))?));
        }
        Ok(out)
    }

    /// Removes it once it is empty; blocking.
    pub fn remove(&self) {
        remove_tree(&self.unified);
        for (_, directory) in &self.v1 {
            remove_tree(directory);
        }
    }
}

/// Writes a limit, if there is one.
fn set(directory: &Path, file: &str, value: u64, text: impl Fn() -> String) -> io::Result<()> {
    if value == 0 {
        Ok(())
    } else {
        fs::write(directory.join(file), text())
    }
}

fn read(path: PathBuf) -> io::Result<String> {
    Ok(fs::read_to_string(path)?.trim().to_owned())
}
