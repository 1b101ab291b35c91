//! The thread that runs the writes of async callers, in order.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use tokio::sync::oneshot;

/// A queue of writes and its thread. Dropping it waits for the queued writes.
pub(crate) struct Writer {
    queue: Option<Sender<Box<dyn FnOnce() + Send>>>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Writer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Writer")
    }
}

impl Writer {
    /// Starts the thread. Returns `None` if it cannot be started.
    pub fn start() -> Option<Self> {
        let (queue, changes) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
        let run = move || changes.into_iter().for_each(|change| change());
        let thread = thread::Builder::new().name("state-writer".to_owned()).spawn(run).ok()?;
        Some(Self { queue: Some(queue), thread: Some(thread) })
    }

    /// Queues a write and waits for it. Returns `None` if the thread has ended, which does not happen before this is
    /// dropped.
    ///
    /// If the future is dropped before the write has begun, the write does not happen.
    pub async fn run<T: Send + 'static>(&self, change: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        let job = move || {
            if !answer.is_closed() {
                let _ = answer.send(catch_unwind(AssertUnwindSafe(change)));
            }
        };
        self.queue.as_ref()?.send(Box::new(job)).ok()?;
        Some(answered.await.ok()?.unwrap_or_else(|panic| resume_unwind(panic)))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
