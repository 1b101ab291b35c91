//! The queue in front of the timeline.
//!
//! Actions that change something store their own entries (`record.rs`). What comes through this queue needs no answer:
//! entries of actions that only read, of calls that were refused, and the ends of calls whose client disconnected.
//!
//! ```text
//!  append ──► queue ──► written in batches ──► written
//!    │ full: waits         │ fails: tried again until it succeeds
//!    ▼
//!  full and failing: the call fails with the reason
//! ```
//!
//! Nothing is dropped. What is still queued when the process is killed is lost; an entry that was stored before is then
//! found as `running` by the next daemon, which marks it as `interrupted` before anything else is written.

use std::sync::Arc;
use std::time::Duration;

use agentiso_core::ports::records::{EventEnd, NewEvent, Records};
use agentiso_core::{Code, Failure};
use tokio::sync::{mpsc, oneshot, watch};

/// How many entries are kept.
const KEPT: u64 = 100_000;
/// How many entries may be queued.
const QUEUED: usize = 4096;
/// How many entries are written together.
const BATCH: usize = 256;
/// How long the first entry of a batch waits for others.
const DELAY: Duration = Duration::from_millis(50);
/// How long a failed write waits before it is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Something to be written.
pub(crate) enum Note {
    /// A complete entry.
    Entry(Box<NewEvent>),
    /// The end of an entry that is stored.
    End(Box<EventEnd>),
    /// Answered when everything before it is written.
    Flush(oneshot::Sender<()>),
}

/// The queue.
pub(crate) struct Timeline {
    queue: mpsc::Sender<Note>,
    failing: watch::Receiver<Option<Trouble>>,
}

/// Why the last write failed, while writes fail.
#[derive(Clone)]
struct Trouble {
    code: Code,
    message: String,
}

impl Timeline {
    /// Starts the task that writes. It first marks the entries that an earlier daemon did not complete.
    pub async fn start(records: Arc<dyn Records>) -> Result<Self, Failure> {
        let newest = records.newest_event().await?;
        let (queue, waiting) = mpsc::channel(QUEUED);
        let (failed, failing) = watch::channel(None);
        tokio::spawn(Writer { records, failed }.run(newest, waiting));
        Ok(Self { queue, failing })
    }

    /// Queues an entry. Waits while the queue is full, unless that is because writes fail.
    pub async fn append(&self, event: NewEvent) -> Result<(), Failure> {
        let mut failing = self.failing.clone();
        let trouble = tokio::select! {
            biased;
            // It fails only if the task that writes has ended, which it does with this queue.
            _ = self.queue.send(Note::Entry(Box::new(event))) => return Ok(()),
            failed = failing.wait_for(Option::is_some) => failed.ok().and_then(|failed| failed.clone()),
        };
        match trouble {
            Some(Trouble { code, message }) => {
                Err(Failure::new(code, format!("the timeline cannot be written: {message}")))
            }
            None => Ok(()),
        }
    }

    /// Queues something from a place that cannot wait.
    pub fn leave(&self, note: Note) {
        let Err(mpsc::error::TrySendError::Full(note)) = self.queue.try_send(note) else { return };
        let queue = self.queue.clone();
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => {
                runtime.spawn(async move { queue.send(note).await });
            }
            Err(_) => tracing::warn!("a timeline entry could not be queued: the daemon is ending"),
        }
    }

    /// Waits until everything that was queued before is written, unless writes fail.
    pub async fn flush(&self) {
        let (done, written) = oneshot::channel();
        let flushed = async {
            if self.queue.send(Note::Flush(done)).await.is_ok() {
                let _ = written.await;
            }
        };
        let mut failing = self.failing.clone();
        tokio::select! {
            () = flushed => {}
            _ = failing.wait_for(Option::is_some) => {}
        }
    }
}

/// The task that writes.
struct Writer {
    records: Arc<dyn Records>,
    failed: watch::Sender<Option<Trouble>>,
}

impl Writer {
    async fn run(self, newest: i64, mut waiting: mpsc::Receiver<Note>) {
        while !self.succeeded(self.records.interrupt_events(newest).await).await {}
        while let Some(first) = waiting.recv().await {
            let mut batch = vec![first];
            if !matches!(batch[0], Note::Flush(_)) {
                tokio::time::sleep(DELAY).await;
            }
            while batch.len() < BATCH
                && let Ok(next) = waiting.try_recv()
            {
                batch.push(next);
            }
            self.write(batch).await;
        }
    }

    async fn write(&self, batch: Vec<Note>) {
        let (mut entries, mut ends, mut flushes) = (Vec::new(), Vec::new(), Vec::new());
        for note in batch {
            match note {
                Note::Entry(entry) => entries.push(*entry),
                Note::End(end) => ends.push(*end),
                Note::Flush(done) => flushes.push(done),
            }
        }
        if !entries.is_empty() {
            while !self.succeeded(self.records.append_events(&entries).await).await {}
        }
        if !ends.is_empty() {
            while !self.succeeded(self.records.complete_events(&ends).await).await {}
        }
        for done in flushes {
            // The caller may have gone.
            let _ = done.send(());
        }
    }

    /// Whether a write succeeded. After one that failed, waits until it is time to try again.
    async fn succeeded(&self, written: Result<(), Failure>) -> bool {
        let Err(failure) = written else {
            self.failed.send_if_modified(|failed| failed.take().is_some());
            return true;
        };
        tracing::warn!(%failure, "could not write the timeline; trying again");
        self.failed.send_replace(Some(Trouble { code: failure.code(), message: failure.to_string() }));
        tokio::time::sleep(RETRY).await;
        false
    }
}

/// Forgets the oldest entries.
pub(crate) async fn prune(records: &dyn Records) {
    if let Err(failure) = records.prune_events(KEPT).await {
        tracing::warn!(%failure, "could not shorten the timeline");
    }
}
