//! execd: builds sandboxes in slots, runs commands in them, moves files and resets.
//!
//! Data flows one way: `rpc` takes a call, `slots` decides which sandbox it is about,
//! `template` and `sandbox` say what to make, `spawner` makes it, `innkeeper_reset`
//! verifies it. `sys` holds every system call.
#![deny(unsafe_code)]
// Nothing outside a program can reach its items: `pub` here means all of the program.
#![allow(unreachable_pub)]

mod cgroup;
mod daemon;
mod doctor;
mod exec;
mod floor;
mod inside;
mod live;
mod local_pod;
mod orphan;
mod plain;
mod pod;
mod replica;
mod rpc;
mod sandbox;
mod sliced;
mod slots;
mod spawner;
mod store;
mod sys;
mod template;
mod wait;

use std::path::PathBuf;
use std::process::ExitCode;

use pod::Socket;

use lexopt::{Arg, Parser, ValueExt};

const HELP: &str = "\
execd: the sandbox daemon of innkeeper, started by it

usage: execd --state DIR              serve sandboxes; the socket is DIR/execd/execd.sock
       execd pod --state DIR --name SLOT --layout mounted|sliced|plain --rights pod|user
                 [--tenant T] [--layers ID,ID..] [--network none|host] [--cpu-millis N]
                 [--memory BYTES] [--pids N] [--orphan-ttl-ms N]
                                      make a local pod and stay until it has ended
       execd pod --state DIR --rights pod|user --name SLOT --tenant T --publish KEY
                                      let a tenant's pods read what one has prepared
       execd pod --state DIR --rights pod|user --sweep
                                      remove what dead pods have left
       execd --layout mounted|sliced|plain --store DIR --state DIR --socket PATH|--listener FD
                                      serve one sandbox in a container, with its rights alone
       execd ids PROGRAM [ARGV..]     run a program as root in a user namespace with a pod's ids
       execd floor clone|spawn|walk DIR|socket BYTES [--n N]
                                      time what the kernel alone needs, as JSON
       execd --version

example: execd --state /var/lib/innkeeper
";

fn main() -> ExitCode {
    if std::env::args_os()
        .next()
        .is_some_and(|name| name == spawner::launch::NAME)
    {
        return run_spawner();
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("execd: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The spawner's socket is its standard input.
fn run_spawner() -> ExitCode {
    match spawner::server::start(&spawner::launch::words()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("execd: the spawner failed: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let mut parser = Parser::from_env();
    let mut state = None;
    let mut layout = None;
    let mut store = None;
    let mut socket = None;
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("state") => state = Some(PathBuf::from(parser.value()?)),
            Arg::Long("store") => store = Some(PathBuf::from(parser.value()?)),
            Arg::Long("socket") => socket = Some(Socket::Path(parser.value()?.into())),
            Arg::Long("listener") => socket = Some(Socket::Given(parser.value()?.parse()?)),
            Arg::Long("layout") => {
                let word = parser.value()?.string()?;
                let known = pod::Layout::from_word(&word);
                layout = Some(known.ok_or_else(|| {
                    anyhow::anyhow!("--layout is mounted, sliced or plain, not {word}")
                })?);
            }
            Arg::Long("version") => {
                println!("execd {}", env!("CARGO_PKG_VERSION"));
                return Ok(());
            }
            Arg::Long("help") | Arg::Short('h') => {
                print!("{HELP}");
                return Ok(());
            }
            Arg::Value(word) if word == "ids" => {
                return Ok(local_pod::run_with_ids(parser.raw_args()?)?);
            }
            Arg::Value(word) if word == "pod" => {
                return Ok(local_pod::run(parser.raw_args()?)?);
            }
            Arg::Value(word) if word == "floor" => {
                let mut words = Vec::new();
                let mut n = 300;
                while let Some(arg) = parser.next()? {
                    match arg {
                        Arg::Long("n") => n = parser.value()?.parse()?,
                        Arg::Value(word) => words.push(word.string()?),
                        _ => return Err(arg.unexpected().into()),
                    }
                }
                return floor::run(&words, n);
            }
            _ => return Err(arg.unexpected().into()),
        }
    }
    let state = state.ok_or_else(|| anyhow::anyhow!("--state DIR is missing; see execd --help"))?;
    let Some(layout) = layout else {
        return daemon::run(&state);
    };
    let needed = "--layout needs --store DIR and --socket PATH or --listener FD; see execd --help";
    pod::run(&pod::Options {
        layout,
        store: store.ok_or_else(|| anyhow::anyhow!(needed))?,
        state,
        socket: socket.ok_or_else(|| anyhow::anyhow!(needed))?,
    })
}
