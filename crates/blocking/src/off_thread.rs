//! Work that blocks, done on a blocking thread of the runtime.

use std::panic::resume_unwind;

/// Runs blocking work on a thread of its own and waits for it. A panic of the work is a panic of the caller.
///
/// Work that has started runs to its end even if the returned future is dropped.
pub async fn off_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The runtime is shutting down and drops the caller too.
            Err(_) => std::future::pending().await,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn others_run_while_one_works_off_thread() {
        let (told, tell) = std::sync::mpsc::channel();
        let (heard, sent) = tokio::join!(off_thread(move || tell.recv()), async { told.send(7) });
        assert_eq!((heard, sent), (Ok(7), Ok(())));
    }

    #[tokio::test]
    async fn a_panic_off_thread_reaches_the_caller() {
        let caller = tokio::spawn(async { off_thread(|| panic!("broken")).await });
        assert!(caller.await.unwrap_err().is_panic());
    }
}
