//! What a command prints, on this side.

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
    /// Keeps what programs want to read, and passes on what people do.
    pub fn new(output: Output) -> Self {
        Self { captured: [Capture::new(CAPTURE_BYTES), Capture::new(CAPTURE_BYTES)], output }
    }

    /// Takes what was printed: output is stream 0, errors are stream 1.
    pub fn keep(&mut self, stream: usize, bytes: &[u8]) -> io::Result<()> {
        if self.output.json {
            self.captured[stream].push(bytes);
            return Ok(());
        }
        // Written here and now: the command's pace is the reader's pace.
        let mut out: Box<dyn Write> =
            if stream == 0 { Box::new(io::stdout()) } else { Box::new(io::stderr()) };
        out.write_all(bytes).and_then(|()| out.flush())
    }

    /// What was kept.
    pub fn captured(self) -> [Capture; 2] {
        self.captured
    }
}
