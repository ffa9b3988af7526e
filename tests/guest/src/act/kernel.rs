//! Namespaces, host names and other calls that change the kernel's mind.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use super::deed::{After, Arguments, Deed};
use super::files::done;
use super::held::{self, keep};
use super::sys::{self, call};

pub(super) const DEEDS: &[(&str, Deed)] = &[
    ("hostname", |a| named(a, libc::SYS_sethostname)),
    ("domainname", |a| named(a, libc::SYS_setdomainname)),
    ("unshare", unshare),
    ("clone-into", clone_into),
    ("enter-init", enter_init),
    ("set-clock", |_| set_clock()),
    ("filter", |_| filter()),
    ("landlock", landlock),
    ("personality", personality),
    ("bpf", |_| bpf()),
    ("perf", |_| perf()),
    ("ring", |_| ring()),
    ("faults", |_| held_of(call!(libc::SYS_userfaultfd, 0))),
    ("kernel-log", |_| done(call!(libc::SYS_syslog, 10, 0, 0))),
    ("quota", |_| {
        done(call!(libc::SYS_quotactl, 0x80_0007 << 8, c"/", 0, 0))
    }),
    ("accounting", |_| done(call!(libc::SYS_acct, c"/tmp"))),
    ("swap", swap),
    ("handle", handle),
    ("fanotify", fanotify),
    ("call", any_call),
];

fn held_of(result: io::Result<i64>) -> io::Result<After> {
    keep(sys::descriptor(result)?)
}

fn named(a: &Arguments<'_>, number: i64) -> io::Result<After> {
    done(call!(number, a.bytes(0), a.bytes(0).len()))
}

fn space(name: &str) -> i32 {
    match name {
        "user" => libc::CLONE_NEWUSER,
        "mnt" => libc::CLONE_NEWNS,
        "pid" => libc::CLONE_NEWPID,
        "net" => libc::CLONE_NEWNET,
        "ipc" => libc::CLONE_NEWIPC,
        "uts" => libc::CLONE_NEWUTS,
        "cgroup" => libc::CLONE_NEWCGROUP,
        _ => 0x80,
    }
}

fn spaces(a: &Arguments<'_>) -> i32 {
    a.text(0)
        .split('+')
        .map(space)
        .fold(0, |all, one| all | one)
}

fn unshare(a: &Arguments<'_>) -> io::Result<After> {
    call!(libc::SYS_unshare, spaces(a))?;
    Ok(After::Stay)
}

fn clone_into(a: &Arguments<'_>) -> io::Result<After> {
    if call!(libc::SYS_clone, spaces(a) | libc::SIGCHLD, 0, 0, 0, 0)? == 0 {
        sys::close_standard();
        sys::stay();
    }
    Ok(After::Stay)
}

fn enter_init(a: &Arguments<'_>) -> io::Result<After> {
    let kind = a.text(0);
    let namespace = OwnedFd::from(File::open(format!("/proc/1/ns/{kind}"))?);
    call!(libc::SYS_setns, &namespace, space(&kind))?;
    Ok(After::Stay)
}

/// To what it shows already.
fn set_clock() -> io::Result<After> {
    let mut now = [0; 16];
    call!(
        libc::SYS_clock_gettime,
        libc::CLOCK_REALTIME,
        now.as_mut_slice()
    )?;
    done(call!(
        libc::SYS_clock_settime,
        libc::CLOCK_REALTIME,
        now.as_slice()
    ))
}

/// A filter of its own that allows everything.
fn filter() -> io::Result<After> {
    const SECCOMP_SET_MODE_FILTER: i32 = 1;
    let allow: [u8; 8] = [0x06, 0, 0, 0, 0, 0, 0xff, 0x7f];
    let mut program = 1_u64.to_ne_bytes().to_vec();
    program.extend((allow.as_ptr() as u64).to_ne_bytes());
    call!(
        libc::SYS_seccomp,
        SECCOMP_SET_MODE_FILTER,
        0,
        program.as_slice()
    )?;
    Ok(After::Stay)
}

fn landlock(a: &Arguments<'_>) -> io::Result<After> {
    let reads = 4_u64.to_ne_bytes();
    let rules = sys::descriptor(call!(
        libc::SYS_landlock_create_ruleset,
        reads.as_slice(),
        8,
        0
    ))?;
    let directory = sys::open(&a.name(0), libc::O_PATH, 0)?;
    call!(libc::SYS_prctl, libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)?;
    call!(libc::SYS_landlock_restrict_self, &rules, 0)?;
    keep((rules, directory))
}

fn personality(a: &Arguments<'_>) -> io::Result<After> {
    call!(libc::SYS_personality, a.number(0))?;
    Ok(After::Stay)
}

/// A map of one entry.
fn bpf() -> io::Result<After> {
    let mut wish = [0; 64];
    for (place, value) in [2_u32, 4, 4, 1].into_iter().enumerate() {
        wish[place * 4..place * 4 + 4].copy_from_slice(&value.to_ne_bytes());
    }
    held_of(call!(libc::SYS_bpf, 0, wish.as_slice(), 64))
}

/// Counts its own page faults.
fn perf() -> io::Result<After> {
    let mut wish = [0; 112];
    wish[..4].copy_from_slice(&1_u32.to_ne_bytes());
    wish[4..8].copy_from_slice(&112_u32.to_ne_bytes());
    wish[8..16].copy_from_slice(&2_u64.to_ne_bytes());
    held_of(call!(
        libc::SYS_perf_event_open,
        wish.as_slice(),
        0,
        -1,
        -1,
        0
    ))
}

fn ring() -> io::Result<After> {
    let mut wish = [0; 120];
    held_of(call!(libc::SYS_io_uring_setup, 4, wish.as_mut_slice()))
}

fn swap(a: &Arguments<'_>) -> io::Result<After> {
    let path = a.name(0);
    done(call!(libc::SYS_swapon, path.as_c_str(), 0))
}

/// Opens a file by the number that its file system has for it.
fn handle(a: &Arguments<'_>) -> io::Result<After> {
    const ROOM: u32 = 128;
    let path = a.name(0);
    let mut handle = vec![0; 8 + ROOM as usize];
    handle[..4].copy_from_slice(&ROOM.to_ne_bytes());
    let mut mount = [0; 4];
    let (at, mount) = (libc::AT_FDCWD, mount.as_mut_slice());
    call!(
        libc::SYS_name_to_handle_at,
        at,
        path.as_c_str(),
        handle.as_mut_slice(),
        mount,
        0
    )?;
    let root = sys::open(c"/", libc::O_RDONLY, 0)?;
    held_of(call!(
        libc::SYS_open_by_handle_at,
        &root,
        handle.as_slice(),
        libc::O_RDONLY
    ))
}

fn fanotify(a: &Arguments<'_>) -> io::Result<After> {
    const FAN_REPORT_FID: u32 = 0x200;
    let watcher = held::fanotify(FAN_REPORT_FID)?;
    let path = a.name(0);
    let mask = libc::FAN_MODIFY;
    call!(
        libc::SYS_fanotify_mark,
        &watcher,
        libc::FAN_MARK_ADD,
        mask,
        libc::AT_FDCWD,
        path.as_c_str()
    )?;
    keep(watcher)
}

/// Calls that would act on the whole machine if they were let through, or only waste its time.
const LEFT_OUT: [i64; 6] = [
    libc::SYS_reboot,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_sync,
    libc::SYS_vhangup,
    libc::SYS_swapoff,
];

/// Any call, with nothing but zeros, in a child that an alarm ends.
fn any_call(a: &Arguments<'_>) -> io::Result<After> {
    let number = a.number(0);
    if LEFT_OUT.contains(&number) {
        return Err(io::Error::from_raw_os_error(libc::ENOSYS));
    }
    done(sys::spawn(move || {
        let one_second: Vec<u8> = [0_i64, 0, 1, 0]
            .iter()
            .flat_map(|n| n.to_ne_bytes())
            .collect();
        let _ = call!(
            libc::SYS_setitimer,
            libc::ITIMER_REAL,
            one_second.as_slice(),
            0
        );
        let _ = sys::raw(number, &[]);
        sys::end(0);
    }))
}
