//! The command line: what can be asked for, and who answers.

pub(crate) mod absent;
pub(crate) mod connect;
pub(crate) mod copy;
pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod exec;
pub(crate) mod failure;
pub(crate) mod form;
pub(crate) mod image;
pub(crate) mod lease;
pub(crate) mod output;
pub(crate) mod pools;
pub(crate) mod record;
pub(crate) mod returning;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod table;
pub(crate) mod template;
pub(crate) mod values;
pub(crate) mod verify;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use failure::{FAILED, Failure, USAGE};

/// Leases sandboxes to agent rollouts and grading jobs, takes them back, resets them to their
/// recorded baseline and verifies that by hash before anyone gets them again.
#[derive(Debug, Parser)]
#[command(
    name = "innkeeper",
    version,
    arg_required_else_help = true,
    after_help = "Examples:\n  innkeeper image import ./rootfs --name demo\n  innkeeper run demo -- echo hello\n  innkeeper grade --tasks tasks.jsonl --predictions gold --out ./graded"
)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// Options of every command.
#[derive(Clone, Debug, Args)]
pub(crate) struct Global {
    /// The manager to talk to: unix:///PATH or tcp://HOST:PORT
    #[arg(long, global = true, env = "INNKEEPER_ENDPOINT", value_name = "ADDR")]
    pub(crate) endpoint: Option<String>,
    /// One JSON document on standard output, or JSON lines for streams
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Where the manager and the image store keep their state
    #[arg(long, global = true, env = "INNKEEPER_STATE_DIR", value_name = "DIR")]
    pub(crate) state_dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a manager in the foreground until it is told to stop
    Serve(serve::Serve),
    /// Say what this machine allows, what is missing and what to do
    Doctor(doctor::Doctor),
    /// Import, list and remove images
    Image(image::ImageCommand),
    /// Lease a sandbox of an image
    Lease(lease::Lease),
    /// Move a lease's expiry
    Renew(lease::Renew),
    /// Run a command in a leased sandbox
    Exec(exec::Exec),
    /// Copy files and trees into or out of a leased sandbox
    Cp(copy::Copy),
    /// Give a lease back; its sandbox is reset and verified, or destroyed
    Return(returning::Return),
    /// Lease a sandbox, run a command in it and return it
    Run(run::Run),
    /// List slots
    Ps(pools::Ps),
    /// List pools
    Pools(pools::Pools),
    /// Retire the idle slots of a pool and make no new ones
    Drain(pools::Drain),
    /// Print the manager's events
    Events(events::Events),
    /// Grade predictions on SWE-bench tasks
    Grade(crate::grade::Grade),
    /// Measure each speed beside its floor
    Bench(crate::bench::Bench),
    /// Save, restore and move states of a sandbox (not there yet)
    #[command(after_help = "Example:\n  innkeeper snapshot create LEASE before-tests")]
    Snapshot(absent::Anything),
    /// Print the signed record of a lease that is over
    Record(record::Record),
    /// Check a signed record offline
    Verify(verify::Verify),
    /// Search for false cleans with hostile rollouts
    #[cfg(feature = "fuzz")]
    Fuzz(crate::fuzz::Fuzz),
    /// Search for false cleans with hostile rollouts (not in this build)
    #[cfg(not(feature = "fuzz"))]
    #[command(after_help = "Example:\n  innkeeper fuzz --image demo --seed 1 --iterations 100")]
    Fuzz(absent::Anything),
    /// Replay a trace against supply policies (not there yet)
    #[command(after_help = "Example:\n  innkeeper replay trace.jsonl --out ./replayed")]
    Replay(absent::Anything),
    /// Advise on the size of pools from a trace (not there yet)
    #[command(after_help = "Example:\n  innkeeper size trace.jsonl --out ./sized")]
    Size(absent::Anything),
    /// Watch pools and slots live (not there yet)
    #[command(after_help = "Example:\n  innkeeper top")]
    Top(absent::Anything),
}

impl Cli {
    /// An empty variable of the environment is one that is not set.
    fn without_empty(mut self) -> Self {
        self.global.endpoint = self.global.endpoint.filter(|text| !text.is_empty());
        self.global.state_dir = self
            .global
            .state_dir
            .filter(|path| !path.as_os_str().is_empty());
        self
    }
}

/// Reads the arguments, runs the command and says how it ended. Returns the exit code.
pub(crate) fn main() -> i32 {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli.without_empty(),
        Err(error) => {
            let code = if error.use_stderr() { USAGE } else { 0 };
            return if error.print().is_ok() { code } else { FAILED };
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("innkeeper: cannot start: {error}");
            return FAILED;
        }
    };
    let ended = runtime.block_on(dispatch(cli));
    // Reads of standard input may still be waiting; they must not hold the process.
    runtime.shutdown_background();
    match ended {
        Ok(code) => code,
        Err(failure) => {
            if !failure.message.is_empty() {
                eprintln!("innkeeper: {}", failure.message);
            }
            failure.code
        }
    }
}

async fn dispatch(cli: Cli) -> Result<i32, Failure> {
    let global = &cli.global;
    match cli.command {
        Command::Serve(command) => command.run(global).await,
        Command::Doctor(command) => command.run(global).await,
        Command::Image(command) => command.run(global).await,
        Command::Lease(command) => command.run(global).await,
        Command::Renew(command) => command.run(global).await,
        Command::Exec(command) => command.run(global).await,
        Command::Cp(command) => command.run(global).await,
        Command::Return(command) => command.run(global).await,
        Command::Run(command) => command.run(global).await,
        Command::Ps(command) => command.run(global).await,
        Command::Pools(command) => command.run(global).await,
        Command::Drain(command) => command.run(global).await,
        Command::Events(command) => command.run(global).await,
        Command::Record(command) => command.run(global).await,
        Command::Verify(command) => command.run(global),
        Command::Grade(command) => command.run(global).await,
        Command::Bench(command) => command.run(global).await,
        Command::Snapshot(_) => Err(Failure::absent("`innkeeper snapshot`")),
        #[cfg(feature = "fuzz")]
        Command::Fuzz(command) => command.run(global).await,
        #[cfg(not(feature = "fuzz"))]
        Command::Fuzz(_) => Err(Failure::left_out("`innkeeper fuzz`", "fuzz")),
        Command::Replay(_) => Err(Failure::absent("`innkeeper replay`")),
        Command::Size(_) => Err(Failure::absent("`innkeeper size`")),
        Command::Top(_) => Err(Failure::absent("`innkeeper top`")),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn every_command_has_an_example() {
        fn check(command: &clap::Command, path: &str) {
            let help = command
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            assert!(
                help.contains("Example") && help.contains(path),
                "{path} has no example of itself"
            );
            for inner in command.get_subcommands().filter(|c| c.get_name() != "help") {
                check(inner, &format!("{path} {}", inner.get_name()));
            }
        }
        let command = Cli::command();
        command.clone().debug_assert();
        for inner in command.get_subcommands() {
            check(inner, &format!("innkeeper {}", inner.get_name()));
        }
    }

    #[test]
    fn the_contract_parses() {
        for line in [
            "serve --config c.yaml --provider local --listen unix:///a --listen tcp://127.0.0.1:1 --token-file t --metrics tcp://127.0.0.1:2",
            "doctor --provider local",
            "image import ./tree --name n",
            "image ls --json",
            "image rm n",
            "lease img --template f --job j --ttl 1h --max 2h --timeout 5s --request-id r",
            "renew l --ttl 5m",
            "exec l --cwd /a --env K=V --env L=W --user u --timeout 1s -i -t -- a --b",
            "cp l:/a b",
            "return l --wait --verify full",
            "return l --discard",
            "run img --template f --strategy sliced --rights pod --timeout 1s -- true",
            "ps",
            "pools --json",
            "drain p",
            "events --follow --since 7",
            "grade --tasks f --predictions gold --out d --workers 2 --images {repo}:{version} --template t --timeout 1m --run-id r --pristine-runner",
            "bench --only lease --compare f",
            "snapshot create l n",
            "snapshot diff a b --text",
            "verify record --key f",
            "record l",
            "fuzz --image i --seed 1 --iterations 20 --strategy layered --rights root",
            "replay t --policy f --seeds 3 --out d",
            "size t --out d",
            "top",
        ] {
            let words = std::iter::once("innkeeper").chain(line.split(' '));
            assert!(Cli::try_parse_from(words).is_ok(), "{line}");
        }
        for line in [
            "exec l",
            "exec l true",
            "return l --verify deep",
            "lease",
            "cp a",
            "grade --out d",
            "renew l --ttl 5",
        ] {
            let words = std::iter::once("innkeeper").chain(line.split(' '));
            assert!(Cli::try_parse_from(words).is_err(), "{line}");
        }
    }
}
