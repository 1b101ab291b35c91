//! The terminal agentiso itself runs in.

use std::io::{self, IsTerminal};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// The local terminal in raw mode; its old mode comes back when this is dropped.
pub struct RawMode {
    before: Termios,
}

impl RawMode {
    /// Switches standard input to raw mode: every key goes to the machine.
    pub fn enter() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        Ok(Self { before })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // Nothing better can be done for a terminal that does not take its old mode back.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// Whether a person types.
pub fn input_is_terminal() -> bool {
    io::stdin().is_terminal()
}

/// Columns and rows of the terminal, or the usual ones without a terminal.
pub fn size() -> (u16, u16) {
    match tcgetwinsize(io::stdout()).or_else(|_| tcgetwinsize(io::stdin())) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col, size.ws_row),
        _ => (80, 24),
    }
}
