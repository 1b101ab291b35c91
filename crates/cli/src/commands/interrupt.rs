//! Ctrl-C for work that lasts.

use std::future::Future;
use std::task::{Context, Waker};

use agentiso_core::{Code, Failure};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::attend::signal_code;

/// Does some work unless a signal comes first; the work is dropped then, and with it all it has made so far.
pub async fn interruptible<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    tokio::select! {
        done = work => done,
        _ = interrupt.recv() => Err(Failure::new(Code::Cancelled, "interrupted; nothing was left behind")),
        _ = terminate.recv() => Err(Failure::new(Code::Cancelled, "terminated; nothing was left behind")),
    }
}

/// Signals that have to wait until something short is done that must not be torn.
pub struct Held([(SignalKind, Signal); 3]);

impl Held {
    /// Holds signals back from now on.
    pub fn new() -> Result<Self, Failure> {
        let hold = |kind| Ok::<_, Failure>((kind, listen(kind)?));
        Ok(Self([
            hold(SignalKind::interrupt())?,
            hold(SignalKind::terminate())?,
            hold(SignalKind::hangup())?,
        ]))
    }

    /// The exit code now that it is done: that of a signal if one came, else `code`.
    pub fn exit_code(mut self, code: u8) -> u8 {
        let mut now = Context::from_waker(Waker::noop());
        let came = self.0.iter_mut().find_map(|(kind, signal)| {
            signal.poll_recv(&mut now).is_ready().then(|| signal_code(kind.as_raw_value()))
        });
        came.unwrap_or(code)
    }
}

fn listen(kind: SignalKind) -> Result<Signal, Failure> {
    let failed = |error| Failure::new(Code::Internal, format!("could not listen for signals: {error}"));
    signal(kind).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_signal_that_was_held_back_shows_in_the_exit_code() {
        assert_eq!(Held::new().unwrap().exit_code(3), 3);
        let held = Held::new().unwrap();
        let mut seen = listen(SignalKind::hangup()).unwrap();
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::HUP).unwrap();
        seen.recv().await;
        assert_eq!(held.exit_code(3), 129);
    }
}
