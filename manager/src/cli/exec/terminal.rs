//! This process's own terminal: its size and its raw mode.

use std::io::IsTerminal;

use innkeeper_proto::v1::TerminalSize;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// The size of the terminal on standard output, else 24 lines of 80.
pub(crate) fn size() -> TerminalSize {
    match tcgetwinsize(std::io::stdout()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => TerminalSize {
            rows: u32::from(size.ws_row),
            columns: u32::from(size.ws_col),
        },
        Ok(_) | Err(_) => TerminalSize {
            rows: 24,
            columns: 80,
        },
    }
}

/// Raw mode of the terminal on standard input, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Raw {
    before: Termios,
}

impl Raw {
    /// Enters raw mode; nothing happens where standard input is no terminal.
    pub(crate) fn enter() -> Option<Self> {
        let stdin = std::io::stdin();
        if !stdin.is_terminal() {
            return None;
        }
        let before = tcgetattr(&stdin).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(&stdin, OptionalActions::Flush, &raw).ok()?;
        Some(Self { before })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // Nothing can be done where the terminal is gone.
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Flush, &self.before);
    }
}
