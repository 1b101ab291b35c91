//! Sending actions to the daemon.

use agentiso_client::Client;
use agentiso_config::paths::Paths;
use agentiso_core::action::Action;
use agentiso_core::{Code, Failure};
use futures_util::{StreamExt, stream};
use tokio::signal::unix::{SignalKind, signal};

use super::waiting;
use crate::daemon::client;
use crate::output::Output;

/// How many changes are sent at once.
const AT_ONCE: usize = 4;

/// The daemon, for one command.
pub struct Daemon {
    client: Client,
    output: Output,
}

impl Daemon {
    /// Connects to the daemon, which is started if it is not running.
    pub async fn reach(here: &Paths, output: Output) -> Result<Self, Failure> {
        Ok(Self { client: client(here).await?, output })
    }

    /// The connection itself.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Performs an action that ends with this process. Shows `what` if it takes long.
    pub async fn ask<A: Action>(&self, what: &str, action: &A) -> Result<A::Outcome, Failure> {
        waiting(self.output, what, async |progress| {
            self.client.act_with_progress(action, progress.as_ref()).await
        })
        .await
    }

    /// Performs an action without showing anything.
    pub async fn ask_quietly<A: Action>(&self, action: &A) -> Result<A::Outcome, Failure> {
        self.client.act(action).await
    }

    /// Performs a change, which the daemon finishes even if this process ends.
    pub async fn change<A: Action>(&self, what: &str, action: &A) -> Result<A::Outcome, Failure> {
        unless_interrupted(self.ask(what, action)).await
    }

    /// Performs several changes, a few at a time. If one fails, the others are still performed.
    pub async fn change_each<A: Action>(
        &self,
        what: &str,
        actions: &[A],
    ) -> Result<Vec<Result<A::Outcome, Failure>>, Failure> {
        let all = async |_| {
            let changes = actions.iter().map(|action| self.ask_quietly(action));
            Ok(stream::iter(changes).buffered(AT_ONCE).collect().await)
        };
        unless_interrupted(waiting(self.output, what, all)).await
    }
}

/// Waits for a change until it is done or an interrupt comes, which does not undo the change.
async fn unless_interrupted<T>(change: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let mut interrupt = signal(SignalKind::interrupt())
        .map_err(|error| Failure::new(Code::Internal, format!("could not listen for signals: {error}")))?;
    tokio::select! {
        done = change => done,
        _ = interrupt.recv() => Err(Failure::new(
            Code::Cancelled,
            "interrupted; the daemon finishes the operation",
        )
        .with_remedy("agentiso ls and agentiso timeline show the result")),
    }
}
