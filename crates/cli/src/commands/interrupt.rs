//! Ctrl-C for long work.

use std::future::Future;

use agentiso_core::{Code, Failure};
use tokio::signal::unix::{SignalKind, signal};

/// Does some work unless a signal comes first; the work is dropped then, and with it all it has made so far.
pub async fn interruptible<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let no_signals = |error| Failure::new(Code::Internal, format!("could not listen for signals: {error}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(no_signals)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(no_signals)?;
    tokio::select! {
        done = work => done,
        _ = interrupt.recv() => Err(Failure::new(Code::Cancelled, "interrupted; nothing was left behind")),
        _ = terminate.recv() => Err(Failure::new(Code::Cancelled, "terminated; nothing was left behind")),
    }
}
