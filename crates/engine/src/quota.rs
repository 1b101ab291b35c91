//! Quotas of sessions and of the installation.
//!
//! What is being created is reserved first and counts at once, so that of two concurrent requests for the last of a quota
//! only one succeeds. The comparison itself is [`check_quota`], which is pure.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use agentiso_core::action::QuotaUse;
use agentiso_core::admission::{Amounts, QuotaExceeded, QuotaKind, check_quota};
use agentiso_core::ports::records::Usage;
use agentiso_core::{Code, Failure, SessionId};

use tokio::sync::OwnedMutexGuard;

use crate::Engine;
use crate::live_state::locked;

/// The reservations of requests that are being carried out.
#[derive(Clone, Default)]
pub(crate) struct Quotas {
    reserved: Arc<Mutex<HashMap<Option<SessionId>, Vec<Amounts>>>>,
    lock: Arc<tokio::sync::Mutex<()>>,
}

/// A part of a quota that is reserved until this is dropped.
pub(crate) struct Reservation {
    quotas: Quotas,
    session: Option<SessionId>,
    amounts: Amounts,
}

impl Quotas {
    /// Waits until no other decision about quotas is being made.
    pub async fn lock(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.lock).lock_owned().await
    }

    /// Reserves amounts, or fails with `quota_exceeded`.
    pub async fn reserve(
        &self,
        engine: &Engine,
        session: Option<SessionId>,
        requested: Amounts,
    ) -> Result<Reservation, Failure> {
        let _lock = self.lock().await;
        self.require(engine, session, requested).await?;
        locked(&self.reserved).entry(session).or_default().push(requested);
        Ok(Reservation { quotas: self.clone(), session, amounts: requested })
    }

    /// Fails if the installation, or the session, would have too much. The caller holds the lock.
    async fn require(
        &self,
        engine: &Engine,
        session: Option<SessionId>,
        requested: Amounts,
    ) -> Result<(), Failure> {
        let all = engine.records.usage(None).await?;
        let used = used(&all) + self.reserved_for(|_| true);
        let workspaces = engine.settings.limits.max_workspaces.into();
        let limits = Amounts { workspaces, ..Amounts::UNLIMITED };
        check_quota(used, requested, limits).map_err(|exceeded| {
            too_many("workspaces in this installation", &exceeded, "limits.max_workspaces")
        })?;
        match session {
            Some(id) => self.require_own(engine, id, requested).await,
            None => Ok(()),
        }
    }

    /// Fails if a session would have too much. The caller holds the lock.
    pub async fn require_own(
        &self,
        engine: &Engine,
        session: SessionId,
        requested: Amounts,
    ) -> Result<(), Failure> {
        let own = engine.records.usage(Some(session)).await?;
        let used = used(&own) + self.reserved_for(|whose| whose == Some(session));
        check_quota(used, requested, session_limits(engine)).map_err(|exceeded| {
            let (what, key) = match exceeded.kind {
                QuotaKind::Workspaces => ("workspaces", "sessions.max_workspaces"),
                QuotaKind::MemoryMb => ("MiB of memory", "sessions.max_memory_mb"),
                QuotaKind::DiskGb => ("GiB of disk", "sessions.max_disk_gb"),
                QuotaKind::Snapshots => ("snapshots", "sessions.max_snapshots"),
            };
            too_many(what, &exceeded, key)
        })
    }

    fn reserved_for(&self, whose: impl Fn(Option<SessionId>) -> bool) -> Amounts {
        let reserved = locked(&self.reserved);
        let theirs = reserved.iter().filter(|(session, _)| whose(**session)).flat_map(|(_, amounts)| amounts);
        theirs.fold(Amounts::default(), |sum, amounts| sum + *amounts)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut reserved = locked(&self.quotas.reserved);
        if let Some(theirs) = reserved.get_mut(&self.session) {
            if let Some(index) = theirs.iter().position(|one| *one == self.amounts) {
                theirs.swap_remove(index);
            }
            if theirs.is_empty() {
                reserved.remove(&self.session);
            }
        }
    }
}

/// What a session may have.
pub(crate) fn quota(engine: &Engine) -> QuotaUse {
    let Amounts { workspaces, memory_mb, disk_gb, snapshots } = session_limits(engine);
    QuotaUse { workspaces, memory_mb, disk_gb, snapshots }
}

fn session_limits(engine: &Engine) -> Amounts {
    let quota = &engine.settings.session_quota;
    Amounts {
        workspaces: quota.workspaces.into(),
        memory_mb: quota.memory_mb.into(),
        disk_gb: quota.disk_gb.into(),
        snapshots: quota.snapshots.into(),
    }
}

fn used(usage: &Usage) -> Amounts {
    let Usage { workspaces, memory_mb, disk_gb, snapshots, .. } = *usage;
    Amounts { workspaces, memory_mb, disk_gb, snapshots }
}

fn too_many(what: &str, exceeded: &QuotaExceeded, key: &str) -> Failure {
    let QuotaExceeded { used, requested, limit, .. } = exceeded;
    let message =
        format!("too many {what}: {used} are used, {requested} more are asked for, {limit} are allowed");
    Failure::new(Code::QuotaExceeded, message).with_remedy(format!(
        "remove workspaces or snapshots that are not needed, or raise {key} in the configuration"
    ))
}
