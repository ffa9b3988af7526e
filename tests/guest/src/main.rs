//! The program that tests put into sandboxes. It is linked statically (`tests/static.sh`), so
//! that it runs in any image.

mod act;
mod observe;
mod visit;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    match arguments.first().and_then(|word| word.to_str()) {
        Some("observe") => observe::run(&arguments[1..]),
        Some("act") => act::run(&arguments[1..]),
        Some("visit") => visit::run(&arguments[1..]),
        _ => {
            eprintln!(
                "say what to do: innkeeper-guest observe [--light], act SCRIPT, or visit [--light] [PROGRAM NANOSECONDS]"
            );
            ExitCode::from(2)
        }
    }
}
