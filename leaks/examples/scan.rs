//! Scans a root file system in a folder: `scan ROOT WORKDIR [BASE_COMMIT]`.

use std::path::Path;

use innkeeper_leaks::{Ground, Question, scan};

fn main() -> std::io::Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [root, workdir, rest @ ..] = &arguments[..] else {
        eprintln!("usage: scan ROOT WORKDIR [BASE_COMMIT]");
        std::process::exit(2);
    };
    let question = Question {
        workdir: workdir.clone().into_bytes(),
        base_commit: rest.first().cloned().unwrap_or_default(),
        patience_ms: 600_000,
    };
    let began = std::time::Instant::now();
    println!("{:#?}", scan(&Ground::open(Path::new(root))?, &question));
    eprintln!("{:?}", began.elapsed());
    Ok(())
}
