//! The task that writes to the guest, and the two queues it empties.
//!
//! Both queues use unbounded channels, but their length is bounded, because every entry needs a limited resource:
//!
//! * *control* holds at most one request, one cancel and one grant per channel for each of the session's
//!   [`agentiso_proto::MAX_STREAMS`] streams. Signals, resizes and pings need a slot.
//! * *bulk* holds data, which needs the stream's credit and a slot, and at most one end of data per stream.
//!
//! The writer checks control before every data frame, so a cancel or a grant waits for at most one frame. Requests and
//! cancels share a queue, so a cancel never overtakes its request; data never overtakes its request either.

use std::io;
use std::sync::Arc;

use agentiso_proto::{Channel, Kind, encode};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::stream::Stream;

/// Frames shorter than this are combined into one write.
const GATHER: usize = 16 * 1024;

/// Something to write.
pub(super) enum Outgoing {
    /// An encoded frame, and its slot, which is released when it is written.
    Frame(Vec<u8>, Option<OwnedSemaphorePermit>),
    /// The credit that is due on this channel when it is written.
    Grant(Arc<Stream>, Channel),
}

/// The receivers of the queues.
pub(super) struct Queues {
    pub(super) control: mpsc::UnboundedReceiver<Outgoing>,
    pub(super) bulk: mpsc::UnboundedReceiver<Outgoing>,
}

impl Queues {
    /// Waits for the next entry; `None` when all senders are dropped and the queues are empty.
    async fn next(&mut self) -> Option<Outgoing> {
        tokio::select! {
            biased;
            Some(entry) = self.control.recv() => Some(entry),
            Some(entry) = self.bulk.recv() => Some(entry),
            else => None,
        }
    }

    fn try_next(&mut self) -> Option<Outgoing> {
        self.control.try_recv().or_else(|_| self.bulk.try_recv()).ok()
    }
}

/// Writes `opening`, then the queues' entries until all senders are dropped.
pub(super) async fn run<W: AsyncWrite + Unpin>(
    writer: &mut W,
    opening: Vec<u8>,
    queues: &mut Queues,
) -> io::Result<()> {
    let mut gathered = opening;
    loop {
        while gathered.len() < GATHER {
            let Some(entry) = queues.try_next() else { break };
            match entry {
                Outgoing::Frame(frame, _place) if frame.len() >= GATHER => {
                    flush(writer, &mut gathered).await?;
                    writer.write_all(&frame).await?;
                }
                entry => gather(entry, &mut gathered),
            }
        }
        flush(writer, &mut gathered).await?;
        match queues.next().await {
            Some(Outgoing::Frame(frame, _place)) if frame.len() >= GATHER => writer.write_all(&frame).await?,
            Some(entry) => gather(entry, &mut gathered),
            None => return writer.shutdown().await,
        }
    }
}

fn gather(entry: Outgoing, out: &mut Vec<u8>) {
    match entry {
        Outgoing::Frame(frame, _) => out.extend_from_slice(&frame),
        Outgoing::Grant(stream, channel) => {
            let amount = stream.grant(channel);
            encode(Kind::Credit, channel, false, stream.id, &amount.to_le_bytes(), out);
        }
    }
}

async fn flush<W: AsyncWrite + Unpin>(writer: &mut W, gathered: &mut Vec<u8>) -> io::Result<()> {
    if !gathered.is_empty() {
        writer.write_all(gathered).await?;
        gathered.clear();
        // The padding for resynchronisation is long and not needed again.
        gathered.shrink_to(2 * GATHER);
    }
    writer.flush().await
}
