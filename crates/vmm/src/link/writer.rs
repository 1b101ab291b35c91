//! The task that writes to the guest, and the two queues it empties.
//!
//! Both queues are bounded, though their channels are not, because every entry was admitted by something scarce:
//!
//! * *control* holds at most one request, one cancel and one grant per channel for each of the session's
//!   [`agentiso_proto::MAX_STREAMS`] streams; signals, resizes and pings need one of its few places.
//! * *bulk* holds data, for which the stream's credit and then one of the queue's places must be had, and at most
//!   one end of data per stream.
//!
//! The writer looks at control before every data frame, so a cancel or a grant waits for one frame at most, however
//! much data other streams want to send. Requests share the control queue with cancels, so a cancel never
//! overtakes its request; data never overtakes the request it belongs to either.

use std::io;
use std::sync::Arc;

use agentiso_proto::{Channel, Kind, encode};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::stream::Stream;

/// Frames shorter than this are gathered into one write.
const GATHER: usize = 16 * 1024;

/// Something to write.
pub(super) enum Outgoing {
    /// An encoded frame and the place in the queue it gives back when written.
    Frame(Vec<u8>, Option<OwnedSemaphorePermit>),
    /// Whatever the stream owes the guest on this channel by then.
    Grant(Arc<Stream>, Channel),
}

/// The reading ends of the queues.
pub(super) struct Queues {
    pub(super) control: mpsc::UnboundedReceiver<Outgoing>,
    pub(super) bulk: mpsc::UnboundedReceiver<Outgoing>,
}

impl Queues {
    /// Waits for the next entry; `None` when all senders are gone and everything was taken.
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

/// Writes `opening`, then the queues' entries until every sender is gone.
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
        // The resynchronisation padding is long and never comes again.
        gathered.shrink_to(2 * GATHER);
    }
    writer.flush().await
}
