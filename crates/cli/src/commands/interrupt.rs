//! Ctrl-C during long work.

use std::future::Future;

use agentiso_core::{Code, Failure};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Does some work until it is done or a signal comes. Then the work is dropped, which undoes it.
pub async fn interruptible<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let interruption = interruption()?;
    tokio::select! {
        done = work => done,
        interrupted = interruption => Err(interrupted),
    }
}

/// Completes when an interrupt or termination signal comes.
pub fn interruption() -> Result<impl Future<Output = Failure>, Failure> {
    let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    Ok(async move {
        let how = tokio::select! {
            _ = interrupt.recv() => "interrupted",
            _ = terminate.recv() => "terminated",
        };
        Failure::new(Code::Cancelled, format!("{how}; nothing was left behind"))
    })
}

fn listen(kind: SignalKind) -> Result<Signal, Failure> {
    let failed = |error| Failure::new(Code::Internal, format!("could not listen for signals: {error}"));
    signal(kind).map_err(failed)
}
