//! The command `innkeeper`: see `innkeeper --help`.

#![forbid(unsafe_code)]

mod bench;
mod cli;
#[cfg(feature = "fuzz")]
mod fuzz;
mod grade;

use std::io::Write;

fn main() {
    let code = cli::main();
    let _ = std::io::stdout().flush();
    // Not a return: a thread that still waits for standard input must not hold the process.
    std::process::exit(code);
}
