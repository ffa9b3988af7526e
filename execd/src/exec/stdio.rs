//! The ends of a command's pipes or terminal that we hold.

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::task::Poll;

use innkeeper_proto::v1::Stream;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::sys::watch::watch;

/// Pipes for one command: its stdin, stdout and stderr, and our ends.
#[derive(Debug)]
pub(super) struct Pipes {
    pub child: [OwnedFd; 3],
    /// None: its stdin is at its end.
    pub stdin: Option<OwnedFd>,
    pub outputs: Vec<(OwnedFd, Stream)>,
}

impl Pipes {
    /// Makes pipes; `merge` gives both outputs one.
    pub(super) fn new(fed: bool, merge: bool) -> io::Result<Self> {
        let (stdin, feed) = pipe_with(PipeFlags::CLOEXEC)?;
        let (first, stdout) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stderr, outputs) = if merge {
            (stdout.try_clone()?, vec![(first, Stream::Merged)])
        } else {
            let (second, stderr) = pipe_with(PipeFlags::CLOEXEC)?;
            (
                stderr,
                vec![(first, Stream::Stdout), (second, Stream::Stderr)],
            )
        };
        Ok(Self {
            child: [stdin, stdout, stderr],
            stdin: fed.then_some(feed),
            outputs,
        })
    }
}

/// Gives a descriptor to the runtime. Only its own open file becomes non-blocking: the
/// other end of a pipe or terminal has another one.
pub(crate) fn watched(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    rustix::io::ioctl_fionbio(&fd, true)?;
    watch(fd, Interest::READABLE | Interest::WRITABLE)
}

/// Where output comes from. A source that is at its end is dropped.
#[derive(Debug)]
pub(super) struct Sources {
    open: Vec<(AsyncFd<OwnedFd>, Stream)>,
}

/// What can be read without waiting.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Now {
    /// As many bytes of a stream.
    Got(Stream, usize),
    /// Nothing, though somebody could still write.
    Nothing,
    /// All sources are at their end.
    Closed,
}

impl Sources {
    pub(super) fn new(from: Vec<(OwnedFd, Stream)>) -> io::Result<Self> {
        let open = from
            .into_iter()
            .map(|(fd, stream)| Ok((watched(fd)?, stream)));
        Ok(Self {
            open: open.collect::<io::Result<_>>()?,
        })
    }

    /// Whether all are at their end.
    pub(super) fn closed(&self) -> bool {
        self.open.is_empty()
    }

    /// Waits for output; none when all sources are at their end. Cancel safe.
    pub(super) async fn read(&mut self, buffer: &mut [u8]) -> Option<(Stream, usize)> {
        poll_fn(|context| {
            let mut place = 0;
            while let Some((fd, stream)) = self.open.get(place) {
                let (stream, sources) = (*stream, self.open.len());
                match fd.poll_read_ready(context) {
                    Poll::Pending => place += 1,
                    Poll::Ready(Err(_)) => drop(self.open.remove(place)),
                    Poll::Ready(Ok(mut ready)) => {
                        match rustix::io::read(fd.as_fd(), &mut *buffer) {
                            Ok(got) if got > 0 => {
                                drop(ready);
                                // The other one first the next time.
                                self.open[..].rotate_left((place + 1) % sources);
                                return Poll::Ready(Some((stream, got)));
                            }
                            Err(Errno::AGAIN) => ready.clear_ready(),
                            Err(Errno::INTR) => {}
                            // A terminal without holders says EIO.
                            Ok(_) | Err(_) => drop(self.open.remove(place)),
                        }
                    }
                }
            }
            if self.open.is_empty() {
                Poll::Ready(None)
            } else {
                Poll::Pending
            }
        })
        .await
    }

    /// Reads what is there. It asks the kernel itself: the runtime may not have heard yet.
    pub(super) fn read_now(&mut self, buffer: &mut [u8]) -> Now {
        let mut place = 0;
        while let Some((fd, stream)) = self.open.get(place) {
            match rustix::io::read(fd.as_fd(), &mut *buffer) {
                Ok(got) if got > 0 => return Now::Got(*stream, got),
                Err(Errno::AGAIN) => place += 1,
                Err(Errno::INTR) => {}
                Ok(_) | Err(_) => drop(self.open.remove(place)),
            }
        }
        if self.open.is_empty() {
            Now::Closed
        } else {
            Now::Nothing
        }
    }
}

/// Writes all bytes; an error when nobody reads any more. Not cancel safe.
pub(crate) async fn write_all(to: &AsyncFd<OwnedFd>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let mut ready = to.writable().await?;
        match rustix::io::write(to, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::AGAIN) => ready.clear_ready(),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}
