//! Which machines the pool keeps ready.

use std::fs;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use agentiso_blocking::in_place;
use agentiso_core::{ImageName, Resources};
use agentiso_meta::PoolMachine;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::pool::PoolShape;
use super::pool_budget::{Allowed, Budget, HostMemory, budget};
use super::{CreateRequest, Workspaces};

/// The file with the shapes that were requested recently.
const FILE: &str = "shapes.json";
/// How many shapes besides the default are kept ready.
const RECENT: usize = 4;
/// A shape that was not requested in this time is not kept ready.
const LATELY: SignedDuration = SignedDuration::from_hours(24);
/// How long machines of the default shape are kept ready after an agent connects.
const EXPECTED: Duration = Duration::from_secs(24 * 3600);
/// How long after a create, or the start of a daemon, the pool is not filled, so that the command that a client waits for
/// has the processors to itself.
const FRESH: Duration = Duration::from_secs(2);

/// A shape that was requested.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
struct Asked {
    image: ImageName,
    resources: Resources,
    at: Timestamp,
}

/// When a client connected that is likely to create workspaces, and when one last began to use a new workspace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Demand(Arc<Mutex<Times>>);

#[derive(Clone, Copy, Debug, Default)]
struct Times {
    expected: Option<Instant>,
    in_use: Option<Instant>,
}

impl Demand {
    fn times(&self) -> MutexGuard<'_, Times> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_expected(&self) -> bool {
        self.times().expected.is_some_and(|at| at.elapsed() < EXPECTED)
    }

    /// Records that a client waits for a new workspace or for its first commands.
    pub(super) fn begin_use(&self) {
        self.times().in_use = Some(Instant::now());
    }

    /// Whether that was so recently that the client is likely to be waiting still.
    pub(super) fn is_fresh(&self) -> bool {
        self.times().in_use.is_some_and(|at| at.elapsed() < FRESH)
    }
}

impl Workspaces {
    /// Records that a client connected that is likely to create workspaces, so that the pool is filled.
    pub fn expect_creates(&self) {
        self.demand.times().expected = Some(Instant::now());
    }

    /// Records that a machine of this shape was requested.
    pub(super) fn remember_shape(&self, request: &CreateRequest) {
        self.demand.begin_use();
        if self.installation.config.pool.size > 0 {
            in_place(|| self.write_shape(request.image.clone(), request.resources));
        }
    }

    #[expect(clippy::disallowed_methods, reason = "called through `in_place`")]
    fn write_shape(&self, image: ImageName, resources: Resources) {
        let asked = remembered(self.asked(), Asked { image, resources, at: Timestamp::now() });
        let dir = self.installation.paths.maintenance_dir();
        let (path, partial) = (dir.join(FILE), dir.join(format!(".{FILE}.{}", std::process::id())));
        let written = fs::create_dir_all(dir)
            .and_then(|()| Ok(serde_json::to_vec(&asked)?))
            .and_then(|text| fs::write(&partial, text))
            .and_then(|()| fs::rename(&partial, &path));
        // Not worth failing the create for.
        if let Err(error) = written {
            tracing::warn!(%error, "could not record the requested shape");
        }
    }

    /// The memory budget of the pool on this host now.
    pub(crate) fn pool_budget(&self) -> Budget {
        budget(&self.installation.config.pool, HostMemory::read_limited().ok())
    }

    /// The shapes to keep ready and how many of each: the default, if a create is likely, and recently requested ones.
    pub(super) fn wanted_shapes(&self, pool: &[PoolMachine]) -> Vec<(PoolShape, u32)> {
        let config = &self.installation.config;
        let (memory_mb, grows) = match self.pool_budget().allowed {
            Allowed::Nothing => return Vec::new(),
            Allowed::Present(memory_mb) => (memory_mb, false),
            Allowed::Memory(memory_mb) => (memory_mb, true),
        };
        let now = Timestamp::now();
        let mut asked = self.asked();
        asked.retain(|one| now.duration_since(one.at) < LATELY);
        let mut shapes: Vec<PoolShape> = Vec::new();
        if (self.demand.is_expected() || !asked.is_empty())
            && let Ok(image) = config.defaults.image_name()
        {
            shapes.push(PoolShape { image, resources: config.defaults.resources() });
        }
        for Asked { image, resources, .. } in asked {
            let shape = PoolShape { image, resources };
            if !shapes.contains(&shape) {
                shapes.push(shape);
            }
        }
        // A machine needs its image.
        shapes.retain(|shape| self.installation.image(&shape.image).is_ok());
        let memory: Vec<u32> = shapes.iter().map(|shape| shape.resources.memory_mb).collect();
        let counts = allot(&memory, config.pool.size, memory_mb);
        let there = |shape: &PoolShape| {
            let same = |one: &&PoolMachine| one.image == shape.image && one.resources == shape.resources;
            pool.iter().filter(same).count() as u32
        };
        let allowed = |(shape, count): (PoolShape, u32)| {
            let count = if grows { count } else { count.min(there(&shape)) };
            (shape, count)
        };
        shapes.into_iter().zip(counts).map(allowed).filter(|(_, count)| *count > 0).collect()
    }

    #[expect(clippy::disallowed_methods, reason = "run `in_place`")]
    fn asked(&self) -> Vec<Asked> {
        // The file is only a hint: if it cannot be read, the pool is smaller.
        let path = self.installation.paths.maintenance_dir().join(FILE);
        let text = in_place(|| fs::read(path)).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }
}

/// Adds a request: latest first, each shape once.
fn remembered(mut asked: Vec<Asked>, new: Asked) -> Vec<Asked> {
    asked.retain(|one| (&one.image, one.resources) != (&new.image, new.resources));
    asked.insert(0, new);
    asked.truncate(RECENT);
    asked
}

/// How many machines of each shape fit into the budget: one of each first, then a second of each, and so on.
fn allot(memory_mb: &[u32], size: u32, budget_mb: u32) -> Vec<u32> {
    let mut counts = vec![0; memory_mb.len()];
    let mut left = budget_mb;
    for _ in 0..size {
        for (count, &memory) in counts.iter_mut().zip(memory_mb) {
            if let Some(rest) = left.checked_sub(memory) {
                (left, *count) = (rest, *count + 1);
            }
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::super::adopt::tests::World;
    use super::*;

    #[tokio::test]
    async fn a_daemon_that_starts_leaves_the_processors_to_the_first_request() {
        let world = World::new().await;
        assert!(world.workspaces.demand.times().in_use.is_none());
        let daemon = Workspaces::open_to_stay(&world.workspaces.installation).await.unwrap();
        assert!(daemon.demand.times().in_use.is_some());
    }

    fn asked(image: &str, memory_mb: u32, at: i64) -> Asked {
        let resources = Resources { memory_mb, ..Resources::default() };
        Asked { image: image.parse().unwrap(), resources, at: Timestamp::from_second(at).unwrap() }
    }

    #[test]
    fn the_latest_shapes_are_remembered_each_once() {
        let mut list = Vec::new();
        for (at, memory) in [256, 512, 256, 128, 1024, 2048, 256].into_iter().enumerate() {
            list = remembered(list, asked("debian", memory, at as i64));
        }
        let memory: Vec<u32> = list.iter().map(|one| one.resources.memory_mb).collect();
        assert_eq!(memory, [256, 2048, 1024, 128]);
        assert_eq!(list[0].at, Timestamp::from_second(6).unwrap());
    }

    #[test]
    fn memory_is_shared_out_one_machine_of_each_shape_first() {
        assert_eq!(allot(&[512, 256], 2, 1024), [1, 2]);
        assert_eq!(allot(&[512, 256], 2, 1536), [2, 2]);
        assert_eq!(allot(&[2048, 256], 3, 1024), [0, 3]);
        assert_eq!(allot(&[512], 0, 1024), [0]);
        assert_eq!(allot(&[512], 1000, 1024), [2]);
        assert_eq!(allot(&[], 5, 1024), Vec::<u32>::new());
    }
}
