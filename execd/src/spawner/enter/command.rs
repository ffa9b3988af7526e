//! The last steps of a command: stdio, user, directory, rights, program.

use std::convert::Infallible;
use std::ffi::CString;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::{Failure, INSIDE, fail, say, user};
use crate::spawner::build::drop_rights;
use crate::spawner::protocol::ExecSpec;
use crate::sys::{process, seccomp::Filter, terminal};

/// Where shells look when PATH is not set.
const DEFAULT_PATH: &[u8] = b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Runs the command in place of this process, or tells why it could not.
pub(super) fn run(
    message: &ExecSpec,
    stdio: Vec<OwnedFd>,
    channel: BorrowedFd<'_>,
    filter: &Filter,
) -> ! {
    // Closed by number below; a destructor would close another's.
    let stdio = ManuallyDrop::new(stdio);
    let Err(failure) = prepare(message, &stdio, channel, filter);
    fail(channel, &failure)
}

fn prepare(
    message: &ExecSpec,
    stdio: &[OwnedFd],
    channel: BorrowedFd<'_>,
    filter: &Filter,
) -> Result<Infallible, Failure> {
    let user = user::resolve(&message.user)?;
    let _ = rustix::process::setsid();
    let master = match message.terminal {
        Some((rows, columns)) => Some(own_terminal(rows, columns, user.uid)?),
        None => {
            for (number, fd) in stdio.iter().take(3).enumerate() {
                process::move_to(fd.as_fd(), number as i32)
                    .map_err(Failure::at("placing stdio"))?;
            }
            None
        }
    };
    let pid = std::process::id() as i32;
    say(
        channel,
        INSIDE,
        pid,
        &master.iter().map(AsFd::as_fd).collect::<Vec<_>>(),
    );
    drop(master);
    let argv = strings(&message.argv)?;
    let env = strings(&environment(&message.env, &user))?;
    process::close_all_but(&[channel]).map_err(Failure::at("closing descriptors"))?;
    last_steps(message, &user, filter)?;
    Err(launch(&argv, &env))
}

fn last_steps(message: &ExecSpec, user: &user::User, filter: &Filter) -> Result<(), Failure> {
    // The guest's rights first, its directory after: a path is never followed with ours.
    drop_rights(filter)?;
    process::become_ids(user.uid, user.gid, &user.groups)
        .map_err(Failure::at("becoming the user"))?;
    rustix::process::chdir(message.cwd.as_slice()).map_err(|e| {
        let directory = String::from_utf8_lossy(&message.cwd);
        Failure::of_command(
            format!("cwd missing or not to be entered: {directory}"),
            e.into(),
            126,
        )
    })?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(message.umask));
    // Their actions are the default ones already, as in the spawner.
    process::unblock_signals();
    Ok(())
}

fn own_terminal(rows: u16, columns: u16, uid: u32) -> Result<OwnedFd, Failure> {
    let fail = Failure::at("opening a terminal");
    let (master, slave) = terminal::open(rows, columns).map_err(&fail)?;
    let owner = rustix::fs::Uid::from_raw(uid);
    rustix::fs::fchown(&slave, Some(owner), None).map_err(|e| fail(e.into()))?;
    terminal::control(slave.as_fd()).map_err(&fail)?;
    for number in 0..3 {
        process::move_to(slave.as_fd(), number).map_err(&fail)?;
    }
    Ok(master)
}

/// HOME is set from the user's entry where nobody has set it, as Docker does.
fn environment(env: &[Vec<u8>], user: &user::User) -> Vec<Vec<u8>> {
    let mut env = env.to_vec();
    if !env.iter().any(|v| v.starts_with(b"HOME=")) {
        env.push([b"HOME=".as_slice(), &user.home].concat());
    }
    env
}

fn strings(words: &[Vec<u8>]) -> Result<Vec<CString>, Failure> {
    words
        .iter()
        .map(|word| {
            CString::new(word.as_slice()).map_err(|_| {
                let error = io::Error::from_raw_os_error(libc::EINVAL);
                Failure::of_command(
                    "passing a word that holds a NUL byte".to_owned(),
                    error,
                    126,
                )
            })
        })
        .collect()
}

fn launch(argv: &[CString], env: &[CString]) -> Failure {
    let Some(program) = argv.first() else {
        return Failure::new("running a command of no words", libc::EINVAL);
    };
    let name = String::from_utf8_lossy(program.as_bytes()).into_owned();
    let mut error = io::Error::from_raw_os_error(libc::ENOENT);
    for path in candidates(program.as_bytes(), env) {
        let failed = process::exec(&path, argv, env);
        // The search goes on past what is not there; a refusal is remembered.
        if !matches!(failed.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR)) {
            error = failed;
            if !matches!(error.raw_os_error(), Some(libc::EACCES)) {
                break;
            }
        }
    }
    let missing = matches!(error.raw_os_error(), Some(libc::ENOENT));
    Failure::of_command(
        format!("running {name}"),
        error,
        if missing { 127 } else { 126 },
    )
}

fn candidates(program: &[u8], env: &[CString]) -> Vec<CString> {
    if program.contains(&b'/') {
        return CString::new(program).into_iter().collect();
    }
    if program.is_empty() {
        return Vec::new();
    }
    let path = env
        .iter()
        .rev()
        .find_map(|v| v.as_bytes().strip_prefix(b"PATH="));
    path.unwrap_or(DEFAULT_PATH)
        .split(|b| *b == b':')
        .map(|directory| {
            if directory.is_empty() {
                b".".as_slice()
            } else {
                directory
            }
        })
        .filter_map(|directory| CString::new([directory, b"/", program].concat()).ok())
        .collect()
}
