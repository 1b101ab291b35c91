//! What belongs to a workspace while the daemon runs.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agentiso_core::WorkspaceId;
use jiff::Timestamp;
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::env::Env;

/// One room per workspace.
#[derive(Default)]
pub(crate) struct Rooms {
    rooms: Mutex<HashMap<WorkspaceId, Arc<Room>>>,
    used: Arc<Mutex<BTreeMap<WorkspaceId, Timestamp>>>,
}

/// Where those who are at work on a workspace meet.
#[derive(Default)]
pub(crate) struct Room {
    turn: RwLock<()>,
    at_work: AtomicUsize,
    /// The variables its commands get.
    pub env: Mutex<Env>,
}

/// Somebody at work on a workspace, which is in use from the beginning to the end of it.
pub(crate) struct AtWork {
    id: WorkspaceId,
    room: Arc<Room>,
    used: Arc<Mutex<BTreeMap<WorkspaceId, Timestamp>>>,
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.room.at_work.fetch_sub(1, Ordering::Relaxed);
        locked(&self.used).insert(self.id, Timestamp::now());
    }
}

impl Rooms {
    /// The room of a workspace.
    pub fn of(&self, id: WorkspaceId) -> Arc<Room> {
        Arc::clone(locked(&self.rooms).entry(id).or_default())
    }

    /// Forgets a workspace that is gone.
    pub fn close(&self, id: WorkspaceId) {
        locked(&self.rooms).remove(&id);
        locked(&self.used).remove(&id);
    }

    /// Notes that a workspace is used now.
    pub fn touch(&self, id: WorkspaceId) {
        locked(&self.used).insert(id, Timestamp::now());
    }

    /// Notes that somebody is at work on a workspace from now on.
    pub fn work_on(&self, id: WorkspaceId) -> AtWork {
        self.touch(id);
        let room = self.of(id);
        room.at_work.fetch_add(1, Ordering::Relaxed);
        AtWork { id, room, used: Arc::clone(&self.used) }
    }

    /// Whether somebody is at work on a workspace, or was since it was last asked which were used.
    pub fn is_used(&self, id: WorkspaceId) -> bool {
        locked(&self.used).contains_key(&id) || self.of(id).at_work.load(Ordering::Relaxed) > 0
    }

    /// When a workspace was used, if that was since it was last asked which were.
    pub fn last_use(&self, id: WorkspaceId) -> Option<Timestamp> {
        locked(&self.used).get(&id).copied()
    }

    /// Which workspaces were used since this was last asked.
    pub fn take_used(&self) -> BTreeMap<WorkspaceId, Timestamp> {
        std::mem::take(&mut *locked(&self.used))
    }
}

impl Room {
    /// Waits until nobody changes the workspace as a whole, and keeps everyone from it.
    pub async fn enter(&self) -> RwLockReadGuard<'_, ()> {
        self.turn.read().await
    }

    /// Waits for its turn to change the workspace as a whole.
    pub async fn change(&self) -> RwLockWriteGuard<'_, ()> {
        self.turn.write().await
    }

    /// The turn, if nobody is at work.
    pub fn change_if_free(&self) -> Option<RwLockWriteGuard<'_, ()>> {
        self.turn.try_write().ok()
    }
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
