//! What goes to a running command: standard input, signals, and the terminal's size.

use std::io::Read;

use innkeeper_proto::limits::CHUNK;
use innkeeper_proto::v1::ExecRequest;
use innkeeper_proto::v1::exec_request::Message;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::Sender;

use super::terminal;

/// Messages under way to the manager at most: with the stream's own window this bounds the memory.
pub(crate) const QUEUE: usize = 8;

/// Passes standard input on, chunk by chunk, and its end. The thread ends with the process
/// where nothing comes any more.
pub(crate) fn pass_stdin(to: Sender<ExecRequest>) {
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        let mut chunk = vec![0; CHUNK];
        loop {
            let message = match stdin.read(&mut chunk) {
                Ok(0) | Err(_) => Message::StdinEnd(true),
                Ok(n) => Message::Stdin(chunk[..n].to_vec().into()),
            };
            let last = matches!(message, Message::StdinEnd(_));
            if to
                .blocking_send(ExecRequest {
                    message: Some(message),
                })
                .is_err()
                || last
            {
                return;
            }
        }
    });
}

/// The signals that are passed on to the command.
const PASSED: [SignalKind; 6] = [
    SignalKind::interrupt(),
    SignalKind::terminate(),
    SignalKind::hangup(),
    SignalKind::quit(),
    SignalKind::user_defined1(),
    SignalKind::user_defined2(),
];

/// Passes signals on until the receiver is gone, and with a terminal its changes of size.
pub(crate) fn pass_signals(to: &Sender<ExecRequest>, has_terminal: bool) -> std::io::Result<()> {
    for kind in PASSED {
        let number = kind.as_raw_value();
        tokio::spawn(forward(signal(kind)?, to.clone(), move || {
            Message::Signal(number)
        }));
    }
    if has_terminal {
        let changes = signal(SignalKind::window_change())?;
        tokio::spawn(forward(changes, to.clone(), || {
            Message::Resize(terminal::size())
        }));
    }
    Ok(())
}

/// Waits for the second SIGINT or SIGTERM to this process and tells its number: the first is
/// the command's, and one that is stopped or deaf to it must not keep its caller.
pub(crate) fn insisted() -> std::io::Result<impl Future<Output = i32>> {
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut terminations = signal(SignalKind::terminate())?;
    Ok(async move {
        let mut came = 0;
        loop {
            let kind = tokio::select! {
                _ = interrupts.recv() => SignalKind::interrupt(),
                _ = terminations.recv() => SignalKind::terminate(),
            };
            came += 1;
            if came == 2 {
                return kind.as_raw_value();
            }
        }
    })
}

async fn forward(mut signals: Signal, to: Sender<ExecRequest>, message: impl Fn() -> Message) {
    loop {
        tokio::select! {
            () = to.closed() => return,
            arrived = signals.recv() => {
                if arrived.is_none() || to.send(ExecRequest { message: Some(message()) }).await.is_err() {
                    return;
                }
            }
        }
    }
}
