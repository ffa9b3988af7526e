//! The spawner's end: one loop over the daemon's socket, its children and those of its
//! commands that have not started yet. Nothing a guest does can block it.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};

use super::build;
use super::enter::{self, Entrant, News};
use super::namespaces;
use super::protocol::{Reply, Request};
use super::wire;
use crate::pod;
use crate::sys::{mount, process, seccomp::Filter};

/// The word that says that commands get no filter of system calls, since none can be had.
pub const UNFILTERED: &str = "unfiltered";

/// What the loop keeps.
struct Server {
    socket: OwnedFd,
    proc: OwnedFd,
    filter: Filter,
    /// Entrants that have not said yet that they run, by request.
    starting: HashMap<u64, Entrant>,
    /// Requests by the pid of their running command.
    running: HashMap<i32, u64>,
    /// Pids of live inits, to end all sandboxes when the daemon is gone. Each stays that
    /// process's until it is reaped here. No descriptors: the table of descriptors of every
    /// later pid 1 is as large as this process's, and `/proc/1/status` shows how large.
    inits: HashSet<i32>,
    /// In a pod, what belongs to the daemon, and who waits until there is nothing else.
    pod: Option<pod::Vigil>,
}

/// The spawner's whole life: its socket is standard input, moved away so that nothing that
/// is forked from here finds it there. `words` say where it is: none on a machine, else what
/// [`pod::settle`] takes.
///
/// # Errors
/// As [`run`].
pub fn start(words: &[String]) -> io::Result<()> {
    let socket = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 10)?;
    let null = std::fs::File::open("/dev/null")?;
    process::move_to(null.as_fd(), 0)?;
    rustix::thread::set_name(c"sandbox-init")?;
    settle()?;
    let (proc, vigil) = if words.is_empty() {
        (on_machine()?, None)
    } else {
        let (proc, vigil) = pod::settle(words)?;
        (proc, Some(vigil))
    };
    let filter = if words.iter().any(|word| word == UNFILTERED) {
        Filter::none()
    } else {
        Filter::guest()
    };
    run(socket, proc, vigil, filter)
}

/// Signals, file mode mask, limits and priority that sandboxes inherit: the same from whatever shell the daemon was
/// started, since two sandboxes of one template must not differ by it.
fn settle() -> io::Result<()> {
    // What a shell or nohup had ignored would be ignored in every pid 1.
    process::default_signals();
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    process::limit(libc::RLIMIT_CORE, 0)?;
    process::limit(libc::RLIMIT_NOFILE, OPEN_FILES)?;
    // May fail without rights over priorities; then the observation says so.
    let _ = rustix::process::setpriority_process(None, 0);
    Ok(())
}

/// Descriptors that one process may have open, where the machine allows as many.
const OPEN_FILES: u64 = 1 << 20;

/// Runs until the daemon closes its socket; then every sandbox is killed.
///
/// # Errors
/// When the spawner cannot confine itself or its socket breaks.
fn run(socket: OwnedFd, proc: OwnedFd, pod: Option<pod::Vigil>, filter: Filter) -> io::Result<()> {
    let children = process::child_signals()?;
    let mut server = Server {
        socket,
        proc,
        filter,
        starting: HashMap::new(),
        running: HashMap::new(),
        inits: HashSet::new(),
        pod,
    };
    while server.turn(children.as_fd())? {}
    for pid in server.inits {
        let _ = process::pidfd(pid).and_then(|pidfd| process::signal(pidfd.as_fd(), libc::SIGKILL));
    }
    Ok(())
}

/// Out of the machine's namespaces; a procfs of its pids.
fn on_machine() -> io::Result<OwnedFd> {
    let proc =
        mount::Filesystem::open(c"proc")?.mount(mount::NOSUID | mount::NODEV | mount::NOEXEC)?;
    confine()?;
    small_socket_tables(&proc)?;
    Ok(proc)
}

/// An empty, read-only root in a mount namespace of its own.
fn confine() -> io::Result<()> {
    process::unshare(process::NEW_MOUNT)?;
    let root = mount::Filesystem::open(c"tmpfs")?;
    root.set(c"size", "4k")?;
    root.set(c"nr_inodes", "4")?;
    root.set(c"mode", "0555")?;
    let root = root.mount(mount::NOSUID | mount::NODEV | mount::NOEXEC)?;
    // Here a pid 1 that stands by has its mounts; three directories and the root are all
    // the entries that there can be.
    for place in build::PLACES {
        rustix::fs::mkdirat(&root, place, rustix::fs::Mode::from_raw_mode(0o555))?;
    }
    mount::abandon_root_for(root.as_fd())?;
    mount::set_attributes(root.as_fd(), mount::RDONLY, None)?;
    process::set_dumpable(false)
}

/// Network namespaces made from here get socket tables of their own, and small ones: the
/// machine's shared tables have half a million buckets, and reading `/proc/net/tcp` walks
/// them all (5 ms a table, in every observation of a sandbox).
fn small_socket_tables(proc: &OwnedFd) -> io::Result<()> {
    process::unshare(process::NEW_NET)?;
    for (file, buckets) in [
        ("tcp_child_ehash_entries", b"256"),
        ("udp_child_hash_entries", b"256"),
    ] {
        let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::CLOEXEC;
        let path = format!("sys/net/ipv4/{file}");
        // Kernels before 6.2 do not have them; then observing is slower.
        if let Ok(file) = rustix::fs::openat(proc, path, flags, rustix::fs::Mode::empty()) {
            rustix::io::write(&file, buckets)?;
        }
    }
    Ok(())
}

impl Server {
    /// One turn of the loop; false when the daemon is gone.
    fn turn(&mut self, children: BorrowedFd<'_>) -> io::Result<bool> {
        let order: Vec<u64> = self.starting.keys().copied().collect();
        let ready =
            {
                let mut watched = vec![
                    PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN),
                    PollFd::from_borrowed_fd(children, PollFlags::IN),
                ];
                watched.extend(order.iter().filter_map(|id| self.starting.get(id)).map(
                    |entrant| PollFd::from_borrowed_fd(entrant.channel.as_fd(), PollFlags::IN),
                ));
                match poll(&mut watched, None) {
                    Err(rustix::io::Errno::INTR) => return Ok(true),
                    other => other?,
                };
                watched
                    .iter()
                    .map(|w| !w.revents().is_empty())
                    .collect::<Vec<_>>()
            };
        for (place, id) in order.into_iter().enumerate() {
            if ready[place + 2] {
                self.hear(id)?;
            }
        }
        if ready[1] {
            drain(children);
            while let Some(pid) = process::ended_child() {
                self.ended(pid)?;
            }
            self.tell_if_empty()?;
        }
        if ready[0] {
            let Some((id, request, fds)) = wire::receive(self.socket.as_fd())? else {
                return Ok(false);
            };
            self.serve(id, request, fds)?;
        }
        Ok(true)
    }

    fn serve(&mut self, id: u64, request: Request, fds: Vec<OwnedFd>) -> io::Result<()> {
        let outcome = match request {
            Request::Kit { base } => {
                namespaces::make(self.proc.as_fd(), base).map(|fds| (Reply::Kit, fds))
            }
            Request::StandBy(spec) => {
                build::stand_by(&spec, fds, &self.filter).map(|(pid, pidfd, channel)| {
                    self.inits.insert(pid);
                    (Reply::Forked { pid }, vec![pidfd, channel])
                })
            }
            Request::Assemble(recipe) => {
                let made = pod::assemble(&recipe, self.proc.as_fd(), &self.filter);
                made.map(|made| {
                    if let Some(vigil) = &mut self.pod {
                        vigil.keep(made.killer);
                    }
                    let (killer, seen) = (made.killer, made.seen);
                    (Reply::Assembled { killer, seen }, made.descriptors)
                })
            }
            Request::AwaitEmpty => {
                if let Some(vigil) = &mut self.pod {
                    vigil.await_empty(id);
                }
                return self.tell_if_empty();
            }
            Request::Exec(entry) => {
                return self.start(id, enter::exec(entry, fds, &self.filter));
            }
            Request::Call(message) => {
                return self.start(id, enter::call(message, fds, &self.filter));
            }
        };
        match outcome {
            Ok((reply, fds)) => self.reply(id, &reply, &fds),
            Err(failure) => self.reply(id, &failure.reply(), &[]),
        }
    }

    /// Answers those who wait until nothing is left in the pod, if nothing is.
    fn tell_if_empty(&mut self) -> io::Result<()> {
        let waited = match &mut self.pod {
            Some(vigil) => vigil.over(self.proc.as_fd())?,
            None => return Ok(()),
        };
        for id in waited {
            self.reply(id, &Reply::Empty, &[])?;
        }
        Ok(())
    }

    fn start(&mut self, id: u64, entrant: Result<Entrant, enter::Failure>) -> io::Result<()> {
        match entrant {
            Ok(entrant) => {
                self.starting.insert(id, entrant);
                Ok(())
            }
            Err(failure) => self.reply(id, &failure.reply(), &[]),
        }
    }

    /// News of an entrant that is starting.
    fn hear(&mut self, id: u64) -> io::Result<()> {
        let Some(entrant) = self.starting.get_mut(&id) else {
            return Ok(());
        };
        let news = match entrant.news() {
            None => return Ok(()),
            Some(news) => news,
        };
        self.starting.remove(&id);
        match news {
            News::Running {
                pid,
                guest_pid,
                pidfd,
                terminal,
                mark,
            } => {
                self.running.insert(pid, id);
                let fds: Vec<OwnedFd> = std::iter::once(pidfd).chain(terminal).collect();
                self.reply(id, &Reply::Running { guest_pid, mark }, &fds)
            }
            News::Failed(failure) => self.reply(id, &failure.reply(), &[]),
        }
    }

    /// A child has ended: an init, a command, or one that only entered. It is reaped only
    /// after what was said of it has been heard, since its pidfd is taken then.
    fn ended(&mut self, pid: i32) -> io::Result<()> {
        if !self.running.contains_key(&pid) && !self.inits.contains(&pid) {
            while let Some((id, entrant)) = self.starting.iter().find(|(_, e)| e.is_unknown()) {
                let id = *id;
                entrant.wait();
                self.hear(id)?;
            }
            self.hear_out(pid)?;
        }
        let status = process::wait(pid)?;
        self.inits.remove(&pid);
        if let Some(vigil) = &mut self.pod {
            vigil.ended(pid);
        }
        match self.running.remove(&pid) {
            Some(id) => self.reply(id, &Reply::Exited { status }, &[]),
            None => Ok(()),
        }
    }

    /// Hears everything of an entrant whose command has ended already.
    fn hear_out(&mut self, pid: i32) -> io::Result<()> {
        loop {
            let its = self.starting.iter().find(|(_, e)| e.command == Some(pid));
            let Some((id, entrant)) = its else {
                return Ok(());
            };
            entrant.wait();
            let id = *id;
            self.hear(id)?;
        }
    }

    fn reply(&self, id: u64, reply: &Reply, fds: &[OwnedFd]) -> io::Result<()> {
        let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        wire::send(self.socket.as_fd(), id, reply, &fds)
    }
}

/// Empties the descriptor of child signals; the children are then reaped until none is left.
fn drain(signals: BorrowedFd<'_>) {
    let mut buffer = [0u8; 128 * 16];
    while rustix::io::read(signals, &mut buffer).is_ok_and(|n| n > 0) {}
}
