//! Connections whose client reads nothing.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A stream that breaks when nothing could be written to it for a while, so that an answer nobody reads is not held for
/// ever. A stream to which nothing is written lasts as long as it likes.
pub(super) struct Unstalled<S> {
    stream: S,
    patience: Duration,
    /// Since when nothing could be written.
    stalled: Option<Pin<Box<Sleep>>>,
    patient: Patient,
}

/// Makes a stream wait for its reader without limit from then on.
#[derive(Clone, Default)]
pub(super) struct Patient(Arc<AtomicBool>);

impl Patient {
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<S> Unstalled<S> {
    pub fn new(stream: S, patience: Duration) -> Self {
        Self { stream, patience, stalled: None, patient: Patient::default() }
    }

    pub fn patient(&self) -> Patient {
        self.patient.clone()
    }

    /// What became of an attempt to write.
    fn attempted<T>(
        &mut self,
        attempt: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if attempt.is_ready() || self.patient.0.load(Ordering::Relaxed) {
            self.stalled = None;
            return attempt;
        }
        let patience = self.patience;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read the response")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Unstalled<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Unstalled<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let attempt = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.attempted(attempt, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let attempt = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.attempted(attempt, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::{Instant, timeout};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn an_answer_nobody_reads_is_given_up() {
        let (ours, _theirs) = duplex(100);
        let mut ours = Unstalled::new(ours, PATIENCE);
        let began = Instant::now();
        let error = ours.write_all(&[0; 1000]).await.unwrap_err();
        assert_eq!((error.kind(), began.elapsed().as_secs()), (io::ErrorKind::TimedOut, 60));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_is_served_however_long_it_takes() {
        let (ours, mut theirs) = duplex(100);
        let mut ours = Unstalled::new(ours, PATIENCE);
        let reading = tokio::spawn(async move {
            let mut read = 0;
            let mut buffer = [0; 50];
            while read < 1000 {
                sleep(PATIENCE / 2).await;
                read += theirs.read(&mut buffer).await.unwrap();
            }
            theirs
        });
        ours.write_all(&[0; 1000]).await.unwrap();
        let mut theirs = reading.await.unwrap();
        // And nothing to say is no stall.
        sleep(PATIENCE * 10).await;
        ours.write_all(b"x").await.unwrap();
        assert_eq!(theirs.read_u8().await.unwrap(), b'x');
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_was_made_patient_waits_for_its_reader() {
        let (ours, _theirs) = duplex(100);
        let mut ours = Unstalled::new(ours, PATIENCE);
        ours.patient().set();
        assert!(timeout(PATIENCE * 100, ours.write_all(&[0; 1000])).await.is_err());
    }
}
