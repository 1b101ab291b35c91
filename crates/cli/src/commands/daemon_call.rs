//! Asking the daemon, which does everything that has to do with workspaces.

use std::sync::Arc;

use agentiso_api::Client;
use agentiso_core::action::Action;
use agentiso_core::progress::{Progress, Silent};
use agentiso_core::{Code, Failure};
use agentiso_runtime::Installation;
use tokio::signal::unix::{SignalKind, signal};

use super::waiting;
use crate::daemon::client;
use crate::output::Output;

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
        waiting(self.output, what, async |progress| self.client.act(action, &progress).await).await
    }

    /// Asks for something that says itself how far it is, or that is waited for on purpose.
    pub async fn ask_quietly<A: Action>(&self, action: &A) -> Result<A::Outcome, Failure> {
        let silent: Arc<dyn Progress> = Arc::new(Silent);
        self.client.act(action, &silent).await
    }

    /// Asks for something that the daemon finishes whatever becomes of us.
    pub async fn change<A: Action>(&self, what: &str, action: &A) -> Result<A::Outcome, Failure> {
        let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| {
            Failure::new(Code::Internal, format!("could not listen for signals: {error}"))
        })?;
        tokio::select! {
            done = self.ask(what, action) => done,
            _ = interrupt.recv() => Err(Failure::new(
                Code::Cancelled,
                "interrupted; the daemon finishes what it has begun",
            )
            .with_remedy("agentiso ls and agentiso timeline show what became of it")),
        }
    }
}
