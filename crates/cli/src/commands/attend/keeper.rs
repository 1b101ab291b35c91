//! The output of a command on this side.

use std::io::{self, Write};

use agentiso_core::Capture;

use crate::output::Output;

/// What `--json` keeps of each output stream.
const CAPTURE_BYTES: usize = 4 << 20;

/// Where the command's output goes.
pub struct Keeper {
    captured: [Capture; 2],
    output: Output,
}

impl Keeper {
    /// Captures output for `--json`, and otherwise passes it on.
    pub fn new(output: Output) -> Self {
        Self { captured: [Capture::new(CAPTURE_BYTES), Capture::new(CAPTURE_BYTES)], output }
    }

    /// Takes a piece of output: standard output is stream 0, standard error is stream 1.
    pub fn keep(&mut self, stream: usize, bytes: &[u8]) -> io::Result<()> {
        if self.output.json {
            self.captured[stream].push(bytes);
            return Ok(());
        }
        // Written synchronously, so that a slow reader slows the command down.
        let mut out: Box<dyn Write> =
            if stream == 0 { Box::new(io::stdout()) } else { Box::new(io::stderr()) };
        out.write_all(bytes).and_then(|()| out.flush())
    }

    /// The captured output.
    pub fn captured(self) -> [Capture; 2] {
        self.captured
    }
}
