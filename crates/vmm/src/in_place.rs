//! Work that blocks, done where it is called.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Does work that waits for the disk, for a process or for a lock, without keeping other tasks from running: they move to
/// another thread meanwhile. For work that borrows; what can be moved goes to `spawn_blocking`.
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
