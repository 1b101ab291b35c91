//! An output stream and what its reader can see.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};

use anstream::{AutoStream, ColorChoice};

use super::style::{Paint, harmless_bytes};

/// Standard output or standard error, or a test that plays one of them.
///
/// Text from any source cannot control the terminal: of all control characters only line ends, tabs and
/// our own colours pass, others become visible.
pub struct Stream {
    writer: Box<dyn Write + Send>,
    terminal: bool,
    verbatim: bool,
    paint: Paint,
}

impl Stream {
    /// Standard output.
    pub fn stdout() -> Self {
        let stream = io::stdout();
        let colour = AutoStream::choice(&stream) != ColorChoice::Never;
        Self::of(stream.is_terminal(), colour, Box::new(stream))
    }

    /// Standard error.
    pub fn stderr() -> Self {
        let stream = io::stderr();
        let colour = AutoStream::choice(&stream) != ColorChoice::Never;
        Self::of(stream.is_terminal(), colour, Box::new(stream))
    }

    /// A stream that is kept in memory, for tests; a terminal or a pipe, with colours or without.
    pub fn captured(terminal: bool, colour: bool) -> (Self, Capture) {
        let capture = Capture::default();
        let writer = Box::new(capture.clone());
        (Self::of(terminal, colour, writer), capture)
    }

    fn of(terminal: bool, colour: bool, writer: Box<dyn Write + Send>) -> Self {
        Self { writer, terminal, verbatim: false, paint: Paint::new(colour) }
    }

    /// The same, for the output of commands, which may do with the terminal what they like.
    pub fn verbatim(&mut self) -> &mut Self {
        self.verbatim = true;
        self
    }

    /// Whether a person is looking.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// The colours its reader can see.
    pub fn paint(&self) -> Paint {
        self.paint
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.terminal || self.verbatim {
            return self.writer.write(bytes);
        }
        self.writer.write_all(harmless_bytes(bytes).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// What was written to a captured stream.
#[derive(Clone, Default)]
pub struct Capture(Arc<Mutex<Vec<u8>>>);

impl Capture {
    /// Everything written so far.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

impl Write for Capture {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
