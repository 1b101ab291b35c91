//! A request and its responses. Dropping it before the final response cancels the request.

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
    /// Absent once there is no time limit.
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

    /// The next event, or the guest's error. Must not be called after the last event.
    pub(super) async fn next(&mut self) -> Result<Event, LinkError> {
        loop {
            match self.next_or_end().await? {
                // Most requests only need the final response.
                Event::End(_) => {}
                event => return Ok(event),
            }
        }
    }

    /// Removes the time limit: the command is running.
    pub(super) fn unlimited(&self) {
        self.limited.store(false, Ordering::Relaxed);
    }

    /// Sets another time limit.
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

    /// Like [`Self::next`], but also reports the end of a channel's data.
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

    /// The final response, for requests that have no other.
    pub(super) async fn only(mut self) -> Result<Response, LinkError> {
        match self.next().await? {
            Event::Last(response) => Ok(response),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Ignores further responses, without cancelling the request.
    pub(super) fn let_go(&self) {
        self.guest.let_go(&self.stream);
    }

    /// Ends the session, because the guest sent an invalid response to this request.
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
