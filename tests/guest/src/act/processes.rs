//! Processes that do not want to end.

use std::io;
use std::time::Duration;

use super::deed::{After, Arguments, Deed};
use super::files::done;
use super::held::keep;
use super::sys::{self, call};

pub(super) const DEEDS: &[(&str, Deed)] = &[
    ("child", |_| Ok(After::Stay)),
    ("daemon", |_| detached(false)),
    ("new-session", |_| detached(true)),
    ("deaf", |_| deaf()),
    ("stopped", |_| done(sys::spawn(stop_self))),
    ("traced", |_| traced()),
    ("zombies", zombies),
    ("threads", threads),
    ("storm", storm),
    ("relay", relay),
    ("vfork-hang", |_| done(sys::spawn(hang_in_vfork))),
    ("rename-self", rename_self),
    ("spin", |_| done(sys::spawn(spin))),
    ("timer", timer),
    ("interval", interval),
    ("priority", priority),
    ("realtime", realtime),
    ("affinity", affinity),
    ("limit", |a| limit(a, 0)),
    ("limit-init", |a| limit(a, 1)),
    ("reaper", |_| reaper()),
    ("other-user", other_user),
    ("undumpable", |_| undumpable()),
    ("signal-all", signal_all),
    ("signal-init", |a| {
        done(call!(libc::SYS_kill, 1, a.number(0)))
    }),
    ("trace-init", |_| {
        done(call!(libc::SYS_ptrace, PTRACE_SEIZE, 1))
    }),
    ("read-init", |_| read_init()),
    ("dump-core", |_| dump_core()),
];

const PTRACE_TRACEME: i32 = 0;
const PTRACE_SEIZE: i32 = 0x4206;

/// Forks twice, so that nobody here is its parent.
fn detached(session: bool) -> io::Result<After> {
    done(sys::spawn(move || {
        if session {
            let _ = call!(libc::SYS_setsid);
        }
        match sys::fork() {
            Ok(Some(_)) | Err(_) => sys::end(0),
            Ok(None) => {}
        }
    }))
}

fn deaf() -> io::Result<After> {
    let all = u64::MAX.to_ne_bytes();
    call!(
        libc::SYS_rt_sigprocmask,
        libc::SIG_BLOCK,
        all.as_slice(),
        0,
        8
    )?;
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT] {
        sys::ignore(signal);
    }
    Ok(After::Stay)
}

fn stop_self() {
    sys::close_standard();
    let _ = call!(libc::SYS_kill, std::process::id(), libc::SIGSTOP);
}

/// A child that its parent traces and leaves stopped.
fn traced() -> io::Result<After> {
    let child = sys::spawn(|| {
        let _ = call!(libc::SYS_ptrace, PTRACE_TRACEME);
        stop_self();
    })?;
    let _ = rustix::process::waitpid(Some(child), rustix::process::WaitOptions::UNTRACED);
    Ok(After::Stay)
}

fn zombies(a: &Arguments<'_>) -> io::Result<After> {
    for _ in 0..a.number(0) {
        if sys::fork()?.is_none() {
            sys::end(0);
        }
    }
    Ok(After::Stay)
}

fn threads(a: &Arguments<'_>) -> io::Result<After> {
    for _ in 0..a.number(0) {
        std::thread::Builder::new().spawn(|| sys::stay())?;
    }
    Ok(After::Stay)
}

fn storm(a: &Arguments<'_>) -> io::Result<After> {
    for _ in 0..a.number(0) {
        sys::spawn(|| {})?;
    }
    Ok(After::End)
}

/// Each hands over to a child before it ends: whoever lists processes sees another one each time.
fn relay(a: &Arguments<'_>) -> io::Result<After> {
    for _ in 0..a.number(0) {
        sys::spawn(|| {
            sys::close_standard();
            loop {
                match sys::fork() {
                    Ok(Some(_)) => sys::end(0),
                    Ok(None) | Err(_) => std::thread::sleep(Duration::from_millis(1)),
                }
            }
        })?;
    }
    Ok(After::End)
}

/// A parent that waits for ever in vfork for a child that stays.
fn hang_in_vfork() {
    sys::close_standard();
    let flags = libc::CLONE_VFORK | libc::SIGCHLD;
    if let Ok(0) = call!(libc::SYS_clone, flags, 0, 0, 0, 0) {
        sys::stay();
    }
}

fn rename_self(a: &Arguments<'_>) -> io::Result<After> {
    let name = a.name(0);
    call!(libc::SYS_prctl, libc::PR_SET_NAME, name.as_c_str())?;
    Ok(After::Stay)
}

fn spin() {
    sys::close_standard();
    loop {
        std::hint::spin_loop();
    }
}

fn timer(a: &Arguments<'_>) -> io::Result<After> {
    let timer = sys::descriptor(call!(libc::SYS_timerfd_create, libc::CLOCK_MONOTONIC, 0))?;
    let when: Vec<u8> = [a.number(0), 0, a.number(0), 0]
        .iter()
        .flat_map(|n| n.to_ne_bytes())
        .collect();
    call!(libc::SYS_timerfd_settime, &timer, 0, when.as_slice(), 0)?;
    keep(timer)
}

fn interval(a: &Arguments<'_>) -> io::Result<After> {
    sys::ignore(libc::SIGALRM);
    let micros = a.number(0) * 1000;
    let (seconds, rest) = (micros / 1_000_000, micros % 1_000_000);
    let when: Vec<u8> = [seconds, rest, seconds, rest]
        .iter()
        .flat_map(|n| n.to_ne_bytes())
        .collect();
    call!(libc::SYS_setitimer, libc::ITIMER_REAL, when.as_slice(), 0)?;
    Ok(After::Stay)
}

fn priority(a: &Arguments<'_>) -> io::Result<After> {
    call!(libc::SYS_setpriority, libc::PRIO_PROCESS, 0, a.number(0))?;
    Ok(After::Stay)
}

fn realtime(a: &Arguments<'_>) -> io::Result<After> {
    let level = (a.number(0) as i32).to_ne_bytes();
    call!(
        libc::SYS_sched_setscheduler,
        0,
        libc::SCHED_RR,
        level.as_slice()
    )?;
    Ok(After::Stay)
}

fn affinity(a: &Arguments<'_>) -> io::Result<After> {
    let mask = a.number(0).to_ne_bytes();
    call!(libc::SYS_sched_setaffinity, 0, 8, mask.as_slice())?;
    Ok(After::Stay)
}

/// Sets a limit of a process; 0 is this one, which then stays.
fn limit(a: &Arguments<'_>, pid: i32) -> io::Result<After> {
    let both: Vec<u8> = [a.number(1); 2]
        .iter()
        .flat_map(|n| n.to_ne_bytes())
        .collect();
    call!(libc::SYS_prlimit64, pid, a.number(0), both.as_slice(), 0)?;
    Ok(After::Stay)
}

fn reaper() -> io::Result<After> {
    call!(libc::SYS_prctl, libc::PR_SET_CHILD_SUBREAPER, 1)?;
    detached(true)?;
    Ok(After::Stay)
}

fn other_user(a: &Arguments<'_>) -> io::Result<After> {
    call!(libc::SYS_setresgid, a.number(0), a.number(0), a.number(0))?;
    call!(libc::SYS_setresuid, a.number(0), a.number(0), a.number(0))?;
    Ok(After::Stay)
}

fn undumpable() -> io::Result<After> {
    call!(libc::SYS_prctl, libc::PR_SET_DUMPABLE, 0)?;
    Ok(After::Stay)
}

/// To every process that it can see but itself and the first. The others of this program are
/// among them, so that it ends the script as often as not.
fn signal_all(a: &Arguments<'_>) -> io::Result<After> {
    done(call!(libc::SYS_kill, -1, a.number(0)))
}

/// Reads memory of the first process by a call that needs no file.
fn read_init() -> io::Result<After> {
    let mut some = [0_u8; 8];
    let vector = |place: u64| {
        let mut bytes = place.to_ne_bytes().to_vec();
        bytes.extend(8_u64.to_ne_bytes());
        bytes
    };
    let (local, remote) = (vector(some.as_mut_ptr() as u64), vector(0x40_0000));
    done(call!(
        libc::SYS_process_vm_readv,
        1,
        local.as_slice(),
        1,
        remote.as_slice(),
        1,
        0
    ))
}

fn dump_core() -> io::Result<After> {
    done(sys::spawn(|| {
        let _ = call!(libc::SYS_kill, std::process::id(), libc::SIGABRT);
    }))
}
