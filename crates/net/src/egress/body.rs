//! The body of a request on its way to the server.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::gate::Gate;
use super::placeholders::{Scanner, find_in_headers};
use super::setup::{Granted, Proxy};

/// How much of a body is searched for placeholders.
const SEARCHED: usize = 64 * 1024;

/// The text with which a body was refused, once it was.
pub(super) type Stopped = Arc<OnceLock<String>>;

/// A body that ends with an error if there is a placeholder in its first bytes or in its trailers.
pub(super) struct Watched {
    inner: Incoming,
    gate: Arc<Gate>,
    proxy: Arc<Proxy>,
    host: String,
    scanner: Scanner,
    stopped: Stopped,
}

/// The body of a request was refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum BodyError {
    #[error("a placeholder is in the body of the request")]
    Placeholder,
    #[error(transparent)]
    Guest(#[from] hyper::Error),
}

impl Watched {
    pub(super) fn new(
        inner: Incoming,
        gate: Arc<Gate>,
        proxy: Arc<Proxy>,
        host: &str,
        stopped: Stopped,
    ) -> Self {
        Self { inner, gate, proxy, host: host.to_owned(), scanner: Scanner::new(SEARCHED), stopped }
    }
}

impl Body for Watched {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        let frame = match ready!(Pin::new(&mut this.inner).poll_frame(cx)) {
            None => return Poll::Ready(None),
            Some(frame) => frame?,
        };
        let in_data: Option<&Granted> =
            frame.data_ref().and_then(|data| this.scanner.find(&this.proxy.secrets, data));
        let in_trailers =
            || frame.trailers_ref().and_then(|trailers| find_in_headers(&this.proxy.secrets, trailers));
        match in_data.or_else(in_trailers) {
            None => Poll::Ready(Some(Ok(frame))),
            Some(secret) => {
                let refusal = this.gate.misplaced(&this.host, secret);
                // Said once; what follows is not read.
                let _ = this.stopped.set(refusal.text);
                Poll::Ready(Some(Err(BodyError::Placeholder)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
