//! System V and POSIX objects.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;

use super::deed::{After, Arguments, Deed};
use super::files::{done, pattern};
use super::held::keep;
use super::sys::{self, call};

pub(super) const DEEDS: &[(&str, Deed)] = &[
    ("sysv-memory", |a| done(memory(a))),
    ("sysv-memory-attached", attached),
    ("sysv-semaphores", semaphores),
    ("sysv-queue", queue),
    ("posix-memory", posix_memory),
    ("posix-queue", posix_queue),
    ("queue-notify", queue_notify),
    ("memory-file", memory_file),
    ("full-pipe", |_| full_pipe()),
];

const MAKE: i32 = libc::IPC_CREAT | 0o666;

fn memory(a: &Arguments<'_>) -> io::Result<i64> {
    call!(libc::SYS_shmget, a.number(0), a.number(1), MAKE)
}

/// Attached and marked for removal: it lives while this process does.
fn attached(a: &Arguments<'_>) -> io::Result<After> {
    let id = memory(a)?;
    call!(libc::SYS_shmat, id, 0, 0)?;
    call!(libc::SYS_shmctl, id, libc::IPC_RMID, 0)?;
    Ok(After::Stay)
}

fn semaphores(a: &Arguments<'_>) -> io::Result<After> {
    let id = call!(libc::SYS_semget, a.number(0), a.number(1), MAKE)?;
    // struct sembuf: the first semaphore, one up, undone when this process ends.
    let mut up = 0_u16.to_ne_bytes().to_vec();
    up.extend(1_i16.to_ne_bytes());
    up.extend((libc::SEM_UNDO as i16).to_ne_bytes());
    call!(libc::SYS_semop, id, up.as_slice(), 1)?;
    Ok(After::Stay)
}

fn queue(a: &Arguments<'_>) -> io::Result<After> {
    let id = call!(libc::SYS_msgget, a.number(0), MAKE)?;
    let mut message = 1_i64.to_ne_bytes().to_vec();
    message.extend(pattern(a.length(1)));
    done(call!(
        libc::SYS_msgsnd,
        id,
        message.as_slice(),
        a.number(1),
        libc::IPC_NOWAIT
    ))
}

fn posix_memory(a: &Arguments<'_>) -> io::Result<After> {
    done(std::fs::write(
        format!("/dev/shm/{}", a.text(0)),
        pattern(a.length(1)),
    ))
}

fn open_queue(a: &Arguments<'_>) -> io::Result<OwnedFd> {
    let (name, flags) = (a.name(0), libc::O_RDWR | libc::O_CREAT | libc::O_NONBLOCK);
    sys::descriptor(call!(libc::SYS_mq_open, name.as_c_str(), flags, 0o644, 0))
}

fn posix_queue(a: &Arguments<'_>) -> io::Result<After> {
    let queue = open_queue(a)?;
    for _ in 0..a.number(1) {
        call!(
            libc::SYS_mq_timedsend,
            &queue,
            b"message".as_slice(),
            7,
            0,
            0
        )?;
    }
    Ok(After::End)
}

fn queue_notify(a: &Arguments<'_>) -> io::Result<After> {
    let queue = open_queue(a)?;
    // struct sigevent with SIGEV_NONE.
    let mut event = [0; 64];
    event[12..16].copy_from_slice(&libc::SIGEV_NONE.to_ne_bytes());
    call!(libc::SYS_mq_notify, &queue, event.as_slice())?;
    keep(queue)
}

fn memory_file(a: &Arguments<'_>) -> io::Result<After> {
    let name = a.name(0);
    let flags = libc::MFD_ALLOW_SEALING;
    let mut file = File::from(sys::descriptor(call!(
        libc::SYS_memfd_create,
        name.as_c_str(),
        flags
    ))?);
    file.write_all(&pattern(a.length(1)))?;
    let file = OwnedFd::from(file);
    call!(
        libc::SYS_fcntl,
        &file,
        libc::F_ADD_SEALS,
        libc::F_SEAL_WRITE
    )?;
    keep(file)
}

fn full_pipe() -> io::Result<After> {
    let (read, mut write) = io::pipe()?;
    write.write_all(&pattern(65_536))?;
    keep((read, write))
}
