//! A request and what comes back for it. Dropping it before the final response cancels the request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agentiso_proto::{DATA_PAYLOAD, Request, Response};

use super::deadline::{doing, silence, within};
use super::stream::{Event, Stream};
use super::{Guest, LinkError};

#[derive(Debug)]
pub(super) struct Exchange {
    guest: Guest,
    stream: Arc<Stream>,
    doing: &'static str,
    silence: Duration,
    /// Cleared once the guest may take as long as it likes.
    limited: AtomicBool,
}

impl Exchange {
    pub(super) fn new(guest: Guest, stream: Arc<Stream>, request: &Request) -> Self {
        let (doing, silence) = (doing(request), silence(request));
        Self { guest, stream, doing, silence, limited: AtomicBool::new(true) }
    }

    pub(super) fn guest(&self) -> &Guest {
        &self.guest
    }

    pub(super) fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// The next thing that arrived; the guest's error, if that is how it ended. Not to be called after the last.
    pub(super) async fn next(&mut self) -> Result<Event, LinkError> {
        loop {
            match self.next_or_end().await? {
                // For most requests only the final response counts.
                Event::End(_) => {}
                event => return Ok(event),
            }
        }
    }

    /// From now on the guest may be silent for as long as it likes: what was asked for runs.
    pub(super) fn unlimited(&self) {
        self.limited.store(false, Ordering::Relaxed);
    }

    /// From now on the guest may be silent for this long.
    pub(super) fn allow_silence(&mut self, silence: Duration) {
        self.silence = silence;
    }

    /// Sends data on the main channel, as fast as the guest takes it.
    pub(super) async fn send(&self, bytes: &[u8]) -> Result<(), LinkError> {
        for piece in bytes.chunks(DATA_PAYLOAD) {
            self.limited(self.guest.send(&self.stream, piece)).await?;
        }
        Ok(())
    }

    async fn limited<T>(&self, work: impl Future<Output = Result<T, LinkError>>) -> Result<T, LinkError> {
        if self.limited.load(Ordering::Relaxed) {
            within(self.silence, self.doing, work).await
        } else {
            work.await
        }
    }

    /// As [`Self::next`], but tells the end of a channel's data too.
    pub(super) async fn next_or_end(&self) -> Result<Event, LinkError> {
        let (event, due) = self.limited(self.stream.next()).await?;
        match event {
            Event::Data(channel, bytes) => {
                if due {
                    self.guest.grant(&self.stream, channel);
                }
                Ok(Event::Data(channel, bytes))
            }
            Event::Last(Response::Error(error)) => Err(LinkError::Guest(error)),
            event => Ok(event),
        }
    }

    /// The final response, for requests that are answered by nothing else.
    pub(super) async fn only(mut self) -> Result<Response, LinkError> {
        match self.next().await? {
            Event::Last(response) => Ok(response),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Ignores whatever still comes, without cancelling the request.
    pub(super) fn let_go(&self) {
        self.guest.let_go(&self.stream);
    }

    /// Ends the session: the guest sent something this request is never answered with.
    pub(super) fn unexpected(&self, event: &Event) -> LinkError {
        let what = match event {
            Event::Data(channel, _) => format!("data on {channel:?}"),
            Event::End(channel) => format!("an end of data on {channel:?}"),
            Event::Response(response) | Event::Last(response) => {
                format!("{response:?}").chars().take(80).collect()
            }
        };
        self.guest.violation(format!("an answer to stream {} that does not fit: {what}", self.stream.id))
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.guest.abandon(&self.stream);
    }
}
