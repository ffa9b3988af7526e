//! Making a pod and waiting for its end, in a process that has one thread.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use super::home::{self, Home};
use super::options::{Layout, Options, Pod, Rights};
use super::program::Program;
use super::root::{self, Root};
use super::{PodError, ids};
use crate::cgroup::Group;
use crate::sys::process::{self, Fork};
use crate::sys::{caps, channel};

/// Makes the pod and waits until it has ended and nothing of it is left.
///
/// # Errors
/// [`PodError`]. At once done where a pod of this name is there already.
pub fn run(options: &Options, pod: &Pod) -> Result<(), PodError> {
    let Some(home) = Home::take(options, &pod.name)? else {
        return Ok(());
    };
    process::hold_signals(&SIGNALS).map_err(PodError::at("holding signals back"))?;
    let made = make(options, pod, &home)
        .and_then(|init| await_end(&init).map_err(PodError::at("waiting for pid 1")));
    let removed = home.remove(options, &pod.name);
    match made? {
        0 => removed,
        status => Err(PodError::Missing(format!(
            "the pod's execd ended with status {status:#x}"
        ))),
    }
}

/// What a parent of a pod listens to.
const SIGNALS: [i32; 3] = [libc::SIGCHLD, libc::SIGTERM, libc::SIGINT];

/// Waits for the end of a pod; its status. Whoever asks this process to end asks the pod, and
/// insists the second time.
fn await_end(init: &Init) -> io::Result<i32> {
    let mut signals = [libc::SIGTERM, libc::SIGKILL].into_iter();
    loop {
        if process::ended_child() == Some(init.pid) {
            return process::wait(init.pid);
        }
        let told = process::await_signal(&SIGNALS)? != libc::SIGCHLD;
        if told && let Some(signal) = signals.next() {
            process::signal(init.pidfd.as_fd(), signal)?;
        }
    }
}

struct Init {
    pid: i32,
    pidfd: OwnedFd,
}

fn make(options: &Options, pod: &Pod, home: &Home) -> Result<Init, PodError> {
    let program = Program::own(pod.layout)?;
    let root = Root::plan(options, pod, home, program)?;
    let listener = listener(pod, &root)?;
    let group = group(options, pod)?;
    let (ours, theirs) = channel::pair().map_err(PodError::at("making a channel"))?;
    let network = if pod.host_network {
        0
    } else {
        process::NEW_NET
    };
    let users = match options.rights {
        Rights::Pod => 0,
        Rights::User => process::NEW_USER,
    };
    let flags = process::NEW_PID
        | process::NEW_MOUNT
        | process::NEW_IPC
        | process::NEW_UTS
        | network
        | users;
    // SAFETY: this program has one thread here.
    #[allow(unsafe_code)]
    let fork = unsafe { process::fork(flags, None) };
    match fork.map_err(PodError::at("making namespaces"))? {
        Fork::Child => {
            drop(ours);
            let Err(error) = become_pod(pod, &root, listener.as_ref(), theirs.as_fd());
            eprintln!("execd: {:#}", anyhow::Error::new(error));
            process::exit(1)
        }
        Fork::Parent { pid, pidfd } => {
            // Nobody is to connect to a pod that has ended.
            drop(listener);
            let released = admit((options, pod), home, group.as_ref(), pid).and_then(|()| {
                drop(theirs);
                ids::release(ours.as_fd())
            });
            if released.is_err() {
                let _ = process::signal(pidfd.as_fd(), libc::SIGKILL);
                let _ = process::wait(pid);
            }
            released.map(|()| Init { pid, pidfd })
        }
    }
}

/// The pod's control group, with its limits. An ordinary user has none to give.
fn group(options: &Options, pod: &Pod) -> Result<Option<Group>, PodError> {
    match options.rights {
        Rights::User => Ok(None),
        Rights::Pod => {
            let make = || {
                let group = home::groups(&options.state)?.create(&pod.name)?;
                group.limit(pod.limits)?;
                Ok(group)
            };
            let made: io::Result<Group> = make();
            made.map(Some)
                .map_err(PodError::at("making its control group"))
        }
    }
}

/// What pid 1 cannot do for itself: ids, control group and record.
fn admit(
    (options, pod): (&Options, &Pod),
    home: &Home,
    group: Option<&Group>,
    pid: i32,
) -> Result<(), PodError> {
    if options.rights == Rights::User {
        ids::map(pid)?;
    }
    if let Some(group) = group {
        group
            .admit(pid)
            .map_err(PodError::at("putting it into its control group"))?;
    }
    home.record(pid, &pod.layers)
}

/// In the pod's pid 1: from the launcher's rights and view to a default pod's.
fn become_pod(
    pod: &Pod,
    root: &Root,
    listener: Option<&OwnedFd>,
    channel: BorrowedFd<'_>,
) -> Result<std::convert::Infallible, PodError> {
    ids::await_map(channel).map_err(PodError::at("waiting for its ids"))?;
    process::become_ids(0, 0, &[]).map_err(PodError::at("becoming root"))?;
    // Before the control group namespace its own group would be out of sight.
    process::unshare(process::NEW_CGROUP).map_err(PodError::at("making a cgroup namespace"))?;
    process::set_hostname(root::host_name(pod)).map_err(PodError::at("naming the host"))?;
    if !pod.host_network {
        process::loopback_up().map_err(PodError::at("setting loopback up"))?;
    }
    let volumes = root.enter()?;
    let null = File::open("/dev/null").map_err(PodError::at("opening /dev/null"))?;
    process::move_to(null.as_fd(), 0).map_err(PodError::at("closing standard input"))?;
    drop(null);
    let kept = keep(listener, volumes.as_ref())?;
    process::close_from(kept).map_err(PodError::at("closing descriptors"))?;
    process::default_signals();
    // A default pod may change its ids and then has what its capabilities say.
    caps::bound(caps::DOCKER).map_err(PodError::at("bounding capabilities"))?;
    caps::set(caps::DOCKER).map_err(PodError::at("setting capabilities"))?;
    let places = root::places(pod.layout);
    let words = places.words(pod).map_err(PodError::at("its words"))?;
    let variables = places
        .variables(pod)
        .map_err(PodError::at("its variables"))?;
    let error = process::exec(&words[0], &words, &variables);
    Err(PodError::at("starting execd in it")(error))
}

/// Places the descriptors that execd is told of; the number of the first that is none of them.
fn keep(listener: Option<&OwnedFd>, volumes: Option<&OwnedFd>) -> Result<u32, PodError> {
    let (Some(listener), Some(volumes)) = (listener, volumes) else {
        return Ok(3);
    };
    let place = || PodError::at("placing its descriptors");
    // Out of each other's way first.
    let listener = rustix::io::fcntl_dupfd_cloexec(listener, 10).map_err(|e| place()(e.into()))?;
    let volumes = rustix::io::fcntl_dupfd_cloexec(volumes, 10).map_err(|e| place()(e.into()))?;
    process::move_to(listener.as_fd(), root::LISTENER).map_err(place())?;
    process::move_to(volumes.as_fd(), root::VOLUMES).map_err(place())?;
    Ok(root::VOLUMES as u32 + 1)
}

/// The socket of a pod whose guest shares its root: made here, where the guest never is.
fn listener(pod: &Pod, root: &Root) -> Result<Option<OwnedFd>, PodError> {
    if pod.layout != Layout::Plain {
        return Ok(None);
    }
    let step = || PodError::at("making its socket");
    let run = File::open(root.run()).map_err(step())?;
    // A path beyond the limit of a socket's address is bound through the folder's descriptor.
    let path = format!("/proc/self/fd/{}/execd.sock", run.as_raw_fd());
    let listener = UnixListener::bind(&path).map_err(step())?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(step())?;
    Ok(Some(listener.into()))
}

/// A file with a fixed text, as runtimes write them.
pub(super) fn write(path: &std::path::Path, text: &str) -> Result<(), PodError> {
    fs::write(path, text).map_err(PodError::at(format!("writing {}", path.display())))
}
