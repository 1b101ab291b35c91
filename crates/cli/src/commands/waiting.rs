//! Showing that something takes long.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agentiso_core::Failure;
use agentiso_core::progress::Progress;

use crate::output::Output;

/// Shorter work shows nothing.
const NOTICEABLE: Duration = Duration::from_secs(1);

/// Does some work, and shows `what` if it takes long and reports no progress of its own.
pub async fn waiting<T>(
    output: Output,
    what: &str,
    work: impl AsyncFnOnce(Arc<dyn Progress>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let told = Arc::new(Told { progress: output.progress(), told: AtomicBool::new(false) });
    let mut work = pin!(work(told.clone()));
    tokio::select! {
        done = &mut work => return done,
        () = tokio::time::sleep(NOTICEABLE) => {}
    }
    if told.told.load(Ordering::Relaxed) {
        return work.await;
    }
    told.progress.step(what, None);
    let done = work.await?;
    told.progress.done("");
    Ok(done)
}

/// Remembers whether any progress was reported.
struct Told {
    progress: Arc<dyn Progress>,
    told: AtomicBool,
}

impl Progress for Told {
    fn step(&self, what: &str, total: Option<u64>) {
        self.told.store(true, Ordering::Relaxed);
        self.progress.step(what, total);
    }

    fn advance(&self, amount: u64) {
        self.progress.advance(amount);
    }

    fn done(&self, remark: &str) {
        self.progress.done(remark);
    }
}
