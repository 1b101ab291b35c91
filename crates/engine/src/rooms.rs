//! What belongs to a workspace while the daemon runs.

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

/// One room per workspace.
pub(crate) struct Rooms {
    clock: Arc<dyn Clock>,
    rooms: Mutex<HashMap<WorkspaceId, Arc<Room>>>,
    used: Arc<Mutex<BTreeMap<WorkspaceId, Timestamp>>>,
}

/// Where those who are at work on a workspace meet.
#[derive(Default)]
pub(crate) struct Room {
    turn: RwLock<()>,
    at_work: AtomicUsize,
    /// Calls that have killed the machine, or are about to, and note its end themselves.
    ending: AtomicUsize,
    /// The variables its commands get.
    pub env: Mutex<Env>,
    /// Held by whoever changes the variables of its machine.
    pub(crate) env_turn: tokio::sync::Mutex<()>,
    /// The shell its machine has, if it was asked.
    pub(crate) shell: Mutex<Option<Shell>>,
    /// Changes whenever it is its owner's no more.
    owners: watch::Sender<u64>,
    /// What ended its machine last, and when, if that was asked for.
    ended: Mutex<Option<(Instant, &'static str)>>,
}

/// Somebody at work on a workspace, which is in use from the beginning to the end of it.
pub(crate) struct AtWork {
    id: WorkspaceId,
    room: Arc<Room>,
    clock: Arc<dyn Clock>,
    used: Arc<Mutex<BTreeMap<WorkspaceId, Timestamp>>>,
}

impl AtWork {
    /// Where the others who work on the workspace meet.
    pub fn room(&self) -> &Room {
        &self.room
    }
}

/// A call that ends the machine of a workspace on purpose.
pub(crate) struct Ending(Arc<Room>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.ending.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.room.at_work.fetch_sub(1, Ordering::Relaxed);
        locked(&self.used).insert(self.id, self.clock.now());
    }
}

impl Rooms {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, rooms: Mutex::default(), used: Arc::default() }
    }

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
        locked(&self.used).insert(id, self.clock.now());
    }

    /// Notes that somebody is at work on a workspace from now on.
    pub fn work_on(&self, id: WorkspaceId) -> AtWork {
        self.touch(id);
        let room = self.of(id);
        room.at_work.fetch_add(1, Ordering::Relaxed);
        AtWork { id, room, clock: Arc::clone(&self.clock), used: Arc::clone(&self.used) }
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

    /// Notes that the workspace is its owner's no more. Calls of that session end.
    pub fn leave_owner(&self) {
        self.owners.send_modify(|changes| *changes += 1);
    }

    /// What changes when the workspace is no more that of the session that owns it now.
    pub fn ownership(&self) -> watch::Receiver<u64> {
        self.owners.subscribe()
    }

    /// Waits for its turn to change the workspace as a whole.
    pub async fn change(&self) -> RwLockWriteGuard<'_, ()> {
        self.turn.write().await
    }

    /// Notes that the machine is about to be ended on purpose. `what` says how, after "the workspace".
    pub fn note_end(&self, what: &'static str) {
        *locked(&self.ended) = Some((Instant::now(), what));
    }

    /// Notes that the machine was not ended after all.
    pub fn forget_end(&self) {
        *locked(&self.ended) = None;
    }

    /// How the machine was ended on purpose since a moment, if it was.
    pub fn ended_since(&self, began: Instant) -> Option<&'static str> {
        locked(&self.ended).filter(|(at, _)| *at >= began).map(|(_, what)| what)
    }

    /// Notes that the machine is ended on purpose, before the turn is waited for.
    pub fn ending(self: &Arc<Self>) -> Ending {
        self.ending.fetch_add(1, Ordering::Relaxed);
        Ending(Arc::clone(self))
    }

    /// Whether a call ends the machine on purpose. It notes the end when it has the turn.
    pub fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed) > 0
    }

    /// The turn, if nobody is at work.
    pub fn change_if_free(&self) -> Option<RwLockWriteGuard<'_, ()>> {
        self.turn.try_write().ok()
    }
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
