//! Keeps the router in step with the records, and stores its log.
//!
//! ```text
//!  daemon starts ─► compare ─► follow the log ─► router ends ─► new router ─► compare: every machine is attached again
//!                     └ unknown machines detached, missing ones attached, other policies set
//! ```

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use agentiso_blocking::in_place;
use agentiso_core::{Failure, NetworkEntry, WorkspaceId};
use agentiso_meta::{RouterPosition, Workspace};
use agentiso_net::control::{ControlError, RouterClient};
use agentiso_net::{LogEntry, MachineStatus};
use agentiso_policy::egress::Policy;
use jiff::Timestamp;
use tokio::sync::mpsc;

use super::Workspaces;
use super::intent::Intent;
use super::machine::MachineState;

/// Entries of the log that are kept.
const KEPT: u64 = 100_000;
/// Entries that are stored in one transaction, and how long they are collected.
const BATCH: usize = 256;
const COLLECT: Duration = Duration::from_millis(50);
/// How long to wait after a failure.
const PAUSE: Duration = Duration::from_secs(2);

impl Workspaces {
    /// Starts the upkeep, which ends with the last clone of the result.
    pub(super) fn keeping_network(self) -> Self {
        let workspaces = self.clone();
        let task = tokio::spawn(async move { workspaces.keep_network_up().await });
        Self { _upkeep: Some(Arc::new(Upkeep(task))), ..self }
    }

    fn note_problem(&self, failure: Option<&Failure>) {
        let mut problem = self.net.problem.lock().unwrap_or_else(PoisonError::into_inner);
        *problem = failure.map(ToString::to_string);
    }

    async fn keep_network_up(&self) {
        match self.meta.read(|read| read.newest_network_entry()) {
            Ok(newest) => drop(self.net.newest.send_replace(newest)),
            Err(error) => tracing::warn!(%error, "could not read the log of the network"),
        }
        loop {
            let done = self.keep_network_once().await;
            self.note_problem(done.as_ref().err());
            if let Err(failure) = done {
                tracing::warn!(%failure, "the network of the workspaces is not as it should be");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// Repairs what differs, then follows the log until the router ends or something has changed.
    async fn keep_network_once(&self) -> Result<(), Failure> {
        if self.networked()?.is_empty() {
            // A router that is there anyhow may have entries, and machines that nobody needs.
            if self.net.machines().await?.is_none() {
                self.net.changed.notified().await;
                return Ok(());
            }
        } else {
            self.net.ensure().await?;
        }
        self.repair_network().await?;
        let Some(follower) = self.net.follower().await? else { return Ok(()) };
        let mut entries = self.follow(follower).await?;
        loop {
            tokio::select! {
                batch = collect(&mut entries) => match batch {
                    Some(batch) => self.store_log(&batch)?,
                    // The router has ended.
                    None => return Ok(()),
                },
                () = self.net.changed.notified() => self.repair_network().await?,
            }
        }
    }

    /// The running workspaces that have a network.
    fn networked(&self) -> Result<HashMap<WorkspaceId, Workspace>, Failure> {
        let all = self.meta.read(|read| read.workspaces())?;
        let has = |one: &Workspace| one.network.address.is_some() && one.machine().is_some();
        Ok(all.into_iter().filter(has).map(|one| (one.id, one)).collect())
    }

    /// Compares the router's machines with the records.
    async fn repair_network(&self) -> Result<(), Failure> {
        let Some((_, machines)) = self.net.machines().await? else { return Ok(()) };
        // Read after the router was asked: what is attached and not recorded yet is an operation that is under way.
        let wanted = self.networked()?;
        let under_way = self.addresses_under_way()?;
        for machine in &machines {
            let id = machine.spec.workspace;
            let is_new = self.net.is_unrecorded(id) || under_way.contains(&machine.spec.address);
            if !wanted.contains_key(&id) && !is_new {
                tracing::info!(workspace = %id, "detaching a machine that is not recorded");
                self.net.detach(id).await?;
            }
        }
        for workspace in wanted.values() {
            if !self.net.is_unrecorded(workspace.id) {
                self.repair_one(workspace, &machines).await;
            }
        }
        Ok(())
    }

    /// Failures are logged: the machine of one workspace must not keep those of others from being repaired.
    async fn repair_one(&self, workspace: &Workspace, machines: &[MachineStatus]) {
        let repaired = match self.difference(workspace, machines) {
            Ok(Difference::None) => return,
            Ok(Difference::Policy) => {
                self.net.set_policy(workspace.id, &workspace.network.rules).await.map(drop)
            }
            Ok(Difference::Card) => self.rewire(workspace.id).await,
            Err(failure) => Err(failure),
        };
        match repaired {
            Ok(()) => tracing::info!(workspace = %workspace.id, "repaired the network of a workspace"),
            Err(failure) => {
                tracing::warn!(workspace = %workspace.id, %failure, "a workspace has no network yet");
            }
        }
    }

    fn difference(&self, workspace: &Workspace, machines: &[MachineStatus]) -> Result<Difference, Failure> {
        let Some(state) = workspace.machine().map(MachineState::from_value).transpose()? else {
            return Ok(Difference::None);
        };
        let (Some(address), true) = (workspace.network.address, state.record.is_alive()) else {
            return Ok(Difference::None);
        };
        let Some(card) = state.card else { return Ok(Difference::Card) };
        let wanted = self.net.spec(workspace.id, address, &workspace.network.rules, card)?;
        let found = machines.iter().find(|machine| machine.spec.workspace == workspace.id);
        Ok(match found.map(|machine| &machine.spec) {
            Some(spec) if *spec == wanted => Difference::None,
            Some(spec)
                if agentiso_net::MachineSpec { policy: Policy::default(), ..spec.clone() }
                    == agentiso_net::MachineSpec { policy: Policy::default(), ..wanted } =>
            {
                Difference::Policy
            }
            _ => Difference::Card,
        })
    }

    /// The addresses of changes that are under way, in any process.
    fn addresses_under_way(&self) -> Result<Vec<std::net::Ipv4Addr>, Failure> {
        let operations = self.meta.read(|read| read.operations())?;
        let alive = operations.iter().filter(|operation| operation.owner.is_alive());
        Ok(alive.filter_map(|one| Intent::of(one).ok()).flat_map(|intent| intent.addresses).collect())
    }

    /// Reads the log from where it was left, in a task of its own.
    async fn follow(
        &self,
        router: RouterClient,
    ) -> Result<mpsc::Receiver<(RouterPosition, LogEntry)>, Failure> {
        let instance = router.instance().to_owned();
        let position = self.meta.read(|read| read.router_position())?;
        let from =
            position.filter(|position| position.instance == instance).map_or(0, |position| position.next);
        let mut subscription = router.subscribe(from).await?;
        let (sender, entries) = mpsc::channel(BATCH);
        tokio::spawn(async move {
            while let Ok::<_, ControlError>(Some(entry)) = subscription.next().await {
                let position = RouterPosition { instance: instance.clone(), next: entry.sequence + 1 };
                if sender.send((position, entry)).await.is_err() {
                    return;
                }
            }
        });
        Ok(entries)
    }

    fn store_log(&self, batch: &[(RouterPosition, LogEntry)]) -> Result<(), Failure> {
        let Some((position, _)) = batch.last() else { return Ok(()) };
        let entries: Vec<NetworkEntry> = batch.iter().map(|(_, entry)| stored(entry)).collect();
        let newest = in_place(|| {
            self.meta.write(|tx| {
                tx.append_network_log(&entries, position, KEPT)?;
                tx.newest_network_entry()
            })
        })?;
        self.net.newest.send_replace(newest);
        Ok(())
    }
}

/// The task that keeps the network up. Ends it when dropped.
pub(crate) struct Upkeep(tokio::task::JoinHandle<()>);

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// How what the router has differs from what is recorded.
enum Difference {
    None,
    Policy,
    Card,
}

/// The next entries, all that come within a moment; `None` once there will be no more.
async fn collect(
    entries: &mut mpsc::Receiver<(RouterPosition, LogEntry)>,
) -> Option<Vec<(RouterPosition, LogEntry)>> {
    let mut batch = vec![entries.recv().await?];
    let deadline = tokio::time::Instant::now() + COLLECT;
    while batch.len() < BATCH {
        match tokio::time::timeout_at(deadline, entries.recv()).await {
            Ok(Some(entry)) => batch.push(entry),
            _ => break,
        }
    }
    Some(batch)
}

fn stored(entry: &LogEntry) -> NetworkEntry {
    let at = i64::try_from(entry.at_ms).ok().and_then(|at| Timestamp::from_millisecond(at).ok());
    NetworkEntry {
        sequence: 0,
        at: at.unwrap_or_default(),
        workspace: entry.workspace,
        event: entry.event,
        protocol: entry.protocol,
        name: entry.name.clone(),
        address: entry.address,
        port: entry.port,
        rule: entry.rule.clone(),
        bytes_sent: entry.bytes_sent,
        bytes_received: entry.bytes_received,
        duration_ms: entry.duration_ms,
    }
}
