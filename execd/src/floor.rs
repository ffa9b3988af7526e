//! What the kernel alone needs for the same work: the floors beside which `innkeeper
//! bench` puts its figures. Each is timed in this process, which has one thread.

mod verify;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail};
use rustix::fs::{Mode, OFlags, mkdirat, open, openat};

use crate::sys::mount::{self, Filesystem, NODEV};
use crate::sys::process::{self, Fork};

/// Runs one floor and prints `{"n","min_us","p50_us","p99_us"}`.
///
/// # Errors
/// For an unknown name, or when the kernel refuses.
pub fn run(words: &[String], n: usize) -> anyhow::Result<()> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let times = match words[..] {
        ["clone"] => repeat(n, || bare("/"))?,
        ["clone", lower] => repeat(n, || bare(lower))?,
        ["spawn"] => repeat(n, spawn)?,
        ["walk", directory] => repeat(n, || walk(directory))?,
        ["verify", ref layers @ ..] if !layers.is_empty() => return verify::run(layers, n),
        ["socket", bytes] => {
            let bytes = bytes.parse().context("BYTES is a number")?;
            repeat(n, || socket(bytes))?
        }
        _ => bail!("floor takes clone [DIR], spawn, walk DIR, verify LAYER... or socket BYTES"),
    };
    println!("{}", summary(&times));
    Ok(())
}

/// Sorted times in the words of [`run`].
fn summary(times: &[f64]) -> String {
    let at = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize];
    let (n, min, p50, p99) = (times.len(), at(0.0), at(0.5), at(0.99));
    format!("{{\"n\":{n},\"min_us\":{min:.1},\"p50_us\":{p50:.1},\"p99_us\":{p99:.1}}}")
}

/// Microseconds of each run, sorted.
fn repeat(n: usize, mut work: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<Vec<f64>> {
    if n == 0 {
        bail!("--n must be at least 1");
    }
    let mut times = Vec::with_capacity(n);
    for _ in 0..n {
        let start = Instant::now();
        work()?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

/// The namespaces of a sandbox, an overlay over a tmpfs upper, a change of root, an exec
/// of `true`, the end of it, and the end of its mounts.
fn bare(lower: &str) -> anyhow::Result<()> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let lower = open(lower, flags, Mode::empty())?;
    let fs = Filesystem::open(c"tmpfs")?;
    fs.set(c"size", "64m")?;
    let tree = fs.mount(NODEV)?;
    let part = |name: &str| -> anyhow::Result<OwnedFd> {
        mkdirat(&tree, name, Mode::from_raw_mode(0o755))?;
        Ok(openat(&tree, name, flags, Mode::empty())?)
    };
    let (upper, work) = (part("u")?, part("w")?);
    let fs = Filesystem::open(c"overlay")?;
    fs.set_fd(c"lowerdir+", lower.as_fd())?;
    fs.set_fd(c"upperdir", upper.as_fd())?;
    fs.set_fd(c"workdir", work.as_fd())?;
    let overlay = fs.mount(NODEV)?;
    let namespaces = process::NEW_PID
        | process::NEW_MOUNT
        | process::NEW_IPC
        | process::NEW_UTS
        | process::NEW_CGROUP
        | process::NEW_NET;
    // SAFETY: this program has one thread when it measures floors.
    #[allow(unsafe_code)]
    match unsafe { process::fork(namespaces, None) }? {
        Fork::Child => {
            if mount::become_root(overlay.as_fd()).is_ok() {
                let _ = process::exec(c"/bin/true", &[c"true".to_owned()], &[]);
            }
            process::exit(1)
        }
        Fork::Parent { pid, .. } => {
            if process::wait(pid)? != 0 {
                bail!("/bin/true could not be run over this directory");
            }
        }
    }
    Ok(())
}

/// The standard library spawns by posix_spawn where nothing special is asked.
fn spawn() -> anyhow::Result<()> {
    let status = Command::new("/bin/true")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()?;
    if !status.success() {
        bail!("/bin/true failed");
    }
    Ok(())
}

/// A bare walk: getdents and statx, relative to descriptors, nothing kept.
fn walk(directory: &str) -> anyhow::Result<()> {
    walk_from(open(directory, DIRECTORY, Mode::empty())?)
}

const DIRECTORY: OFlags = OFlags::DIRECTORY
    .union(OFlags::RDONLY)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOFOLLOW);

fn walk_from(root: OwnedFd) -> anyhow::Result<()> {
    use rustix::fs::{AtFlags, Dir, FileType, StatxFlags, statx};
    let flags = DIRECTORY;
    let mut open_directories = vec![root];
    while let Some(directory) = open_directories.pop() {
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            statx(
                &directory,
                name,
                AtFlags::SYMLINK_NOFOLLOW,
                StatxFlags::BASIC_STATS,
            )?;
            if entry.file_type() == FileType::Directory {
                open_directories.push(openat(&directory, name, flags, Mode::empty())?);
            }
        }
    }
    Ok(())
}

/// Bytes through a unix socket from one process to another, as a file's would go.
fn socket(bytes: u64) -> anyhow::Result<()> {
    let (mut ours, theirs) = UnixStream::pair()?;
    let zero = File::open("/dev/zero")?;
    // SAFETY: as in `bare`.
    #[allow(unsafe_code)]
    match unsafe { process::fork(0, None) }? {
        Fork::Child => {
            drop(ours);
            let sent = std::io::copy(&mut zero.take(bytes), &mut Writer(theirs));
            process::exit(i32::from(sent.is_err()))
        }
        Fork::Parent { pid, .. } => {
            drop(theirs);
            let mut buffer = vec![0u8; 64 * 1024];
            let mut seen = 0;
            loop {
                match ours.read(&mut buffer)? {
                    0 => break,
                    n => seen += n as u64,
                }
            }
            process::wait(pid)?;
            if seen != bytes {
                bail!("{seen} of {bytes} bytes came through");
            }
        }
    }
    Ok(())
}

/// A writer that the standard library does not turn into a splice.
struct Writer(UnixStream);

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
