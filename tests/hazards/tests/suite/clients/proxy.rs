//! A link between a client and a manager that a test can watch and freeze.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Passes on what comes, and counts it.
#[derive(Debug)]
pub(super) struct Proxy {
    /// Where clients connect.
    pub(super) socket: PathBuf,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes from clients, and to them.
    passed: [AtomicU64; 2],
    frozen: AtomicBool,
}

impl Proxy {
    /// Listens at `socket` for clients of the manager at `manager`.
    pub(super) fn open(socket: PathBuf, manager: &Path) -> Self {
        let listener = UnixListener::bind(&socket).expect("bound");
        let state = Arc::new(State::default());
        let (manager, shared) = (manager.to_owned(), Arc::clone(&state));
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                let server = UnixStream::connect(&manager).expect("the manager listens");
                let copy = |stream: &UnixStream| stream.try_clone().expect("copied");
                let (from, to) = (copy(&client), copy(&server));
                let (one, other) = (Arc::clone(&shared), Arc::clone(&shared));
                std::thread::spawn(move || pass(from, to, &one, 0));
                std::thread::spawn(move || pass(server, client, &other, 1));
            }
        });
        Self { socket, state }
    }

    /// Bytes that came from clients and went to them.
    pub(super) fn passed(&self) -> [u64; 2] {
        [0, 1].map(|way| self.state.passed[way].load(Ordering::Relaxed))
    }

    /// From now on nothing passes any more, and nobody is told.
    pub(super) fn freeze(&self) {
        self.state.frozen.store(true, Ordering::Relaxed);
    }
}

fn pass(mut from: UnixStream, mut to: UnixStream, state: &State, way: usize) {
    let mut piece = [0; 65536];
    while let Ok(got @ 1..) = from.read(&mut piece) {
        if state.frozen.load(Ordering::Relaxed) {
            continue;
        }
        state.passed[way].fetch_add(got as u64, Ordering::Relaxed);
        if to.write_all(&piece[..got]).is_err() {
            break;
        }
    }
    // A frozen link stays open: its ends hear nothing at all.
    if !state.frozen.load(Ordering::Relaxed) {
        let _ = to.shutdown(Shutdown::Write);
    }
}
