//! Summaries of connections in the timeline: one entry a minute at most for each workspace that used the network.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use agentiso_core::{Code, Failure, NetworkEntry, NetworkEvent, WorkspaceId};
use serde_json::json;

use crate::live_state::locked;
use crate::record::Record;
use crate::upkeep::DAEMON;
use crate::{Caller, Engine};

/// The name of a summary in the timeline.
const SUMMARY: &str = "network_summary";
/// The most destinations that a summary names.
const NAMED: usize = 8;
/// The most workspaces that are summarised at once.
const MOST: usize = 4096;

/// What workspaces did on the network since their last summary.
#[derive(Default)]
pub(crate) struct Summaries(Mutex<BTreeMap<WorkspaceId, Summary>>);

#[derive(Default)]
struct Summary {
    opened: u64,
    refused: u64,
    failed: u64,
    bytes_sent: u64,
    bytes_received: u64,
    destinations: BTreeSet<String>,
}

impl Summaries {
    /// Counts an entry of the log.
    pub fn add(&self, entry: &NetworkEntry) {
        let mut all = locked(&self.0);
        if all.len() >= MOST && !all.contains_key(&entry.workspace) {
            return;
        }
        let summary = all.entry(entry.workspace).or_default();
        match entry.event {
            NetworkEvent::Opened => summary.opened += 1,
            NetworkEvent::Refused => summary.refused += 1,
            NetworkEvent::Failed => summary.failed += 1,
            NetworkEvent::Closed | NetworkEvent::Cut => {}
        }
        summary.bytes_sent = summary.bytes_sent.saturating_add(entry.bytes_sent);
        summary.bytes_received = summary.bytes_received.saturating_add(entry.bytes_received);
        if summary.destinations.len() < NAMED {
            summary.destinations.insert(entry.destination());
        }
    }
}

impl Engine {
    /// Writes what workspaces did on the network since the last time into the timeline.
    pub(crate) async fn summarise_network(self: &Arc<Self>) -> Result<(), Failure> {
        let summaries = std::mem::take(&mut *locked(&self.summaries.0));
        for (id, summary) in summaries {
            let workspace = match self.records.workspace(id).await {
                Err(failure) if failure.code() == Code::WorkspaceNotFound => continue,
                found => found?,
            };
            let Summary { opened, refused, failed, bytes_sent, bytes_received, destinations } = summary;
            let detail = json!({
                "opened": opened, "refused": refused, "failed": failed, "bytes_sent": bytes_sent,
                "bytes_received": bytes_received, "destinations": destinations,
            });
            let mut record = Record::begin(self, &Caller::operator(DAEMON), SUMMARY, detail);
            record.about(&workspace);
            let told = format!("{opened} connections, {refused} refused, {failed} failed");
            record.end(Ok(Some(told))).await?;
        }
        Ok(())
    }
}
