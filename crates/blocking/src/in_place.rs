//! Work that blocks, done where it is called.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Runs blocking work on the current thread. On a worker thread of a multi-threaded runtime, its other tasks move to
/// another thread first.
///
/// Costs up to some tens of microseconds, so a single cheap system call is not worth it. Other futures of the same task
/// (`join!`, `select!`) wait until the work is done.
pub fn in_place<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current() {
        Ok(handle) if handle.runtime_flavor() == RuntimeFlavor::MultiThread => {
            tokio::task::block_in_place(work)
        }
        _ => work(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn others_run_while_one_blocks() {
        let (told, tell) = std::sync::mpsc::channel();
        // With one thread for all tasks, the second could never run if the first held it.
        let first = tokio::spawn(async move { in_place(move || tell.recv()) });
        tokio::spawn(async move { told.send(7) }).await.unwrap().unwrap();
        assert_eq!(first.await.unwrap(), Ok(7));
    }

    #[tokio::test]
    async fn it_works_without_other_threads() {
        assert_eq!(in_place(|| 3), 3);
    }
}
