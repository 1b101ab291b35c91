//! Reading the network log.

use std::collections::BTreeSet;
use std::time::Duration;

use agentiso_core::action::forms::MAX_NETWORK_ENTRIES;
use agentiso_core::action::{NetworkLog, NetworkLogEntry, NetworkLogged};
use agentiso_core::ports::network::NetworkLogFilter;
use agentiso_core::{Code, Failure, NetworkEntry, WorkspaceId};

use crate::act::Context;
use crate::{Access, Perform};

/// How many entries are returned if the caller does not say.
const DEFAULT_LIMIT: u32 = 100;
/// How many entries are read at once to find those that a caller may see.
const BATCH: usize = 1000;
/// How many entries are looked through for one answer.
const MOST: usize = 20_000;

impl Perform for NetworkLog {
    const ACCESS: Access = Access::Looks;

    async fn perform(self, context: &Context) -> Result<NetworkLogged, Failure> {
        let limit = self.limit.unwrap_or(DEFAULT_LIMIT);
        if !(1..=MAX_NETWORK_ENTRIES).contains(&limit) {
            let message = format!("limit must be 1 to {MAX_NETWORK_ENTRIES}, not {limit}");
            return Err(Failure::new(Code::InvalidArgument, message));
        }
        let wanted = Wanted {
            workspace: context.past(),
            visible: visible(context).await?,
            refused: self.refused == Some(true),
            limit: limit as usize,
        };
        let end = tokio::time::Instant::now() + Duration::from_secs(self.wait_secs.unwrap_or_default());
        let mut after = self.after;
        loop {
            let (entries, read_up_to) = match after {
                Some(after) => wanted.oldest(context, after).await?,
                None => wanted.newest(context).await?,
            };
            let waited = match (entries.is_empty(), after) {
                (true, Some(_)) => {
                    let news = context.engine.network.logged_after(read_up_to);
                    match tokio::time::timeout_at(end, news).await {
                        Ok(news) => news.map(|()| true)?,
                        Err(_) => false,
                    }
                }
                _ => false,
            };
            if !waited {
                let entries: Vec<_> = entries.into_iter().map(NetworkLogEntry::from).collect();
                return Ok(NetworkLogged { count: entries.len(), entries, next_after: read_up_to });
            }
            after = Some(read_up_to);
        }
    }
}

/// Which entries are wanted.
struct Wanted {
    workspace: Option<WorkspaceId>,
    /// The workspaces that the caller may see; `None` for all.
    visible: Option<BTreeSet<WorkspaceId>>,
    refused: bool,
    limit: usize,
}

impl Wanted {
    fn includes(&self, entry: &NetworkEntry) -> bool {
        (!self.refused || entry.event.is_refusal())
            && self.visible.as_ref().is_none_or(|visible| visible.contains(&entry.workspace))
    }

    fn filter(&self, after: Option<u64>, limit: usize) -> NetworkLogFilter {
        NetworkLogFilter { workspace: self.workspace, after, limit }
    }

    /// The oldest entries after a number, and the number up to which the log was read.
    async fn oldest(&self, context: &Context, after: u64) -> Result<(Vec<NetworkEntry>, u64), Failure> {
        let (mut found, mut position, mut looked) = (Vec::new(), after, 0);
        while found.len() < self.limit && looked < MOST {
            let entries = context.engine.network.log(&self.filter(Some(position), BATCH)).await?;
            let is_all = entries.len() < BATCH;
            looked += entries.len();
            for entry in entries {
                if found.len() == self.limit {
                    return Ok((found, position));
                }
                position = entry.sequence;
                found.extend(Some(entry).filter(|entry| self.includes(entry)));
            }
            if is_all {
                break;
            }
        }
        Ok((found, position))
    }

    /// The newest entries, and the number of the last.
    async fn newest(&self, context: &Context) -> Result<(Vec<NetworkEntry>, u64), Failure> {
        let needs_more = self.refused || self.visible.is_some();
        let limit = if needs_more { MOST } else { self.limit };
        let mut entries = context.engine.network.log(&self.filter(None, limit)).await?;
        let newest = context.engine.network_newest().await?;
        entries.retain(|entry| self.includes(entry));
        let surplus = entries.len().saturating_sub(self.limit);
        Ok((entries.split_off(surplus), newest))
    }
}

/// The workspaces whose connections a caller may see: a session only its own.
async fn visible(context: &Context) -> Result<Option<BTreeSet<WorkspaceId>>, Failure> {
    let Some(session) = context.caller.session else { return Ok(None) };
    let settings = context.engine.records.all_settings().await?;
    let owned = settings.into_iter().filter(|(_, settings)| settings.owner == Some(session));
    Ok(Some(owned.map(|(id, _)| id).collect()))
}
