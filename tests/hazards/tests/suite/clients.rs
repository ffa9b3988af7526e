//! Faults of calls: what a client does while a command runs or a file is moved.

mod commands;
mod files;
mod links;
mod proxy;

use innkeeper_test_hazards::{Ground, Wire};
use innkeeper_test_local::Guest;
use serde_json::json;

/// A test on one way of making sandboxes.
pub(crate) type Test = fn(&Ground);

/// By the recorded fault and what is done.
pub(crate) const TESTS: &[(&str, Test)] = &[
    ("C2-background-child-and-timeout", commands::background),
    ("C4-last-bytes-of-short-commands", commands::last_bytes),
    (
        "C10-large-argument-and-large-file",
        commands::large_argument,
    ),
    ("C11-arguments-and-environment-verbatim", commands::verbatim),
    ("C14-input-that-nobody-reads", commands::unread_input),
    ("C18-working-directory-is-gone", commands::no_directory),
    (
        "C29-more-streams-than-a-connection-has",
        commands::many_streams,
    ),
    ("C30-many-callers-at-once", commands::many_callers),
    ("C20-caller-dies", links::caller_dies),
    ("C21-link-cut-twice", links::cut_twice),
    ("C22-silent-command-behind-a-proxy", links::silence),
    ("C22-peer-that-stopped-answering", links::no_answer),
    ("C24-archives-of-a-hostile-tar", files::hostile_tar),
    ("C26-folder-swapped-for-a-link", files::swapped),
    ("C27-files-that-are-no-files", files::no_files),
];

/// A lease and a connection for it, inside a runtime.
fn with<F: Future<Output = ()>>(ground: &Ground, test: &str, act: impl FnOnce(Wire) -> F) {
    let guest = lease(ground, test);
    let socket = ground.house.inn().state().join("innkeeper.sock");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        act(Wire::open(&socket, &guest.id).await).await;
    });
    drop(runtime);
    comes_back(guest);
}

fn lease<'a>(ground: &'a Ground, test: &str) -> Guest<'a> {
    ground.lease(&format!("{}-{test}", ground.pair), &json!({}))
}

/// No call leaves a sandbox that cannot be judged: clean or tainted, and never another end.
fn comes_back(guest: Guest<'_>) {
    let back = guest.give_back("swap");
    assert!(
        ["clean", "tainted"].contains(&back["outcome"].as_str().unwrap_or_default()),
        "{back}"
    );
}
