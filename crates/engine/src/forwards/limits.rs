//! Limits on forwarded connections.
//!
//! Every process on the host can connect to a forwarded port, and each connection takes a file descriptor of the daemon. So
//! the number of connections is limited, in total, per workspace and per forward; further ones are closed at once.

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
/// Connections may take one in this many of the daemon's file descriptors.
const SHARE: u64 = 4;
/// How often the same problem is logged.
const EVERY: Duration = Duration::from_secs(60);

/// The limits of all connections.
pub(super) struct ConnectionLimits {
    all: Arc<Semaphore>,
    per_workspace: usize,
    workspaces: Mutex<HashMap<WorkspaceId, Weak<Semaphore>>>,
}

/// The limits of the connections of one forward.
pub(super) struct ForwardLimit {
    /// Of the forward, its workspace, and all.
    places: [Arc<Semaphore>; 3],
}

/// The permit of one connection, released when dropped.
pub(super) struct ConnectionPermit {
    _places: [OwnedSemaphorePermit; 3],
}

impl ConnectionLimits {
    /// Limits that fit the daemon's file descriptors.
    pub fn new() -> Self {
        let descriptors = getrlimit(Resource::Nofile).current;
        Self::of(altogether(descriptors), PER_WORKSPACE)
    }

    pub(super) fn of(all: usize, per_workspace: usize) -> Self {
        let per_workspace = per_workspace.min(all.div_ceil(2));
        Self { all: Arc::new(Semaphore::new(all)), per_workspace, workspaces: Mutex::default() }
    }

    /// The limits of another forward of a workspace.
    pub fn limit(&self, workspace: WorkspaceId) -> ForwardLimit {
        let mut workspaces = locked(&self.workspaces);
        workspaces.retain(|_, places| places.strong_count() > 0);
        let known = workspaces.get(&workspace).and_then(Weak::upgrade);
        let own = known.unwrap_or_else(|| Arc::new(Semaphore::new(self.per_workspace)));
        workspaces.insert(workspace, Arc::downgrade(&own));
        ForwardLimit { places: [Arc::new(Semaphore::new(PER_FORWARD)), own, Arc::clone(&self.all)] }
    }
}

/// The number of connections for a daemon with this many file descriptors; `None` is unlimited.
fn altogether(descriptors: Option<u64>) -> usize {
    let share = descriptors.map_or(usize::MAX, |limit| usize::try_from(limit / SHARE).unwrap_or(usize::MAX));
    share.clamp(1, ALTOGETHER)
}

impl ForwardLimit {
    /// A permit for one more connection, if the limits allow it.
    pub fn enter(&self) -> Option<ConnectionPermit> {
        let [forward, workspace, all] =
            self.places.each_ref().map(|places| Arc::clone(places).try_acquire_owned().ok());
        Some(ConnectionPermit { _places: [forward?, workspace?, all?] })
    }
}

/// Limits how often a problem is logged.
#[derive(Default)]
pub(super) struct LogLimit {
    last: Option<Instant>,
    left_out: u64,
}

impl LogLimit {
    /// If it is time to log it: how often it was not logged since the last time.
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
        // A connection that did not get all three permits keeps none.
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
