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

/// What a signal requests.
pub enum Requested {
    /// The command should get this signal.
    End(i32),
    /// The terminal has another size.
    Resize,
}

impl Signals {
    /// Takes over the signals; from now on they end nothing by themselves.
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

    /// Waits for a signal that means this process should end.
    pub async fn ending(&mut self) -> i32 {
        loop {
            if let Requested::End(number) = self.next().await {
                return number;
            }
        }
    }

    /// Waits for any signal.
    pub async fn next(&mut self) -> Requested {
        tokio::select! {
            _ = self.interrupt.recv() => Requested::End(SignalKind::interrupt().as_raw_value()),
            _ = self.terminate.recv() => Requested::End(SignalKind::terminate().as_raw_value()),
            _ = self.hang_up.recv() => Requested::End(SignalKind::hangup().as_raw_value()),
            _ = self.quit.recv() => Requested::End(SignalKind::quit().as_raw_value()),
            _ = self.resize.recv() => Requested::Resize,
        }
    }
}
