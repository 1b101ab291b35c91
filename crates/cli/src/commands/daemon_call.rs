//! Asking the daemon, which does everything that has to do with workspaces.

use agentiso_client::Client;
use agentiso_core::action::Action;
use agentiso_core::{Code, Failure};
use agentiso_runtime::Installation;
use futures_util::{StreamExt, stream};
use tokio::signal::unix::{SignalKind, signal};

use super::waiting;
use crate::daemon::client;
use crate::output::Output;

/// How many changes of different workspaces are under way at once.
const AT_ONCE: usize = 4;

/// The daemon, as one verb speaks with it.
pub struct Daemon {
    client: Client,
    output: Output,
}

impl Daemon {
    /// Reaches the daemon, which is started if it does not run.
    pub async fn reach(here: &Installation, output: Output) -> Result<Self, Failure> {
        Ok(Self { client: client(&here.paths).await?, output })
    }

    /// The connection itself.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Asks for something that changes no workspace as a whole: it ends when this process does. Says `what` if it
    /// lasts.
    pub async fn ask<A: Action>(&self, what: &str, action: &A) -> Result<A::Outcome, Failure> {
        waiting(self.output, what, async |progress| {
            self.client.act_with_progress(action, progress.as_ref()).await
        })
        .await
    }

    /// Asks for something that says itself how far it is, or that is waited for on purpose.
    pub async fn ask_quietly<A: Action>(&self, action: &A) -> Result<A::Outcome, Failure> {
        self.client.act(action).await
    }

    /// Asks for a change, which the daemon finishes even if this process ends.
    pub async fn change<A: Action>(&self, what: &str, action: &A) -> Result<A::Outcome, Failure> {
        unless_interrupted(self.ask(what, action)).await
    }

    /// Asks for several changes, a few at a time. One that fails does not keep the others from being made.
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

/// Waits for a change, or for an interrupt, which does not undo it.
async fn unless_interrupted<T>(change: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let mut interrupt = signal(SignalKind::interrupt())
        .map_err(|error| Failure::new(Code::Internal, format!("could not listen for signals: {error}")))?;
    tokio::select! {
        done = change => done,
        _ = interrupt.recv() => Err(Failure::new(
            Code::Cancelled,
            "interrupted; the daemon finishes what it has begun",
        )
        .with_remedy("agentiso ls and agentiso timeline show what became of it")),
    }
}
