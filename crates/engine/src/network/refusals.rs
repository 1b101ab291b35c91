//! Follows the network log: counts what workspaces do, tells of refusals, and raises requests for those that workspaces ask about.
//!
//! A hostile guest decides how much there is to read, so everything is bounded: the same destination of a workspace is
//! handled once a minute, and a workspace has a budget of destinations per minute.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use agentiso_core::approval::Asked;
use agentiso_core::ports::network::NetworkLogFilter;
use agentiso_core::{Code, Failure, NetworkEntry, WorkspaceId};
use jiff::Timestamp;
use tokio::time::Instant;

use super::asking::asked_by;
use crate::Engine;
use crate::events::EventKind;
use crate::live_state::locked;

/// How many entries are read at once.
const BATCH: usize = 256;
/// How long the same destination is not handled again.
const QUIET: Duration = Duration::from_secs(60);
/// The most different destinations of one workspace that are handled within [`QUIET`].
const MOST: usize = 32;
/// How long to wait after the log could not be read.
const RETRY: Duration = Duration::from_secs(5);
/// The newest refusals that are looked through for one command.
const LOOKED_AT: usize = 64;
/// How long a command that failed waits for refusals to arrive in the log.
const ARRIVAL: Duration = Duration::from_millis(300);

/// The destinations that were handled lately, by workspace.
#[derive(Default)]
pub(crate) struct Refusals(Mutex<HashMap<WorkspaceId, Lately>>);

struct Lately {
    since: Instant,
    destinations: Vec<String>,
}

impl Refusals {
    /// Whether a refused destination is to be handled now.
    fn admit(&self, workspace: WorkspaceId, destination: String) -> bool {
        let now = Instant::now();
        let mut all = locked(&self.0);
        all.retain(|_, lately| now.duration_since(lately.since) < QUIET);
        let lately = all.entry(workspace).or_insert_with(|| Lately { since: now, destinations: Vec::new() });
        if lately.destinations.len() >= MOST || lately.destinations.contains(&destination) {
            return false;
        }
        lately.destinations.push(destination);
        true
    }
}

impl Engine {
    /// Starts the task that follows the log.
    pub(crate) fn follow_network(self: &Arc<Self>) {
        let engine = Arc::downgrade(self);
        tokio::spawn(async move {
            let mut position = None;
            while let Some(next) = follow(&engine, position).await {
                match next {
                    Ok(next) => position = Some(next),
                    Err(failure) => {
                        tracing::warn!(%failure, "could not read the network log; trying again");
                        tokio::time::sleep(RETRY).await;
                    }
                }
            }
        });
    }

    /// What was refused to a workspace since a time, newest last. Waits a moment for entries that are on their way.
    pub(crate) async fn refused_since(
        &self,
        workspace: WorkspaceId,
        since: Timestamp,
    ) -> Result<Vec<NetworkEntry>, Failure> {
        let newest = self.network_newest().await?;
        let found = self.refused_lately(workspace, since).await?;
        if !found.is_empty()
            || tokio::time::timeout(ARRIVAL, self.network.logged_after(newest)).await.is_err()
        {
            return Ok(found);
        }
        self.refused_lately(workspace, since).await
    }

    async fn refused_lately(
        &self,
        workspace: WorkspaceId,
        since: Timestamp,
    ) -> Result<Vec<NetworkEntry>, Failure> {
        let filter = NetworkLogFilter { workspace: Some(workspace), after: None, limit: LOOKED_AT };
        let mut entries = self.network.log(&filter).await?;
        entries.retain(|entry| entry.event.is_refusal() && entry.at >= since);
        Ok(entries)
    }

    pub(super) async fn network_newest(&self) -> Result<u64, Failure> {
        let filter = NetworkLogFilter { workspace: None, after: None, limit: 1 };
        Ok(self.network.log(&filter).await?.last().map_or(0, |entry| entry.sequence))
    }

    async fn handle_entries(self: &Arc<Self>, after: u64) -> Result<u64, Failure> {
        let filter = NetworkLogFilter { workspace: None, after: Some(after), limit: BATCH };
        let entries = self.network.log(&filter).await?;
        entries.iter().for_each(|entry| self.summaries.add(entry));
        for entry in entries.iter().filter(|entry| entry.event.is_refusal()) {
            match self.handle_refusal(entry).await {
                Ok(()) => {}
                Err(failure) if failure.code() == Code::QuotaExceeded => {
                    tracing::debug!(%failure, "a refused destination raises no request");
                }
                Err(failure) => tracing::warn!(%failure, "could not handle a refused destination"),
            }
        }
        Ok(entries.last().map_or(after, |entry| entry.sequence))
    }

    async fn handle_refusal(self: &Arc<Self>, entry: &NetworkEntry) -> Result<(), Failure> {
        if !self.refusals.admit(entry.workspace, format!("{} {}", entry.destination(), entry.rule)) {
            return Ok(());
        }
        let workspace = match self.records.workspace(entry.workspace).await {
            Err(failure) if failure.code() == Code::WorkspaceNotFound => return Ok(()),
            found => found?,
        };
        let what = format!("{} port {}: {}", entry.protocol.as_str(), entry.port, entry.rule);
        let note = Some(format!("{}, {what}", entry.destination()));
        self.events.tell(EventKind::NetworkRefused, workspace.id, workspace.name.as_str(), note).await;
        let Some(destination) = asked_by(entry, &workspace.network.rules) else { return Ok(()) };
        let owner = self.records.owner_of(workspace.id).await?;
        self.ask_approval(&workspace, owner.as_ref(), Asked::Network { destination }, &what).await?;
        Ok(())
    }
}

/// Waits for new entries and handles them. Returns how far the log was read, or `None` if the engine has ended.
async fn follow(engine: &Weak<Engine>, position: Option<u64>) -> Option<Result<u64, Failure>> {
    let network = Arc::clone(&engine.upgrade()?.network);
    let position = match position {
        Some(position) => position,
        None => match engine.upgrade()?.network_newest().await {
            Ok(newest) => return Some(Ok(newest)),
            Err(failure) => return Some(Err(failure)),
        },
    };
    if let Err(failure) = network.logged_after(position).await {
        return Some(Err(failure));
    }
    Some(engine.upgrade()?.handle_entries(position).await)
}
