//! How much a session, and all of them together, may have.
//!
//! What is being made counts from the moment it is asked for, so that two who ask at once do not both get the last.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use agentiso_core::action::QuotaUse;
use agentiso_core::ports::records::Usage;
use agentiso_core::{Code, Failure, Resources, SessionId};

use tokio::sync::MutexGuard;

use crate::Engine;
use crate::rooms::locked;

/// What is asked for.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Asked {
    workspaces: u64,
    memory_mb: u64,
    disk_gb: u64,
    snapshots: u64,
}

impl Asked {
    pub fn of(resources: &Resources) -> Self {
        let Resources { memory_mb, disk_gb, .. } = *resources;
        Self { workspaces: 1, memory_mb: memory_mb.into(), disk_gb: disk_gb.into(), snapshots: 0 }
    }

    pub fn disk(gb: u32) -> Self {
        Self { disk_gb: gb.into(), ..Self::default() }
    }

    pub fn memory(mb: u32) -> Self {
        Self { memory_mb: mb.into(), ..Self::default() }
    }

    pub fn snapshot() -> Self {
        Self { snapshots: 1, ..Self::default() }
    }

    pub fn times(self, count: u32) -> Self {
        let count = u64::from(count);
        Self {
            workspaces: self.workspaces * count,
            memory_mb: self.memory_mb * count,
            disk_gb: self.disk_gb * count,
            snapshots: self.snapshots * count,
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            workspaces: self.workspaces + other.workspaces,
            memory_mb: self.memory_mb + other.memory_mb,
            disk_gb: self.disk_gb + other.disk_gb,
            snapshots: self.snapshots + other.snapshots,
        }
    }
}

/// What is reserved for what is being made.
#[derive(Clone, Default)]
pub(crate) struct Quotas {
    reserved: Arc<Mutex<HashMap<Option<SessionId>, Vec<Asked>>>>,
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// Room for something that is being made; given back when dropped.
pub(crate) struct Reservation {
    quotas: Quotas,
    session: Option<SessionId>,
    asked: Asked,
}

impl Quotas {
    /// Waits until no other decision about quotas is being made.
    pub async fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Reserves room, or says what there is too little of.
    pub async fn reserve(
        &self,
        engine: &Engine,
        session: Option<SessionId>,
        asked: Asked,
    ) -> Result<Reservation, Failure> {
        let _turn = self.turn().await;
        self.require(engine, session, asked).await?;
        locked(&self.reserved).entry(session).or_default().push(asked);
        Ok(Reservation { quotas: self.clone(), session, asked })
    }

    /// Refuses what would be too much. The caller has the turn.
    async fn require(
        &self,
        engine: &Engine,
        session: Option<SessionId>,
        asked: Asked,
    ) -> Result<(), Failure> {
        let all = engine.records.usage(None).await?;
        let have = used(&all).plus(self.reserved_for(|_| true));
        let most = u64::from(engine.settings.limits.max_workspaces);
        check(
            "workspaces in this installation",
            have.workspaces,
            asked.workspaces,
            most,
            "limits.max_workspaces",
        )?;
        match session {
            Some(id) => self.require_own(engine, id, asked).await,
            None => Ok(()),
        }
    }

    /// Refuses what would be too much for a session, whoever has it now. The caller has the turn.
    pub async fn require_own(
        &self,
        engine: &Engine,
        session: SessionId,
        asked: Asked,
    ) -> Result<(), Failure> {
        let own = engine.records.usage(Some(session)).await?;
        let have = used(&own).plus(self.reserved_for(|whose| whose == Some(session)));
        let limits = quota(engine);
        check("workspaces", have.workspaces, asked.workspaces, limits.workspaces, "sessions.max_workspaces")?;
        check("MiB of memory", have.memory_mb, asked.memory_mb, limits.memory_mb, "sessions.max_memory_mb")?;
        check("GiB of disk", have.disk_gb, asked.disk_gb, limits.disk_gb, "sessions.max_disk_gb")?;
        check("snapshots", have.snapshots, asked.snapshots, limits.snapshots, "sessions.max_snapshots")
    }

    fn reserved_for(&self, whose: impl Fn(Option<SessionId>) -> bool) -> Asked {
        let reserved = locked(&self.reserved);
        let theirs = reserved.iter().filter(|(session, _)| whose(**session)).flat_map(|(_, asked)| asked);
        theirs.fold(Asked::default(), |sum, asked| sum.plus(*asked))
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut reserved = locked(&self.quotas.reserved);
        if let Some(theirs) = reserved.get_mut(&self.session) {
            if let Some(index) = theirs.iter().position(|one| *one == self.asked) {
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
    let quota = &engine.settings.session_quota;
    QuotaUse {
        workspaces: quota.workspaces.into(),
        memory_mb: quota.memory_mb.into(),
        disk_gb: quota.disk_gb.into(),
        snapshots: quota.snapshots.into(),
    }
}

fn used(usage: &Usage) -> Asked {
    let Usage { workspaces, memory_mb, disk_gb, snapshots, .. } = *usage;
    Asked { workspaces, memory_mb, disk_gb, snapshots }
}

fn check(what: &str, have: u64, asked: u64, most: u64, key: &str) -> Result<(), Failure> {
    if have + asked <= most {
        return Ok(());
    }
    let message = format!("too many {what}: {have} are used, {asked} more are asked for, {most} are allowed");
    Err(Failure::new(Code::QuotaExceeded, message).with_remedy(format!(
        "remove workspaces or snapshots that are not needed, or raise {key} in the configuration"
    )))
}
