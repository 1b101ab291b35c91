//! How many forwarded connections there may be.
//!
//! Anybody on this host can connect to a forwarded port, and each connection takes a descriptor of the daemon's. So all
//! of them together may take a part of what it has, each workspace a part of that, and whoever comes when that is taken
//! is disconnected at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use agentiso_core::WorkspaceId;
use rustix::process::{Resource, getrlimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::rooms::locked;

/// Connections of one forward at once.
const PER_FORWARD: usize = 256;
/// Connections of all forwards of a workspace.
const PER_WORKSPACE: usize = 512;
/// Connections of all forwards.
const ALTOGETHER: usize = 2048;
/// The part of the daemon's descriptors that they may have: one of so many.
const SHARE: u64 = 4;
/// How often the same trouble is logged.
const EVERY: Duration = Duration::from_secs(60);

/// Places for all connections.
pub(super) struct Places {
    all: Arc<Semaphore>,
    per_workspace: usize,
    workspaces: Mutex<HashMap<WorkspaceId, Weak<Semaphore>>>,
}

/// Places for the connections of one forward.
pub(super) struct Door {
    /// Of the forward, its workspace, and all.
    places: [Arc<Semaphore>; 3],
}

/// A place of one connection, given back when dropped.
pub(super) struct Place {
    _places: [OwnedSemaphorePermit; 3],
}

impl Places {
    /// As many as the daemon's descriptors allow.
    pub fn new() -> Self {
        let descriptors = getrlimit(Resource::Nofile).current;
        Self::of(altogether(descriptors), PER_WORKSPACE)
    }

    pub(super) fn of(all: usize, per_workspace: usize) -> Self {
        let per_workspace = per_workspace.min(all.div_ceil(2));
        Self { all: Arc::new(Semaphore::new(all)), per_workspace, workspaces: Mutex::default() }
    }

    /// The door of another forward of a workspace.
    pub fn door(&self, workspace: WorkspaceId) -> Door {
        let mut workspaces = locked(&self.workspaces);
        workspaces.retain(|_, places| places.strong_count() > 0);
        let known = workspaces.get(&workspace).and_then(Weak::upgrade);
        let own = known.unwrap_or_else(|| Arc::new(Semaphore::new(self.per_workspace)));
        workspaces.insert(workspace, Arc::downgrade(&own));
        Door { places: [Arc::new(Semaphore::new(PER_FORWARD)), own, Arc::clone(&self.all)] }
    }
}

/// How many there may be for a daemon with so many descriptors; `None` is without limit.
fn altogether(descriptors: Option<u64>) -> usize {
    let share = descriptors.map_or(usize::MAX, |limit| usize::try_from(limit / SHARE).unwrap_or(usize::MAX));
    share.clamp(1, ALTOGETHER)
}

impl Door {
    /// A place for one more connection, if there is one.
    pub fn enter(&self) -> Option<Place> {
        let [forward, workspace, all] =
            self.places.each_ref().map(|places| Arc::clone(places).try_acquire_owned().ok());
        Some(Place { _places: [forward?, workspace?, all?] })
    }
}

/// Lets a trouble be logged once in a while.
#[derive(Default)]
pub(super) struct Seldom {
    last: Option<Instant>,
    left_out: u64,
}

impl Seldom {
    /// If it is time to log it: how often it was left out since the last time.
    pub fn is_due(&mut self, now: Instant) -> Option<u64> {
        if self.last.is_some_and(|last| now.duration_since(last) < EVERY) {
            self.left_out += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn workspace(number: u128) -> WorkspaceId {
        WorkspaceId::from_uuid(Uuid::from_u128(number))
    }

    #[test]
    fn forwarded_connections_never_take_more_than_their_part_of_the_descriptors() {
        assert_eq!(altogether(Some(20_000)), ALTOGETHER);
        assert_eq!(altogether(Some(1024)), 256);
        assert_eq!(altogether(Some(0)), 1);
        assert_eq!(altogether(None), ALTOGETHER);
    }

    #[test]
    fn one_workspace_cannot_take_the_places_of_others() {
        let places = Places::of(4, 2);
        let doors = [places.door(workspace(1)), places.door(workspace(1)), places.door(workspace(2))];
        let first = doors[0].enter().unwrap();
        let second = doors[1].enter().unwrap();
        assert!(doors[0].enter().is_none() && doors[1].enter().is_none());
        let _others = [doors[2].enter().unwrap(), doors[2].enter().unwrap()];
        assert!(places.door(workspace(3)).enter().is_none(), "all are taken");
        drop((first, second));
        // What did not get all three places keeps none of them.
        assert_eq!(places.all.available_permits(), 2);
        assert!(places.door(workspace(3)).enter().is_some());
        assert!(doors[0].enter().is_some());
    }

    #[test]
    fn one_forward_has_its_own_limit() {
        let door = Places::of(ALTOGETHER, PER_WORKSPACE).door(workspace(1));
        let taken: Vec<_> = (0..PER_FORWARD).map(|_| door.enter().unwrap()).collect();
        assert!(door.enter().is_none());
        drop(taken);
        assert!(door.enter().is_some());
    }

    #[test]
    fn trouble_is_logged_once_in_a_while() {
        let (mut seldom, start) = (Seldom::default(), Instant::now());
        assert_eq!(seldom.is_due(start), Some(0));
        assert_eq!(seldom.is_due(start), None);
        assert_eq!(seldom.is_due(start + EVERY / 2), None);
        assert_eq!(seldom.is_due(start + EVERY), Some(2));
    }
}
