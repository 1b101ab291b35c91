//! Implements the engine's records port on the database. Each method is one transaction.
//!
//! Transactions own their data, so that they can run on any thread.

use std::collections::BTreeMap;

use agentiso_core::ports::records::{
    EventEnd, ForwardRecords, KeyRecords, RUNNING, SessionRecords, SettingsChange, TimelineRecords,
    VariableRecords, VariablesChange, WorkspaceRecords,
};
use agentiso_core::{Failure, SessionId, WorkspaceId};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;

use crate::{
    Claim, Event, EventFilter, Forward, Meta, MetaError, NewEvent, NextSize, Read, Session, SessionKind,
    Settings, Snapshot, Tx, Usage, Variable, Workspace,
};

impl Meta {
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Read<'_>) -> Result<T, MetaError> + Send + 'static,
    ) -> Result<T, Failure> {
        Ok(self.read(ask)?)
    }

    pub(crate) async fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Tx<'_>) -> Result<T, MetaError> + Send + 'static,
    ) -> Result<T, Failure> {
        Ok(self.write(change)?)
    }
}

#[async_trait]
impl WorkspaceRecords for Meta {
    async fn workspace(&self, id: WorkspaceId) -> Result<Workspace, Failure> {
        self.ask(move |read| read.workspace(id)).await
    }

    async fn find_workspace(&self, asked: &str) -> Result<Workspace, Failure> {
        let asked = asked.to_owned();
        self.ask(move |read| read.find_workspace(&asked)).await
    }

    async fn workspaces(&self) -> Result<Vec<Workspace>, Failure> {
        self.ask(|read| read.workspaces()).await
    }

    async fn one_shots(&self) -> Result<Vec<WorkspaceId>, Failure> {
        self.ask(|read| read.one_shots()).await
    }

    async fn find_snapshot(&self, workspace: WorkspaceId, name: &str) -> Result<Snapshot, Failure> {
        let name = name.to_owned();
        self.ask(move |read| read.find_snapshot(workspace, &name)).await
    }

    async fn snapshots(&self, workspace: WorkspaceId) -> Result<Vec<Snapshot>, Failure> {
        self.ask(move |read| read.snapshots(workspace)).await
    }

    async fn suspended_to(&self, workspace: WorkspaceId) -> Result<Option<Snapshot>, Failure> {
        self.ask(move |read| {
            let suspended = read.settings(workspace)?.suspended;
            suspended.map(|id| read.snapshot(id)).transpose()
        })
        .await
    }

    async fn settings(&self, workspace: WorkspaceId) -> Result<Settings, Failure> {
        self.ask(move |read| read.settings(workspace)).await
    }

    async fn all_settings(&self) -> Result<BTreeMap<WorkspaceId, Settings>, Failure> {
        self.ask(|read| read.all_settings()).await
    }

    async fn change_settings(
        &self,
        workspace: WorkspaceId,
        change: SettingsChange,
    ) -> Result<Settings, Failure> {
        self.change(move |tx| {
            let mut settings = tx.settings(workspace)?;
            change(&mut settings);
            tx.set_settings(workspace, &settings)?;
            Ok(settings)
        })
        .await
    }

    async fn apply_size(&self, workspace: WorkspaceId, size: NextSize) -> Result<Settings, Failure> {
        self.change(move |tx| {
            tx.set_size(workspace, size.vcpus, size.memory_mb)?;
            let settings = Settings { next_size: None, ..tx.settings(workspace)? };
            tx.set_settings(workspace, &settings)?;
            Ok(settings)
        })
        .await
    }

    async fn usage(&self, owner: Option<SessionId>) -> Result<Usage, Failure> {
        self.ask(move |read| read.usage(owner)).await
    }
}

#[async_trait]
impl SessionRecords for Meta {
    async fn insert_session(&self, session: &Session) -> Result<(), Failure> {
        let session = session.clone();
        self.change(move |tx| tx.insert_session(&session)).await
    }

    async fn session_if_known(&self, id: SessionId) -> Result<Option<Session>, Failure> {
        self.ask(move |read| read.session_if_known(id)).await
    }

    async fn session_by_token(&self, hash: &[u8; 32]) -> Result<Option<Session>, Failure> {
        let hash = *hash;
        self.ask(move |read| read.session_by_token(&hash)).await
    }

    async fn sessions(&self) -> Result<Vec<Session>, Failure> {
        self.ask(|read| read.sessions()).await
    }

    async fn session_count(&self) -> Result<u64, Failure> {
        self.ask(|read| read.session_count()).await
    }

    async fn sessions_without_workspaces(&self) -> Result<Vec<Session>, Failure> {
        self.ask(|read| read.sessions_without_workspaces()).await
    }

    async fn end_session(&self, id: SessionId) -> Result<Vec<WorkspaceId>, Failure> {
        self.change(move |tx| {
            let owned = tx.owned_by(id)?.iter().map(|workspace| workspace.id).collect();
            tx.remove_session(id)?;
            Ok(owned)
        })
        .await
    }

    async fn end_sessions_of(&self, kind: SessionKind) -> Result<(), Failure> {
        self.change(move |tx| {
            let sessions = tx.sessions()?;
            let mut of_kind = sessions.iter().filter(|session| session.kind == kind);
            of_kind.try_for_each(|session| tx.remove_session(session.id))
        })
        .await
    }

    async fn ended_sessions(&self) -> Result<Vec<SessionId>, Failure> {
        self.ask(|read| read.ended_sessions()).await
    }

    async fn forget_ended_session(&self, id: SessionId) -> Result<(), Failure> {
        self.change(move |tx| tx.forget_ended_session(id)).await
    }

    async fn note_activity(
        &self,
        sessions: &BTreeMap<SessionId, Timestamp>,
        workspaces: &BTreeMap<WorkspaceId, Timestamp>,
    ) -> Result<(), Failure> {
        let (sessions, workspaces) = (sessions.clone(), workspaces.clone());
        self.change(move |tx| {
            for (&session, &at) in &sessions {
                if tx.session_if_known(session)?.is_some() {
                    tx.touch_session(session, at)?;
                }
            }
            for (&workspace, &at) in &workspaces {
                if tx.workspace_if_known(workspace)?.is_some() {
                    tx.touch_workspace(workspace, at)?;
                }
            }
            Ok(())
        })
        .await
    }

    async fn owner_of(&self, workspace: WorkspaceId) -> Result<Option<Session>, Failure> {
        self.ask(move |read| {
            let owner = read.settings(workspace)?.owner;
            owner.map(|owner| read.session(owner)).transpose()
        })
        .await
    }

    async fn set_owner(&self, workspace: WorkspaceId, owner: SessionId) -> Result<Vec<Variable>, Failure> {
        self.change(move |tx| {
            tx.set_owner(workspace, Some(owner))?;
            tx.forget_session_variables(workspace)?;
            tx.variables(workspace)
        })
        .await
    }
}

#[async_trait]
impl VariableRecords for Meta {
    async fn variables(&self, workspace: WorkspaceId) -> Result<Vec<Variable>, Failure> {
        self.ask(move |read| read.variables(workspace)).await
    }

    async fn replace_variables(
        &self,
        workspace: WorkspaceId,
        expected: &[Variable],
        new: &[Variable],
    ) -> Result<bool, Failure> {
        let (expected, new) = (expected.to_vec(), new.to_vec());
        self.change(move |tx| {
            let unchanged = tx.variables(workspace)? == expected;
            if unchanged && new != expected {
                tx.set_variables(workspace, &new)?;
            }
            Ok(unchanged)
        })
        .await
    }

    async fn change_variables(&self, workspace: WorkspaceId, change: VariablesChange) -> Result<(), Failure> {
        self.change(move |tx| {
            let before = tx.variables(workspace)?;
            match change(&tx.settings(workspace)?, before.clone()) {
                Ok(after) if after == before => Ok(Ok(())),
                Ok(after) => tx.set_variables(workspace, &after).map(Ok),
                Err(failure) => Ok(Err(failure)),
            }
        })
        .await?
    }

    async fn copy_variables(&self, from: WorkspaceId, to: WorkspaceId) -> Result<(), Failure> {
        self.change(move |tx| tx.set_variables(to, &tx.variables(from)?)).await
    }
}

#[async_trait]
impl ForwardRecords for Meta {
    async fn forwards_of(&self, workspace: WorkspaceId) -> Result<Vec<Forward>, Failure> {
        self.ask(move |read| read.forwards_of(workspace)).await
    }

    async fn insert_forward(&self, forward: &Forward) -> Result<(), Failure> {
        let forward = forward.clone();
        self.change(move |tx| tx.insert_forward(&forward)).await
    }

    async fn remove_forwards(&self, workspace: WorkspaceId, host_ports: &[u16]) -> Result<(), Failure> {
        let host_ports = host_ports.to_vec();
        self.change(move |tx| {
            host_ports.iter().try_for_each(|&port| tx.remove_forward(workspace, port).map(drop))
        })
        .await
    }
}

#[async_trait]
impl KeyRecords for Meta {
    async fn claim_key(&self, session: SessionId, key: &str, hash: &[u8; 32]) -> Result<Claim, Failure> {
        let (key, hash) = (key.to_owned(), *hash);
        self.change(move |tx| tx.claim_key(session, &key, &hash)).await
    }

    async fn settle_key(&self, session: SessionId, key: &str, outcome: &Value) -> Result<(), Failure> {
        let (key, outcome) = (key.to_owned(), outcome.clone());
        self.change(move |tx| tx.settle_key(session, &key, &outcome)).await
    }

    async fn drop_key(&self, session: SessionId, key: &str) -> Result<(), Failure> {
        let key = key.to_owned();
        self.change(move |tx| tx.drop_key(session, &key)).await
    }

    async fn drop_unsettled_keys(&self) -> Result<(), Failure> {
        self.change(|tx| tx.drop_unsettled_keys().map(drop)).await
    }

    async fn prune_keys(&self, older_than: Timestamp) -> Result<(), Failure> {
        self.change(move |tx| tx.prune_keys(older_than).map(drop)).await
    }
}

#[async_trait]
impl TimelineRecords for Meta {
    async fn append_events(&self, events: &[NewEvent]) -> Result<(), Failure> {
        let events = events.to_vec();
        self.change(move |tx| tx.append_events(&events)).await
    }

    async fn begin_event(&self, event: &NewEvent) -> Result<i64, Failure> {
        let event = NewEvent { outcome: RUNNING.to_owned(), ..event.clone() };
        self.change(move |tx| tx.append_event(&event)).await
    }

    async fn complete_events(&self, ends: &[EventEnd]) -> Result<(), Failure> {
        let ends = ends.to_vec();
        self.change(move |tx| ends.iter().try_for_each(|end| tx.complete_event(end))).await
    }

    async fn newest_event(&self) -> Result<i64, Failure> {
        self.ask(|read| read.newest_event()).await
    }

    async fn interrupt_events(&self, up_to: i64) -> Result<(), Failure> {
        // They are looked for in a read, which does not keep others from writing: it reads the whole timeline.
        let running = self.read_async(move |read| read.running_events(up_to)).await?;
        if running.is_empty() {
            return Ok(());
        }
        self.change(move |tx| running.iter().try_for_each(|id| tx.interrupt_event(*id))).await
    }

    async fn events(&self, filter: EventFilter) -> Result<Vec<Event>, Failure> {
        self.ask(move |read| read.events(filter)).await
    }

    async fn prune_events(&self, keep_newest: u64) -> Result<(), Failure> {
        self.change(move |tx| tx.prune_events(keep_newest).map(drop)).await
    }
}
