//! Before the command runs: its first message, and what the client sends while it waits.

use std::collections::VecDeque;

use agentiso_core::wire::{ExecWord, INPUT_WINDOW, ProgressWord};
use agentiso_core::{Code, Failure};
use axum::extract::ws::{Message, WebSocket};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use super::conversation::text;

/// How many messages are kept while the command is being started; then the client is not read from any more.
const MOST_EARLY: usize = 64;

/// A client whose command does not run yet.
pub(super) struct Waiting<'a> {
    pub socket: &'a mut WebSocket,
    early: VecDeque<Message>,
    early_bytes: usize,
}

impl<'a> Waiting<'a> {
    pub fn new(socket: &'a mut WebSocket) -> Self {
        Self { socket, early: VecDeque::new(), early_bytes: 0 }
    }

    /// The client's first message; `None` if the client is gone.
    pub async fn first<T: DeserializeOwned>(&mut self) -> Result<Option<T>, Failure> {
        let first = match self.socket.recv().await {
            Some(Ok(Message::Text(first))) => first,
            Some(Err(error)) => {
                let message = format!("the first message could not be read: {error}");
                return Err(Failure::new(Code::InvalidArgument, message)
                    .with_remedy("write a long script to a file in the workspace and run that"));
            }
            _ => return Ok(None),
        };
        serde_json::from_str(&first).map(Some).map_err(|error| {
            Failure::new(Code::InvalidArgument, format!("the first message is not a command: {error}"))
                .with_remedy("the documentation of the REST interface has an example")
        })
    }

    /// Waits for some work while the client is connected, and passes on its progress. `None` if the client is gone.
    pub async fn wait<T>(
        &mut self,
        work: impl Future<Output = T>,
        mut progress: mpsc::UnboundedReceiver<ProgressWord>,
    ) -> Option<T> {
        tokio::pin!(work);
        let mut reports = true;
        loop {
            let reads = self.early.len() < MOST_EARLY && self.early_bytes < INPUT_WINDOW;
            tokio::select! {
                biased;
                done = &mut work => return Some(done),
                word = progress.recv(), if reports => match word {
                    Some(word) => self.socket.send(text(&ExecWord::Progress(word))).await.ok()?,
                    None => reports = false,
                },
                message = self.socket.recv(), if reads => match message {
                    None | Some(Err(_) | Ok(Message::Close(_))) => return None,
                    Some(Ok(message)) => {
                        self.early_bytes += length(&message);
                        self.early.push_back(message);
                    }
                },
            }
        }
    }

    /// The socket, and the messages that were read already.
    pub fn into_parts(self) -> (&'a mut WebSocket, VecDeque<Message>) {
        (self.socket, self.early)
    }
}

fn length(message: &Message) -> usize {
    match message {
        Message::Text(text) => text.len(),
        Message::Binary(bytes) | Message::Ping(bytes) | Message::Pong(bytes) => bytes.len(),
        Message::Close(_) => 0,
    }
}
