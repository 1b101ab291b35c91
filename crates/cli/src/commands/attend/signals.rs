//! Signals this process receives while a command runs in a machine.

use agentiso_core::{Code, Failure};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals that are passed on to the command.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    quit: Signal,
    resize: Signal,
}

/// A signal that was received.
pub enum Caught {
    /// A signal for the command.
    End(i32),
    /// The terminal was resized.
    Resize,
}

impl Signals {
    /// Handles the signals from now on: they no longer end this process.
    pub fn new() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| {
                Failure::new(Code::Internal, format!("could not listen for signals: {error}"))
            })
        };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up: listen(SignalKind::hangup())?,
            quit: listen(SignalKind::quit())?,
            resize: listen(SignalKind::window_change())?,
        })
    }

    /// Waits for any signal.
    pub async fn next(&mut self) -> Caught {
        tokio::select! {
            _ = self.interrupt.recv() => Caught::End(SignalKind::interrupt().as_raw_value()),
            _ = self.terminate.recv() => Caught::End(SignalKind::terminate().as_raw_value()),
            _ = self.hang_up.recv() => Caught::End(SignalKind::hangup().as_raw_value()),
            _ = self.quit.recv() => Caught::End(SignalKind::quit().as_raw_value()),
            _ = self.resize.recv() => Caught::Resize,
        }
    }
}
