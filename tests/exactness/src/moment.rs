//! Stopping the daemon in the middle of a reset, without its help.
//!
//! The state directory lies on a file system of its own. There the kernel asks us before anything
//! is opened (fanotify). The first time that the daemon opens the fresh upper after the new
//! sandbox's pid 1 runs is the beginning of the verification; our answer waits until the fault is
//! planted.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::thread::{self, JoinHandle};

use innkeeper_test_cli::Inn;
use innkeeper_test_local::children;
use nix::sys::fanotify::{
    EventFFlags, Fanotify, FanotifyEvent, FanotifyResponse, InitFlags, MarkFlags, MaskFlags,
    Response,
};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{fstat, stat};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::fault::{Fault, Planted};

/// The watch on one sandbox to come.
pub struct Moment {
    watch: Fanotify,
    /// First processes that were there before.
    before: BTreeSet<i32>,
    /// The upper of the sandbox.
    upper: PathBuf,
    daemon: i32,
}

/// How far the watch is.
enum Stage {
    /// The verification has not begun.
    Waiting,
    /// It waits for our answer while the fault is planted, which asks questions of its own.
    Planting(FanotifyEvent, Planter),
    /// The fault is there.
    Planted(Planted),
}

/// A thread that plants. Its end closes a pipe.
struct Planter {
    thread: JoinHandle<io::Result<Planted>>,
    finished: OwnedFd,
}

impl Planter {
    fn start(fault: Fault, init: u32) -> io::Result<Self> {
        let (finished, finishing) = pipe_with(PipeFlags::CLOEXEC)?;
        let thread = thread::spawn(move || {
            let _finishing = finishing;
            fault.plant(init)
        });
        Ok(Self { thread, finished })
    }

    fn end(self) -> io::Result<Planted> {
        self.thread
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("planting broke off")))
    }
}

impl Moment {
    /// Gets ready to stop the daemon when it verifies this sandbox (SLOT.GENERATION), which it has
    /// not built yet. Its upper must be of the kind on disk.
    ///
    /// # Errors
    /// Why it cannot be stopped here.
    pub fn of(inn: &Inn, sandbox: &str) -> Result<Self, String> {
        let watch = Fanotify::init(
            InitFlags::FAN_CLASS_CONTENT | InitFlags::FAN_CLOEXEC,
            EventFFlags::O_CLOEXEC,
        )
        .map_err(|errno| format!("the kernel has no fanotify for us: {errno}"))?;
        let what = MaskFlags::FAN_OPEN_PERM | MaskFlags::FAN_ONDIR;
        let how = MarkFlags::FAN_MARK_ADD | MarkFlags::FAN_MARK_FILESYSTEM;
        watch
            .mark(how, what, rustix::fs::CWD, Some(inn.state()))
            .map_err(|errno| format!("the kernel asks nobody before it opens files: {errno}"))?;
        let store = inn.state().join("store");
        let daemon = inn.daemons().first().copied().expect("a daemon runs");
        Ok(Self {
            watch,
            upper: store.join("uppers").join(sandbox).join("u"),
            before: rooted(daemon),
            daemon,
        })
    }

    /// Does something that makes the daemon build and verify the sandbox, and plants a fault at
    /// the beginning of the verification. None of the fault was planted when that did not come.
    ///
    /// # Errors
    /// When the fault could not be planted.
    pub fn plant<T>(
        self,
        fault: Fault,
        work: impl FnOnce() -> T,
    ) -> io::Result<(T, Option<Planted>)> {
        // Its end closes when the work is done.
        let (done, over) = pipe_with(PipeFlags::CLOEXEC)?;
        let watching = thread::spawn(move || self.watch(fault, &done));
        let result = work();
        drop(over);
        let planted = watching
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the watch broke off")))?;
        Ok((result, planted))
    }

    /// Answers the kernel until the pipe is closed.
    fn watch(self, fault: Fault, done: &OwnedFd) -> io::Result<Option<Planted>> {
        let mut stage = Stage::Waiting;
        loop {
            let wake = match &stage {
                Stage::Planting(_, planter) => planter.finished.as_fd(),
                Stage::Waiting | Stage::Planted(_) => done.as_fd(),
            };
            let mut wait = [
                PollFd::new(&self.watch, PollFlags::IN),
                PollFd::from_borrowed_fd(wake, PollFlags::IN),
            ];
            poll(&mut wait, None)?;
            let [asked, woken] = wait.map(|fd| !fd.revents().is_empty());
            if asked {
                for event in self.watch.read_events()? {
                    stage = self.asked(stage, event, fault)?;
                }
            } else if woken {
                stage = match stage {
                    Stage::Waiting => return Ok(None),
                    Stage::Planted(planted) => return Ok(Some(planted)),
                    Stage::Planting(event, planter) => {
                        let planted = planter.end();
                        self.allow(&event)?;
                        Stage::Planted(planted?)
                    }
                }
            }
        }
    }

    /// Answers one question, or begins to plant and leaves it open.
    fn asked(&self, stage: Stage, event: FanotifyEvent, fault: Fault) -> io::Result<Stage> {
        match stage {
            Stage::Waiting if self.is_upper(&event) => match self.init() {
                Some(init) => return Ok(Stage::Planting(event, Planter::start(fault, init)?)),
                None => self.allow(&event)?,
            },
            Stage::Waiting | Stage::Planting(..) | Stage::Planted(_) => self.allow(&event)?,
        }
        Ok(stage)
    }

    fn allow(&self, event: &FanotifyEvent) -> io::Result<()> {
        if let Some(fd) = event.fd() {
            self.watch
                .write_response(FanotifyResponse::new(fd, Response::FAN_ALLOW))?;
        }
        Ok(())
    }

    /// Whether the daemon opens the upper of the sandbox, itself or through the overlay, where it
    /// has no name.
    fn is_upper(&self, event: &FanotifyEvent) -> bool {
        let same = || {
            let (opened, upper) = (fstat(event.fd()?).ok()?, stat(&self.upper).ok()?);
            Some((opened.st_dev, opened.st_ino) == (upper.st_dev, upper.st_ino))
        };
        event.pid() == self.daemon && same() == Some(true)
    }

    /// Pid 1 of the sandbox: the one that got its root since the watch began.
    fn init(&self) -> Option<u32> {
        let born = rooted(self.daemon);
        let new = born.difference(&self.before).next()?;
        u32::try_from(*new).ok()
    }
}

/// First processes of sandboxes that have their root.
fn rooted(daemon: i32) -> BTreeSet<i32> {
    let has_root = |pid: &i32| {
        let mounts = std::fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        let root = mounts
            .lines()
            .find(|line| line.split(' ').nth(4) == Some("/"));
        root.is_some_and(|line| line.contains(" - overlay "))
    };
    let born = children(daemon).into_iter().flat_map(children);
    born.filter(has_root).collect()
}
