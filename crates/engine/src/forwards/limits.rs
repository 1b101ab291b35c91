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

use crate::live_state::locked;

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

/// ConnectionLimits for all connections.
pub(super) struct ConnectionLimits {
    all: Arc<Semaphore>,
    per_workspace: usize,
    workspaces: Mutex<HashMap<WorkspaceId, Weak<Semaphore>>>,
}

/// ConnectionLimits for the connections of one forward.
pub(super) struct ForwardLimit {
    /// Of the forward, its workspace, and all.
    places: [Arc<Semaphore>; 3],
}

/// A place of one connection, given back when dropped.
pub(super) struct ConnectionPermit {
    _places: [OwnedSemaphorePermit; 3],
}

impl ConnectionLimits {
    /// As many as the daemon's descriptors allow.
    pub fn new() -> Self {
        let descriptors = getrlimit(Resource::Nofile).current;
        Self::of(altogether(descriptors), PER_WORKSPACE)
    }

    pub(super) fn of(all: usize, per_workspace: usize) -> Self {
        let per_workspace = per_workspace.min(all.div_ceil(2));
        Self { all: Arc::new(Semaphore::new(all)), per_workspace, workspaces: Mutex::default() }
    }

    /// The limit of another forward of a workspace.
    pub fn limit(&self, workspace: WorkspaceId) -> ForwardLimit {
        let mut workspaces = locked(&self.workspaces);
        workspaces.retain(|_, places| places.strong_count() > 0);
        let known = workspaces.get(&workspace).and_then(Weak::upgrade);
        let own = known.unwrap_or_else(|| Arc::new(Semaphore::new(self.per_workspace)));
        workspaces.insert(workspace, Arc::downgrade(&own));
        ForwardLimit { places: [Arc::new(Semaphore::new(PER_FORWARD)), own, Arc::clone(&self.all)] }
    }
}

/// How many there may be for a daemon with so many descriptors; `None` is without limit.
fn altogether(descriptors: Option<u64>) -> usize {
    let share = descriptors.map_or(usize::MAX, |limit| usize::try_from(limit / SHARE).unwrap_or(usize::MAX));
    share.clamp(1, ALTOGETHER)
}

impl ForwardLimit {
    /// A place for one more connection, if there is one.
    pub fn enter(&self) -> Option<ConnectionPermit> {
        let [forward, workspace, all] =
            self.places.each_ref().map(|places| Arc::clone(places).try_acquire_owned().ok());
        Some(ConnectionPermit { _places: [forward?, workspace?, all?] })
    }
}

/// Lets a trouble be logged once in a while.
#[derive(Default)]
pub(super) struct LogLimit {
    last: Option<Instant>,
    left_out: u64,
}

impl LogLimit {
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
        let places = ConnectionLimits::of(4, 2);
        let limits = [places.limit(workspace(1)), places.limit(workspace(1)), places.limit(workspace(2))];
        let first = limits[0].enter().unwrap();
        let second = limits[1].enter().unwrap();
        assert!(limits[0].enter().is_none() && limits[1].enter().is_none());
        let _others = [limits[2].enter().unwrap(), limits[2].enter().unwrap()];
        assert!(places.limit(workspace(3)).enter().is_none(), "all are taken");
        drop((first, second));
        // What did not get all three places keeps none of them.
        assert_eq!(places.all.available_permits(), 2);
        assert!(places.limit(workspace(3)).enter().is_some());
        assert!(limits[0].enter().is_some());
    }

    #[test]
    fn one_forward_has_its_own_limit() {
        let limit = ConnectionLimits::of(ALTOGETHER, PER_WORKSPACE).limit(workspace(1));
        let taken: Vec<_> = (0..PER_FORWARD).map(|_| limit.enter().unwrap()).collect();
        assert!(limit.enter().is_none());
        drop(taken);
        assert!(limit.enter().is_some());
    }

    #[test]
    fn trouble_is_logged_once_in_a_while() {
        let (mut log_limit, start) = (LogLimit::default(), Instant::now());
        assert_eq!(log_limit.is_due(start), Some(0));
        assert_eq!(log_limit.is_due(start), None);
        assert_eq!(log_limit.is_due(start + EVERY / 2), None);
        assert_eq!(log_limit.is_due(start + EVERY), Some(2));
    }
}
