//! Settings of a workspace: owner, labels, expiry, idle stop, suspension.

use std::collections::BTreeMap;
use std::time::Duration;

use agentiso_core::{SessionId, WorkspaceId, check_labels};
use jiff::Timestamp;
use rusqlite::{Row, named_params};

use crate::stored::{Stored, get, get_if_any};
use crate::workspaces::not_found;
use crate::{MetaError, NextSize, Read, Settings, Tx};

/// The settings of every workspace, with defaults for those without any.
const SETTINGS: &str = "SELECT workspaces.id, owner, labels, expires_at, idle_stop_secs,
    coalesce(last_used, created) AS last_used, suspended, coalesce(restart, 0) AS restart,
    coalesce(stay_stopped, 0) AS stay_stopped, next_vcpus, next_memory_mb
    FROM workspaces LEFT JOIN settings ON settings.workspace = workspaces.id";

impl Read<'_> {
    /// Returns the settings of a workspace.
    pub fn settings(&self, workspace: WorkspaceId) -> Result<Settings, MetaError> {
        self.one(&format!("{SETTINGS} WHERE workspaces.id = ?1"), [Stored(workspace)], read)?
            .ok_or_else(|| not_found(workspace.to_string(), None))
    }

    /// Returns the settings of all workspaces.
    pub fn all_settings(&self) -> Result<BTreeMap<WorkspaceId, Settings>, MetaError> {
        let settings = self.all(SETTINGS, [], |row| Ok((get(row, "id")?, read(row)?)))?;
        Ok(settings.into_iter().collect())
    }
}

impl Tx<'_> {
    /// Replaces the settings of a workspace. Its owner and the snapshot it was suspended to must exist.
    pub fn set_settings(&self, workspace: WorkspaceId, settings: &Settings) -> Result<(), MetaError> {
        check_labels(&settings.labels)?;
        self.require_owner(settings.owner)?;
        if let Some(snapshot) = settings.suspended {
            self.snapshot(snapshot)?;
        }
        self.change_workspace(
            workspace,
            "INSERT INTO settings (workspace, owner, labels, expires_at, idle_stop_secs, last_used, suspended,
               restart, stay_stopped, next_vcpus, next_memory_mb)
             SELECT id, :owner, :labels, :expires_at, :idle_stop_secs, :last_used, :suspended,
               :restart, :stay_stopped, :next_vcpus, :next_memory_mb
             FROM workspaces WHERE id = :workspace
             ON CONFLICT (workspace) DO UPDATE SET owner = :owner, labels = :labels, expires_at = :expires_at,
               idle_stop_secs = :idle_stop_secs, last_used = :last_used, suspended = :suspended,
               restart = :restart, stay_stopped = :stay_stopped, next_vcpus = :next_vcpus,
               next_memory_mb = :next_memory_mb",
            named_params! {
                ":workspace": Stored(workspace),
                ":owner": settings.owner.map(Stored),
                ":labels": Stored(&settings.labels),
                ":expires_at": settings.expires_at.map(Stored),
                ":idle_stop_secs": settings.idle_stop.map(whole_seconds),
                ":last_used": Stored(settings.last_used),
                ":suspended": settings.suspended.map(Stored),
                ":restart": settings.restart,
                ":stay_stopped": settings.stay_stopped,
                ":next_vcpus": settings.next_size.map(|size| size.vcpus),
                ":next_memory_mb": settings.next_size.map(|size| size.memory_mb),
            },
        )
    }

    /// Sets or clears the owner of a workspace.
    pub fn set_owner(&self, workspace: WorkspaceId, owner: Option<SessionId>) -> Result<(), MetaError> {
        self.require_owner(owner)?;
        self.change_workspace(
            workspace,
            "INSERT INTO settings (workspace, owner, last_used)
             SELECT id, ?2, created FROM workspaces WHERE id = ?1
             ON CONFLICT (workspace) DO UPDATE SET owner = ?2",
            (Stored(workspace), owner.map(Stored)),
        )
    }

    /// Records that a workspace was used.
    pub fn touch_workspace(&self, workspace: WorkspaceId, at: Timestamp) -> Result<(), MetaError> {
        self.change_workspace(
            workspace,
            "INSERT INTO settings (workspace, last_used) SELECT id, ?2 FROM workspaces WHERE id = ?1
             ON CONFLICT (workspace) DO UPDATE SET last_used = ?2",
            (Stored(workspace), Stored(at)),
        )
    }

    fn require_owner(&self, owner: Option<SessionId>) -> Result<(), MetaError> {
        owner.map_or(Ok(()), |owner| self.session(owner).map(drop))
    }
}

/// Rounds up, so that a workspace is never stopped early.
fn whole_seconds(duration: Duration) -> i64 {
    let begun = u64::from(duration.subsec_nanos() > 0);
    i64::try_from(duration.as_secs().saturating_add(begun)).unwrap_or(i64::MAX)
}

fn read(row: &Row<'_>) -> rusqlite::Result<Settings> {
    let idle_stop: Option<i64> = row.get("idle_stop_secs")?;
    let next: (Option<u32>, Option<u32>) = (row.get("next_vcpus")?, row.get("next_memory_mb")?);
    Ok(Settings {
        owner: get_if_any(row, "owner")?,
        labels: get_if_any(row, "labels")?.unwrap_or_default(),
        expires_at: get_if_any(row, "expires_at")?,
        idle_stop: idle_stop.map(|seconds| Duration::from_secs(seconds.unsigned_abs())),
        last_used: get(row, "last_used")?,
        suspended: get_if_any(row, "suspended")?,
        restart: row.get("restart")?,
        stay_stopped: row.get("stay_stopped")?,
        next_size: next.0.zip(next.1).map(|(vcpus, memory_mb)| NextSize { vcpus, memory_mb }),
    })
}
