//! The state of a workspace that lives as long as the daemon: its lock, who uses it, and what is cached about it.
//!
//! The lock is shared by calls that work inside a workspace while they connect, and exclusive for calls that change the
//! workspace as a whole. A call that ends the machine announces that before it waits for the lock
//! ([`LiveState::announce_end`]), so that nobody takes the end for a crash.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use agentiso_core::WorkspaceId;
use agentiso_core::ports::Clock;
use jiff::Timestamp;
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard, watch};

use crate::command::Shell;
use crate::env::Env;

/// The live states of all workspaces.
pub(crate) struct LiveStates {
    clock: Arc<dyn Clock>,
    states: Mutex<HashMap<WorkspaceId, Arc<LiveState>>>,
    /// When workspaces were used, of those used since this was last stored.
    used: Arc<Mutex<BTreeMap<WorkspaceId, Timestamp>>>,
}

/// The live state of one workspace.
#[derive(Default)]
pub(crate) struct LiveState {
    lock: RwLock<()>,
    /// The number of calls that use it.
    users: AtomicUsize,
    /// The number of calls that have killed the machine, or are about to, and record its end themselves.
    ending: AtomicUsize,
    /// The variables its commands get.
    pub env: Mutex<Env>,
    /// Held while the variables of its machine are changed.
    pub(crate) env_lock: tokio::sync::Mutex<()>,
    /// Held while its network rules are changed.
    pub(crate) network_lock: tokio::sync::Mutex<()>,
    /// The shell of its machine, if that is known.
    pub(crate) shell: Mutex<Option<Shell>>,
    /// Changes when it leaves its owner.
    owners: watch::Sender<u64>,
    /// How and when its machine was last ended on purpose.
    ended: Mutex<Option<(Instant, &'static str)>>,
}

/// Marks a workspace as used until it is dropped.
pub(crate) struct InUse {
    id: WorkspaceId,
    live: Arc<LiveState>,
    clock: Arc<dyn Clock>,
    used: Arc<Mutex<BTreeMap<WorkspaceId, Timestamp>>>,
}

impl InUse {
    /// The live state of the workspace.
    pub fn live(&self) -> &LiveState {
        &self.live
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.live.users.fetch_sub(1, Ordering::Relaxed);
        locked(&self.used).insert(self.id, self.clock.now());
    }
}

/// Marks the machine of a workspace as being ended on purpose until it is dropped.
pub(crate) struct Ending(Arc<LiveState>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.ending.fetch_sub(1, Ordering::Relaxed);
    }
}

impl LiveStates {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, states: Mutex::default(), used: Arc::default() }
    }

    /// The live state of a workspace.
    pub fn of(&self, id: WorkspaceId) -> Arc<LiveState> {
        Arc::clone(locked(&self.states).entry(id).or_default())
    }

    /// Forgets a workspace that is gone.
    pub fn forget(&self, id: WorkspaceId) {
        locked(&self.states).remove(&id);
        locked(&self.used).remove(&id);
    }

    /// Notes that a workspace is used now.
    pub fn touch(&self, id: WorkspaceId) {
        locked(&self.used).insert(id, self.clock.now());
    }

    /// Marks a workspace as used for as long as the returned guard lives.
    pub fn use_workspace(&self, id: WorkspaceId) -> InUse {
        self.touch(id);
        let live = self.of(id);
        live.users.fetch_add(1, Ordering::Relaxed);
        InUse { id, live, clock: Arc::clone(&self.clock), used: Arc::clone(&self.used) }
    }

    /// Whether a workspace is in use, or was used since [`Self::take_used`] was last called.
    pub fn is_used(&self, id: WorkspaceId) -> bool {
        locked(&self.used).contains_key(&id) || self.of(id).users.load(Ordering::Relaxed) > 0
    }

    /// When a workspace was last used, if that was since [`Self::take_used`] was last called.
    pub fn last_use(&self, id: WorkspaceId) -> Option<Timestamp> {
        locked(&self.used).get(&id).copied()
    }

    /// The workspaces that were used since this was last called.
    pub fn take_used(&self) -> BTreeMap<WorkspaceId, Timestamp> {
        std::mem::take(&mut *locked(&self.used))
    }
}

impl LiveState {
    /// Waits until nobody changes the workspace as a whole, and prevents that until the guard is dropped.
    pub async fn lock_shared(&self) -> RwLockReadGuard<'_, ()> {
        self.lock.read().await
    }

    /// Waits until the workspace may be changed as a whole.
    pub async fn lock_exclusive(&self) -> RwLockWriteGuard<'_, ()> {
        self.lock.write().await
    }

    /// The exclusive lock, if it is free.
    pub fn try_lock_exclusive(&self) -> Option<RwLockWriteGuard<'_, ()>> {
        self.lock.try_write().ok()
    }

    /// Notes that the workspace leaves its owner. Running calls of that session end.
    pub fn leave_owner(&self) {
        self.owners.send_modify(|changes| *changes += 1);
    }

    /// Changes when the workspace leaves its present owner.
    pub fn ownership(&self) -> watch::Receiver<u64> {
        self.owners.subscribe()
    }

    /// Notes that the machine is about to be ended on purpose. `how` continues "the workspace".
    pub fn note_end(&self, how: &'static str) {
        *locked(&self.ended) = Some((Instant::now(), how));
    }

    /// Notes that the machine was not ended after all.
    pub fn forget_end(&self) {
        *locked(&self.ended) = None;
    }

    /// How the machine was ended on purpose since a moment, if it was.
    pub fn ended_since(&self, began: Instant) -> Option<&'static str> {
        locked(&self.ended).filter(|(at, _)| *at >= began).map(|(_, how)| how)
    }

    /// Announces that the machine is ended on purpose, before the lock is waited for.
    pub fn announce_end(self: &Arc<Self>) -> Ending {
        self.ending.fetch_add(1, Ordering::Relaxed);
        Ending(Arc::clone(self))
    }

    /// Whether a call ends the machine on purpose. It records the end once it has the lock.
    pub fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed) > 0
    }
}

/// Locks a mutex. A panic while it was held leaves nothing half changed here.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
