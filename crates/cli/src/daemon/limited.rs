//! Listeners with a limit on open connections.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::anteroom::{Anteroom, Newcomer};

/// A listener that accepts no connection while `most` are open: others wait. If there is an anteroom,
/// those who are in it make room first.
pub(super) struct Limited<L: Listener> {
    listener: L,
    places: Arc<Semaphore>,
    anteroom: Option<Anteroom>,
    /// One that has come and waits for a place.
    next: Option<(L::Io, L::Addr)>,
}

/// A connection, and its place.
pub(super) struct Placed<S> {
    stream: S,
    _place: Option<OwnedSemaphorePermit>,
    newcomer: Option<Arc<Newcomer>>,
}

impl<S> Placed<S> {
    /// What it is in the anteroom, if there is one.
    pub fn newcomer(&self) -> Option<Arc<Newcomer>> {
        self.newcomer.clone()
    }
}

impl<L: Listener> Limited<L> {
    /// For those who need no token.
    pub fn new(listener: L, most: usize) -> Self {
        Self { listener, places: Arc::new(Semaphore::new(most)), anteroom: None, next: None }
    }

    /// For anybody. No more than `newcomers` may be there who have not shown a token.
    pub fn with_anteroom(listener: L, most: usize, newcomers: usize) -> Self {
        Self { anteroom: Some(Anteroom::new(newcomers)), ..Self::new(listener, most) }
    }

    /// Safe to cancel.
    pub async fn accept(&mut self) -> Placed<L::Io> {
        if self.next.is_none() {
            self.next = Some(self.listener.accept().await);
            if let Some(anteroom) = &self.anteroom
                && self.places.available_permits() == 0
            {
                anteroom.make_room();
            }
        }
        // It is never closed, so there is a place sooner or later.
        let place = Arc::clone(&self.places).acquire_owned().await.ok();
        let (stream, _) = match self.next.take() {
            Some(next) => next,
            None => self.listener.accept().await,
        };
        Placed { stream, _place: place, newcomer: self.anteroom.as_ref().map(Anteroom::enter) }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Placed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Placed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
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
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[tokio::test]
    async fn a_connection_beyond_the_limit_waits() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut door = Limited::new(listener, 2);
        let _clients = [(); 3].map(|()| std::net::TcpStream::connect(address).unwrap());
        let first = door.accept().await;
        let _second = door.accept().await;
        assert!(door.accept().now_or_never().is_none());
        drop(first);
        let third = door.accept().await;
        let _: &TcpStream = &third.stream;
    }

    #[tokio::test]
    async fn a_new_connection_replaces_the_oldest_unauthenticated_one() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut door = Limited::with_anteroom(listener, 3, 3);
        let _clients = [(); 4].map(|()| std::net::TcpStream::connect(address).unwrap());
        let [known, stranger, _other] = [door.accept().await, door.accept().await, door.accept().await];
        known.newcomer().unwrap().admission.grant();
        assert!(stranger.newcomer().unwrap().sent_away().now_or_never().is_none());
        assert!(door.accept().now_or_never().is_none());
        stranger.newcomer().unwrap().sent_away().await;
        assert!(known.newcomer().unwrap().sent_away().now_or_never().is_none());
        drop(stranger);
        // The one that came was not lost while it waited.
        door.accept().now_or_never().unwrap();
    }
}
