//! Input on its way to a command.
//!
//! It waits in a queue of a few messages and no more than [`INPUT_WINDOW`] bytes. A client that sends more at once than
//! that, in pieces of [`INPUT_PIECE`], is not read from until there is room: its signals wait behind its input.

use std::sync::Arc;

use agentiso_core::ports::link::Stdin;
use agentiso_core::wire::{INPUT_PIECE, INPUT_WINDOW};
use axum::body::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// A queue of input that holds [`INPUT_WINDOW`] bytes, in as many messages as fit into it as pieces.
pub(super) fn queue() -> (Pieces, mpsc::Receiver<Piece>) {
    let (sender, waiting) = mpsc::channel(INPUT_WINDOW / INPUT_PIECE);
    (Pieces { sender, room: Arc::new(Semaphore::new(INPUT_WINDOW)) }, waiting)
}

/// The end of the queue that input is put into.
pub(super) struct Pieces {
    sender: mpsc::Sender<Piece>,
    room: Arc<Semaphore>,
}

/// Input, and its room in the queue until the command has taken it.
pub(super) struct Piece {
    bytes: Bytes,
    _room: OwnedSemaphorePermit,
}

impl Pieces {
    /// Waits until there is room. False if the command takes no more input.
    pub async fn put(&self, bytes: Bytes) -> bool {
        let size = u32::try_from(bytes.len().min(INPUT_WINDOW)).unwrap_or(u32::MAX);
        let put = async {
            let room = Arc::clone(&self.room).acquire_many_owned(size).await.ok()?;
            self.sender.send(Piece { bytes, _room: room }).await.ok()
        };
        tokio::select! {
            put = put => put.is_some(),
            () = self.sender.closed() => false,
        }
    }
}

/// Gives the command its input as fast as it reads, and reports the length of each piece it took.
pub(super) async fn feed(
    stdin: Option<Box<dyn Stdin>>,
    mut waiting: mpsc::Receiver<Piece>,
    took: mpsc::UnboundedSender<usize>,
) {
    let Some(mut stdin) = stdin else { return };
    while let Some(piece) = waiting.recv().await {
        if stdin.write(&piece.bytes).await.is_err() {
            return;
        }
        let _ = took.send(piece.bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn input_that_waits_is_bounded_by_its_bytes() {
        let (pieces, mut waiting) = queue();
        let half = || Bytes::from(vec![0; INPUT_WINDOW / 2]);
        assert!(pieces.put(half()).await && pieces.put(half()).await);
        let mut third = Box::pin(pieces.put(half()));
        assert!((&mut third).now_or_never().is_none());
        let first = waiting.recv().await.unwrap();
        assert!((&mut third).now_or_never().is_none(), "what is being written is held, too");
        drop(first);
        assert!(third.await);
        let fourth = pieces.put(half());
        drop(waiting);
        assert!(!fourth.await, "a command that takes no more input ends the wait");
    }
}
