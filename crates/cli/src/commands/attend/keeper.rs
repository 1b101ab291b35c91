//! What a command reads and prints, on this side.

use std::io::{self, Read, Write};

use agentiso_api::http::INPUT_PIECE;
use agentiso_core::Capture;
use tokio::sync::mpsc;

use crate::output::Output;

/// What `--json` keeps of each output stream.
const CAPTURE_BYTES: usize = 4 << 20;
/// How many pieces of input may wait for the machine.
const INPUT_PIECES: usize = 4;

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

/// Standard input in pieces. A thread of its own reads it, because a read may last for ever.
pub fn read_input() -> mpsc::Receiver<Vec<u8>> {
    let (pieces, queue) = mpsc::channel(INPUT_PIECES);
    let read = move || {
        let mut buffer = vec![0; INPUT_PIECE];
        while let Ok(length @ 1..) = io::stdin().read(&mut buffer) {
            if pieces.blocking_send(buffer[..length].to_vec()).is_err() {
                return;
            }
        }
    };
    // Without the thread the queue is closed: the command reads nothing.
    let _ = std::thread::Builder::new().name("stdin".to_owned()).spawn(read);
    queue
}
