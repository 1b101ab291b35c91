//! A request and what comes back for it. Dropping it before the final response cancels the request.

use std::sync::Arc;

use agentiso_proto::Response;

use super::stream::{Event, Stream};
use super::{Guest, LinkError};

#[derive(Debug)]
pub(super) struct Exchange {
    guest: Guest,
    stream: Arc<Stream>,
}

impl Exchange {
    pub(super) fn new(guest: Guest, stream: Arc<Stream>) -> Self {
        Self { guest, stream }
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

    /// As [`Self::next`], but tells the end of a channel's data too.
    pub(super) async fn next_or_end(&self) -> Result<Event, LinkError> {
        let (event, due) = self.stream.next().await?;
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
