//! Remembering what was done, without keeping anyone waiting for the disk.

use std::sync::Arc;
use std::time::Duration;

use agentiso_core::ports::records::{NewEvent, Records};
use tokio::sync::{mpsc, oneshot};

/// How many events are kept.
const KEPT: u64 = 100_000;
/// How many events wait to be written at most; beyond that the newest are lost and counted.
const WAITING: usize = 4096;
/// How many are written together.
const TOGETHER: usize = 256;
/// How long one waits for others to be written with.
const DELAY: Duration = Duration::from_millis(50);

enum Note {
    Event(Box<NewEvent>),
    Flush(oneshot::Sender<()>),
}

/// Where events are left to be written.
pub(crate) struct Timeline {
    notes: mpsc::Sender<Note>,
}

impl Timeline {
    /// Starts the writer.
    pub fn start(records: Arc<dyn Records>) -> Self {
        let (notes, mut waiting) = mpsc::channel(WAITING);
        tokio::spawn(async move {
            while let Some(first) = waiting.recv().await {
                let mut batch = vec![first];
                if !matches!(batch[0], Note::Flush(_)) {
                    tokio::time::sleep(DELAY).await;
                }
                while batch.len() < TOGETHER
                    && let Ok(next) = waiting.try_recv()
                {
                    batch.push(next);
                }
                write(&*records, batch).await;
            }
        });
        Self { notes }
    }

    /// Leaves an event to be written.
    pub fn append(&self, event: NewEvent) {
        if self.notes.try_send(Note::Event(Box::new(event))).is_err() {
            tracing::warn!("the timeline cannot keep up; an event is lost");
        }
    }

    /// Waits until everything that was left before is written.
    pub async fn flush(&self) {
        let (done, written) = oneshot::channel();
        if self.notes.send(Note::Flush(done)).await.is_ok() {
            let _ = written.await;
        }
    }
}

async fn write(records: &dyn Records, batch: Vec<Note>) {
    let (mut events, mut flushes) = (Vec::new(), Vec::new());
    for note in batch {
        match note {
            Note::Event(event) => events.push(*event),
            Note::Flush(done) => flushes.push(done),
        }
    }
    if !events.is_empty()
        && let Err(error) = records.append_events(&events).await
    {
        tracing::warn!(%error, "could not write the timeline");
    }
    for done in flushes {
        // Whoever asked may have gone.
        let _ = done.send(());
    }
}

/// Forgets the oldest events.
pub(crate) async fn prune(records: &dyn Records) {
    if let Err(error) = records.prune_events(KEPT).await {
        tracing::warn!(%error, "could not shorten the timeline");
    }
}
