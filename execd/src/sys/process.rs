//! Processes: clone3, namespaces, credentials, pidfds.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::check;

pub const NEW_MOUNT: u64 = libc::CLONE_NEWNS as u64;
pub const NEW_PID: u64 = libc::CLONE_NEWPID as u64;
pub const NEW_IPC: u64 = libc::CLONE_NEWIPC as u64;
pub const NEW_UTS: u64 = libc::CLONE_NEWUTS as u64;
pub const NEW_USER: u64 = libc::CLONE_NEWUSER as u64;
pub const NEW_NET: u64 = libc::CLONE_NEWNET as u64;
pub const NEW_CGROUP: u64 = libc::CLONE_NEWCGROUP as u64;
const INTO_CGROUP: u64 = 0x2_0000_0000;
const PIDFD: u64 = libc::CLONE_PIDFD as u64;
const PARENT: u64 = libc::CLONE_PARENT as u64;

/// What a fork made: in the parent the child's pid and pidfd.
#[derive(Debug)]
pub enum Fork {
    /// In the child.
    Child,
    /// In the parent.
    Parent {
        /// The child's pid.
        pid: i32,
        /// The child's pidfd.
        pidfd: OwnedFd,
    },
}

#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// Forks with new namespaces, into a cgroup v2 directory where one is given.
///
/// # Safety
/// The caller must be single-threaded, as after any fork only async-signal-safe code may
/// run in the child of a threaded process.
pub unsafe fn fork(flags: u64, cgroup: Option<BorrowedFd<'_>>) -> io::Result<Fork> {
    let mut pidfd: i32 = -1;
    let mut args = CloneArgs {
        flags: flags | PIDFD,
        pidfd: &raw mut pidfd as u64,
        exit_signal: libc::SIGCHLD as u64,
        ..CloneArgs::default()
    };
    if let Some(cgroup) = cgroup {
        args.flags |= INTO_CGROUP;
        args.cgroup = cgroup.as_raw_fd() as u64;
    }
    // SAFETY: the structure outlives the call; a single-threaded caller is the contract.
    let pid = check(unsafe {
        libc::syscall(
            libc::SYS_clone3,
            &raw const args,
            std::mem::size_of::<CloneArgs>(),
        )
    })?;
    if pid == 0 {
        return Ok(Fork::Child);
    }
    // SAFETY: the kernel has filled in the descriptor.
    Ok(Fork::Parent {
        pid: pid as i32,
        pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) },
    })
}

/// Forks a sibling: the child's parent is the caller's parent, which is the one that waits
/// for it. Returns 0 in the child.
///
/// # Safety
/// As for [`fork`].
pub unsafe fn fork_sibling() -> io::Result<i32> {
    let args = CloneArgs {
        flags: PARENT,
        ..CloneArgs::default()
    };
    // SAFETY: as for `fork`.
    let pid = check(unsafe {
        libc::syscall(
            libc::SYS_clone3,
            &raw const args,
            std::mem::size_of::<CloneArgs>(),
        )
    })?;
    Ok(pid as i32)
}

/// Ends this process at once, without running destructors of the process it was forked from.
pub fn exit(code: i32) -> ! {
    // SAFETY: never returns.
    unsafe { libc::_exit(code) }
}

/// Enters namespaces of a process (pidfd) or one namespace (its descriptor).
pub fn enter(fd: BorrowedFd<'_>, flags: u64) -> io::Result<()> {
    // SAFETY: a descriptor and an integer.
    check(i64::from(unsafe {
        libc::setns(fd.as_raw_fd(), flags as i32)
    }))
    .map(drop)
}

/// Makes namespaces of one's own.
pub fn unshare(flags: u64) -> io::Result<()> {
    // SAFETY: an integer.
    check(i64::from(unsafe { libc::unshare(flags as i32) })).map(drop)
}

/// A pidfd for a child that has not been waited for.
pub fn pidfd(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: integers.
    let fd = check(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
    // SAFETY: the kernel has just given us this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Sends a signal to the process of a pidfd.
pub fn signal(pidfd: BorrowedFd<'_>, signal: i32) -> io::Result<()> {
    // SAFETY: no siginfo is given.
    check(unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            signal,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    })
    .map(drop)
}

/// The pid of a child that has ended and was not reaped yet. It stays a zombie, so its pid
/// stays its own until [`wait`].
pub fn ended_child() -> Option<i32> {
    // SAFETY: the structure is ours, and zero where no child has ended.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        let found = libc::waitid(libc::P_ALL, 0, &raw mut info, flags);
        (found == 0 && info.si_pid() > 0).then(|| info.si_pid())
    }
}

/// Holds these signals back from now on, for [`await_signal`].
pub fn hold_signals(numbers: &[i32]) -> io::Result<()> {
    let set = signal_set(numbers);
    // SAFETY: the set is on this stack.
    check(i64::from(unsafe {
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut())
    }))
    .map(drop)
}

/// Sleeps until one of these signals comes, which must be held back.
pub fn await_signal(numbers: &[i32]) -> io::Result<i32> {
    let set = signal_set(numbers);
    loop {
        // SAFETY: the set is on this stack; nothing is asked about the signal.
        let got = unsafe { libc::sigwaitinfo(&raw const set, std::ptr::null_mut()) };
        match check(i64::from(got)) {
            Ok(number) => return Ok(number as i32),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn signal_set(numbers: &[i32]) -> libc::sigset_t {
    // SAFETY: a signal set on the stack that is emptied first.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for number in numbers {
            libc::sigaddset(&raw mut set, *number);
        }
        set
    }
}

/// Waits for one child of this process.
pub fn wait(pid: i32) -> io::Result<i32> {
    let mut status = 0;
    loop {
        // SAFETY: the status is ours.
        let got = unsafe { libc::waitpid(pid, &raw mut status, 0) };
        if got == pid {
            return Ok(status);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Makes this process deaf, as a pid 1 that only reaps: every signal is blocked, and the end
/// of a child is ignored, by which the kernel reaps each itself. Nothing of this state
/// changes later, as it would while waiting for signals, so an observation finds it the same
/// at any moment.
pub fn become_deaf() {
    // SAFETY: a signal set on the stack and a constant action.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut set);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
    }
}

/// Sleeps until it is killed.
pub fn sleep_for_ever() -> ! {
    loop {
        // SAFETY: no arguments.
        unsafe { libc::pause() };
    }
}

/// Sets all three user and group ids and the supplementary groups, by raw calls: glibc's
/// wrappers signal every thread.
pub fn become_ids(uid: u32, gid: u32, groups: &[u32]) -> io::Result<()> {
    // SAFETY: the slice is as long as said; the rest are integers.
    unsafe {
        check(libc::syscall(
            libc::SYS_setgroups,
            groups.len(),
            groups.as_ptr(),
        ))?;
        check(libc::syscall(libc::SYS_setresgid, gid, gid, gid))?;
        check(libc::syscall(libc::SYS_setresuid, uid, uid, uid))?;
    }
    Ok(())
}

/// Sets whether others may trace this process or look into it.
pub fn set_dumpable(yes: bool) -> io::Result<()> {
    // SAFETY: integers.
    check(i64::from(unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, u64::from(yes), 0, 0, 0)
    }))
    .map(drop)
}

/// Asks to be killed when the parent ends. Cleared by a change of credentials.
pub fn die_with_parent() -> io::Result<()> {
    // SAFETY: integers.
    check(i64::from(unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as u64, 0, 0, 0)
    }))
    .map(drop)
}

/// Becomes the parent of every descendant that loses its own.
pub fn adopt_orphans() -> io::Result<()> {
    // SAFETY: integers.
    check(i64::from(unsafe {
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    }))
    .map(drop)
}

/// Kills every process that this one may signal.
pub fn kill_all() -> io::Result<()> {
    // SAFETY: integers.
    check(i64::from(unsafe { libc::kill(-1, libc::SIGKILL) })).map(drop)
}

/// Gives every signal its default action and unblocks all.
pub fn default_signals() {
    // SAFETY: a signal set on the stack and constant actions.
    unsafe {
        // The kernel's own call: glibc keeps 32 and 33 to itself and would leave them ignored.
        let default = [0u64; 4];
        for number in 1..=64 {
            libc::syscall(
                libc::SYS_rt_sigaction,
                number,
                default.as_ptr(),
                std::ptr::null_mut::<u64>(),
                std::mem::size_of::<u64>(),
            );
        }
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
    }
}

/// Unblocks every signal.
pub fn unblock_signals() {
    // SAFETY: a signal set on the stack.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
    }
}

/// Closes every descriptor from `first` on.
pub fn close_from(first: u32) -> io::Result<()> {
    // SAFETY: integers; nothing of ours is used after it but what lies below `first`.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) }).map(drop)
}

/// Closes every descriptor from `first` on when this process executes a program.
pub fn close_on_exec_from(first: u32) -> io::Result<()> {
    const CLOSE_ON_EXEC: u32 = 4;
    // SAFETY: integers.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, CLOSE_ON_EXEC) }).map(drop)
}

/// Makes `fd` the descriptor `number`, not closed on exec.
pub fn move_to(fd: BorrowedFd<'_>, number: i32) -> io::Result<()> {
    // SAFETY: descriptors.
    unsafe {
        if fd.as_raw_fd() == number {
            check(i64::from(libc::fcntl(number, libc::F_SETFD, 0)))?;
        } else {
            check(i64::from(libc::dup2(fd.as_raw_fd(), number)))?;
        }
    }
    Ok(())
}

/// A descriptor for SIGCHLD, which is blocked from now on.
pub fn child_signals() -> io::Result<OwnedFd> {
    // SAFETY: a signal set on the stack.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        check(i64::from(libc::sigprocmask(
            libc::SIG_BLOCK,
            &raw const set,
            std::ptr::null_mut(),
        )))?;
        let fd = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        check(i64::from(fd))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Replaces this process. Returns only on failure.
pub fn exec(
    path: &std::ffi::CStr,
    argv: &[std::ffi::CString],
    env: &[std::ffi::CString],
) -> io::Error {
    let mut words: Vec<_> = argv.iter().map(|w| w.as_ptr()).collect();
    words.push(std::ptr::null());
    let mut vars: Vec<_> = env.iter().map(|v| v.as_ptr()).collect();
    vars.push(std::ptr::null());
    // SAFETY: both arrays end in null and outlive the call.
    unsafe { libc::execve(path.as_ptr(), words.as_ptr(), vars.as_ptr()) };
    io::Error::last_os_error()
}

/// Sets a soft and hard resource limit, lowered to what this process may have.
pub fn limit(resource: u32, value: u64) -> io::Result<()> {
    // SAFETY: structures on the stack.
    unsafe {
        let mut now: libc::rlimit = std::mem::zeroed();
        check(i64::from(libc::getrlimit(resource, &raw mut now)))?;
        let value = value.min(now.rlim_max);
        let new = libc::rlimit {
            rlim_cur: value,
            rlim_max: value,
        };
        check(i64::from(libc::setrlimit(resource, &raw const new)))?;
    }
    Ok(())
}

/// Sets a soft resource limit, at most the hard one; gives the one before.
pub fn soft_limit(resource: u32, value: u64) -> io::Result<u64> {
    // SAFETY: structures on the stack.
    unsafe {
        let mut now: libc::rlimit = std::mem::zeroed();
        check(i64::from(libc::getrlimit(resource, &raw mut now)))?;
        let new = libc::rlimit {
            rlim_cur: value.min(now.rlim_max),
            rlim_max: now.rlim_max,
        };
        check(i64::from(libc::setrlimit(resource, &raw const new)))?;
        Ok(now.rlim_cur)
    }
}

/// Sets loopback up in the current network namespace.
pub fn loopback_up() -> io::Result<()> {
    // SAFETY: a request structure on the stack that the kernel reads and writes.
    unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        check(i64::from(fd))?;
        let socket = OwnedFd::from_raw_fd(fd);
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = b'l' as libc::c_char;
        request.ifr_name[1] = b'o' as libc::c_char;
        check(i64::from(libc::ioctl(
            socket.as_raw_fd(),
            libc::SIOCGIFFLAGS as _,
            &raw mut request,
        )))?;
        request.ifr_ifru.ifru_flags |= (libc::IFF_UP | libc::IFF_RUNNING) as i16;
        check(i64::from(libc::ioctl(
            socket.as_raw_fd(),
            libc::SIOCSIFFLAGS as _,
            &raw mut request,
        )))?;
    }
    Ok(())
}

/// Names this host in its UTS namespace.
pub fn set_hostname(name: &str) -> io::Result<()> {
    // SAFETY: pointer and length of one slice.
    check(i64::from(unsafe {
        libc::sethostname(name.as_ptr().cast(), name.len())
    }))
    .map(drop)
}

/// Sets the file system user and group of this thread.
pub fn set_filesystem_owner(uid: u32, gid: u32) {
    // SAFETY: integers; these calls do not fail visibly.
    unsafe {
        libc::syscall(libc::SYS_setfsgid, gid);
        libc::syscall(libc::SYS_setfsuid, uid);
    }
}

/// Sets the file system ids of this thread.
pub fn set_filesystem_ids(id: u32) {
    // SAFETY: integers; these calls do not fail visibly.
    unsafe {
        libc::syscall(libc::SYS_setfsgid, id);
        libc::syscall(libc::SYS_setfsuid, id);
    }
}

/// Closes every descriptor but stdio and these.
pub fn close_all_but(kept: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut numbers: Vec<u32> = kept.iter().map(|fd| fd.as_raw_fd() as u32).collect();
    numbers.sort_unstable();
    let mut next = 3;
    for number in numbers {
        if number > next {
            // SAFETY: integers; the caller gives up all other descriptors.
            check(unsafe { libc::syscall(libc::SYS_close_range, next, number - 1, 0) })?;
        }
        next = next.max(number + 1);
    }
    close_from(next)
}
