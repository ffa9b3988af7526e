//! What a reset might leave behind, planted by the host.
//!
//! The product knows nothing of this: the host reaches into a sandbox through `/proc` and by
//! entering its namespaces, as only root outside can.

mod mapping;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, XattrFlags};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The file that is meddled with, as it is called inside.
const FILE: &str = "etc/passwd";

/// A port that nothing listens on.
const PORT: u16 = 7_007;

/// One thing that a reset left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// An extended attribute.
    Xattr,
    /// A modification time, one nanosecond off.
    Mtime,
    /// Contents, changed through a shared mapping that moved no time stamp.
    Mapped,
    /// A process.
    Process,
    /// A mount.
    Mount,
    /// A System V message queue.
    Queue,
    /// A listening socket.
    Listener,
}

/// What has to be kept for as long as a fault is to be there.
#[derive(Debug)]
pub enum Planted {
    /// Nothing.
    Stays,
    /// A process of the host that waits for the one inside.
    Process(Child),
    /// A socket.
    Socket(TcpListener),
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Xattr,
        Self::Mtime,
        Self::Mapped,
        Self::Process,
        Self::Mount,
        Self::Queue,
        Self::Listener,
    ];

    /// The component of a baseline that it differs in.
    pub fn component(self) -> &'static str {
        match self {
            Self::Xattr | Self::Mtime | Self::Mapped => "files",
            Self::Process => "processes",
            Self::Mount => "mounts",
            Self::Queue => "ipc",
            Self::Listener => "network",
        }
    }

    /// How the oracle must show it: part of a subject's name, and the field.
    pub fn shown(self) -> (&'static str, &'static str) {
        match self {
            Self::Xattr => ("file /etc/passwd", "xattr user.left"),
            Self::Mtime => ("file /etc/passwd", "mtime"),
            Self::Mapped => ("file /etc/passwd", "sha256"),
            Self::Process => ("sleep\\x007007", "comm"),
            Self::Mount => ("mount /tmp", "file system"),
            Self::Queue => ("ipc", "msg objects"),
            Self::Listener => ("net tcp", "objects"),
        }
    }

    /// Plants it into the sandbox whose pid 1 the host knows by this pid.
    ///
    /// # Errors
    /// What the kernel or a program of the host says.
    pub fn plant(self, init: u32) -> io::Result<Planted> {
        let file = PathBuf::from(format!("/proc/{init}/root")).join(FILE);
        match self {
            Self::Xattr => rustix::fs::setxattr(&file, "user.left", b"left", XattrFlags::CREATE)?,
            Self::Mtime => touch(&file)?,
            Self::Mapped => mapping::flip(&file)?,
            Self::Process => return sleeper(init).map(Planted::Process),
            Self::Mount => {
                let namespace = format!("/proc/{init}/ns/mnt");
                run(&["mount", "-N", &namespace, "-t", "tmpfs", "left", "/tmp"])?;
            }
            Self::Queue => run(&["nsenter", "-t", &init.to_string(), "-i", "ipcmk", "-Q"])?,
            Self::Listener => return listener(init).map(Planted::Socket),
        }
        Ok(Planted::Stays)
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        if let Self::Process(child) = self {
            // It may have been killed with the sandbox.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Moves a modification time by a nanosecond, and the access time not at all.
fn touch(file: &Path) -> io::Result<()> {
    let stat = rustix::fs::stat(file)?;
    let times = Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: rustix::fs::UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: stat.st_mtime,
            tv_nsec: (stat.st_mtime_nsec ^ 1).cast_signed(),
        },
    };
    Ok(rustix::fs::utimensat(CWD, file, &times, AtFlags::empty())?)
}

/// A process in all namespaces and control groups of the sandbox. It enters the groups while it
/// is still the host's.
fn sleeper(init: u32) -> io::Result<Child> {
    let inside = format!("echo up; exec sleep {PORT}");
    let enter = format!("read go; exec nsenter -t {init} -a -S 0 -G 0 sh -c '{inside}'");
    let mut child = Command::new("sh")
        .args(["-c", &enter])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    for group in groups(init)? {
        fs::write(group.join("cgroup.procs"), child.id().to_string())?;
    }
    child.stdin.take().expect("piped").write_all(b"go\n")?;
    let mut said = [0; 3];
    child.stdout.take().expect("piped").read_exact(&mut said)?;
    Ok(child)
}

/// The control groups of a process other than those of the whole machine.
fn groups(pid: u32) -> io::Result<Vec<PathBuf>> {
    let root = Path::new("/sys/fs/cgroup");
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
    let own = text.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(":/")?;
        let hierarchy = if controllers.is_empty() {
            "unified"
        } else {
            controllers
        };
        let places = [root.join(hierarchy).join(path), root.join(path)];
        if path.is_empty() {
            None
        } else {
            places.into_iter().find(|place| place.is_dir())
        }
    });
    Ok(own.collect())
}

/// A listener in the sandbox's network that no process inside holds.
fn listener(init: u32) -> io::Result<TcpListener> {
    let namespace = File::open(format!("/proc/{init}/ns/net"))?;
    let bound = std::thread::spawn(move || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
        TcpListener::bind(("127.0.0.1", PORT))
    });
    bound
        .join()
        .unwrap_or_else(|_| Err(io::Error::other("the thread broke off")))
}

fn run(argv: &[&str]) -> io::Result<()> {
    let output = Command::new(argv[0])
        .args(&argv[1..])
        .stdin(Stdio::null())
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "{argv:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    )))
}
