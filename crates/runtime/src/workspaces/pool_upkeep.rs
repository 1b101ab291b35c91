//! Filling the pool, and removing machines from it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use agentiso_core::Failure;
use agentiso_core::progress::Progress;
use agentiso_meta::PoolMachine;

use super::intent::Intent;
use super::machine::MachineState;
use super::maintain::Maintained;
use super::pool::PoolShape;
use super::pool_budget::Allowed;
use super::strays::end;
use super::{PoolState, Workspaces, undertaking};
use crate::start::image_identity;

/// How long filling the pool waits for other operations.
const GIVE_WAY: Duration = Duration::from_secs(3);
const RETRY: Duration = Duration::from_millis(25);
/// How long filling the pool pauses after a failure: doubled each time, up to the second value.
const FIRST_REST: Duration = Duration::from_secs(10);
const LONGEST_REST: Duration = Duration::from_secs(600);

/// The pause after a failure to fill the pool: its cause is likely to last.
#[derive(Clone, Debug, Default)]
pub(crate) struct PoolRest(Arc<Mutex<Option<Resting>>>);

#[derive(Clone, Debug)]
struct Resting {
    until: Instant,
    length: Duration,
    reason: String,
}

impl PoolRest {
    fn lock(&self) -> MutexGuard<'_, Option<Resting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a pause, or a longer one than the last.
    fn begin(&self, reason: String, now: Instant) {
        let mut resting = self.lock();
        let length = resting.as_ref().map_or(FIRST_REST, |last| (last.length * 2).min(LONGEST_REST));
        *resting = Some(Resting { until: now + length, length, reason });
    }

    fn end(&self) {
        *self.lock() = None;
    }

    /// The reason of the current pause; `None` if there is none.
    fn reason(&self, now: Instant) -> Option<String> {
        self.lock().as_ref().filter(|resting| now < resting.until).map(|resting| resting.reason.clone())
    }
}

/// A shape of which machines are kept ready.
struct Kept {
    shape: PoolShape,
    key: String,
    count: usize,
}

impl Workspaces {
    /// Whether the pool lacks machines or has too many. A quick check that starts nothing.
    pub(super) fn pool_needs_upkeep(&self) -> Result<bool, Failure> {
        let pool = self.meta.read(|read| read.pool())?;
        if self.pool_budget().allowed == Allowed::Nothing {
            return Ok(!pool.is_empty());
        }
        if self.pool_rest.reason(Instant::now()).is_some() {
            return Ok(false);
        }
        let mut wanted = 0;
        for (shape, count) in self.wanted_shapes(&pool) {
            let identity = image_identity(&self.installation.image(&shape.image)?);
            let fits = |one: &&PoolMachine| {
                (&one.image, one.resources) == (&shape.image, shape.resources)
                    && one.image_identity == identity
                    && is_alive(one)
            };
            let have = pool.iter().filter(fits).count();
            if have != count as usize {
                return Ok(true);
            }
            wanted += have;
        }
        Ok(wanted != pool.len())
    }

    /// The state of the pool.
    pub fn pool_state(&self) -> Result<PoolState, Failure> {
        let pool = self.meta.read(|read| read.pool())?;
        let wanted = self.wanted_shapes(&pool).iter().map(|(_, count)| *count as usize).sum();
        let budget = self.pool_budget();
        let why = if budget.allowed == Allowed::Nothing {
            budget.why
        } else if let Some(reason) = self.pool_rest.reason(Instant::now()) {
            format!("the last one could not be made: {reason}")
        } else if wanted == 0 {
            "filled when an agent connects or a workspace is created".to_owned()
        } else {
            budget.why
        };
        Ok(PoolState { ready: pool.len(), wanted, why })
    }

    /// Ends all pooled machines.
    pub fn empty_pool(&self) -> Result<(), Failure> {
        for machine in self.meta.read(|read| read.pool())? {
            self.dismiss(&machine)?;
        }
        Ok(())
    }

    /// Ends surplus machines and starts missing ones, one at a time.
    pub(super) async fn keep_pool(
        &self,
        done: &mut Maintained,
        progress: &Arc<dyn Progress>,
    ) -> Result<(), Failure> {
        let resting = self.pool_rest.reason(Instant::now()).is_some();
        if resting && self.pool_budget().allowed != Allowed::Nothing {
            return Ok(());
        }
        let kept = self.fill_pool(done, progress).await;
        match &kept {
            Ok(()) => self.pool_rest.end(),
            Err(failure) => self.pool_rest.begin(failure.message().to_owned(), Instant::now()),
        }
        kept
    }

    async fn fill_pool(&self, done: &mut Maintained, progress: &Arc<dyn Progress>) -> Result<(), Failure> {
        let pool = self.meta.read(|read| read.pool())?;
        let mut kept = Vec::new();
        for (shape, count) in self.wanted_shapes(&pool) {
            let image = self.installation.image(&shape.image)?;
            let with = self.installation.ingredients(&image, &shape.resources, progress).await?;
            kept.push(Kept { key: self.shape_key(&with), shape, count: count as usize });
        }
        for unwanted in unwanted(&self.meta.read(|read| read.pool())?, &kept) {
            self.dismiss(&unwanted)?;
            done.dismissed += 1;
        }
        for Kept { shape, key, count } in &kept {
            // A create that takes one in the meantime asks for another round, so this loop is finite.
            let have = self.meta.read(|read| read.pool())?.iter().filter(|one| one.shape == *key).count();
            for _ in have..*count {
                self.give_way().await?;
                self.add_to_pool(shape, progress).await?;
                done.made_ready += 1;
            }
        }
        Ok(())
    }

    /// Ends a pooled machine. It is removed from the pool first, so that nobody can take it.
    fn dismiss(&self, machine: &PoolMachine) -> Result<(), Failure> {
        let state = MachineState::from_value(&machine.machine)?;
        let intent = Intent { disks: vec![machine.disk], machine_dirs: vec![state.dir], ..Intent::default() };
        let value = serde_json::to_value(&intent).map_err(undertaking::internal)?;
        let taken = self.meta.write(|tx| {
            if !tx.pool()?.iter().any(|one| one.id == machine.id) {
                return Ok(None);
            }
            tx.remove_pool_machine(machine.id)?;
            tx.begin("dismiss", Some(machine.id), &value).map(Some)
        })?;
        let Some(operation) = taken else { return Ok(()) };
        let undertaking = self.resume_undertaking(operation, intent);
        if state.record.is_alive() {
            end(state.record.pid)
                .map_err(|error| self.installation.io("end a machine of the pool", error))?;
        }
        let dir = self.installation.paths.workspaces_dir();
        state
            .dir
            .remove(&dir)
            .map_err(|error| self.installation.io("remove a machine's directory", error))?;
        // Its disk is unreferenced now, and removed by the next sweep.
        undertaking.finish(|_| Ok(()))
    }

    /// Waits for other operations and for the first commands of a new workspace, because clients wait for those.
    async fn give_way(&self) -> Result<(), Failure> {
        let deadline = Instant::now() + GIVE_WAY;
        while Instant::now() < deadline {
            let operations = self.meta.read(|read| read.operations())?;
            if !self.demand.is_fresh() && !operations.iter().any(|one| one.owner.is_alive()) {
                return Ok(());
            }
            tokio::time::sleep(RETRY).await;
        }
        Ok(())
    }
}

/// The machines that are dead, of an unwanted shape, or more than wanted.
fn unwanted(pool: &[PoolMachine], kept: &[Kept]) -> Vec<PoolMachine> {
    let mut room: Vec<(&str, usize)> = kept.iter().map(|one| (one.key.as_str(), one.count)).collect();
    let has_place = |one: &&PoolMachine| {
        let Some((_, left)) = room.iter_mut().find(|(key, left)| *key == one.shape && *left > 0) else {
            return true;
        };
        if !is_alive(one) {
            return true;
        }
        *left -= 1;
        false
    };
    pool.iter().filter(has_place).cloned().collect()
}

fn is_alive(machine: &PoolMachine) -> bool {
    MachineState::from_value(&machine.machine).is_ok_and(|state| state.record.is_alive())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_after_a_failure_grows_and_ends_with_a_success() {
        let (rest, start) = (PoolRest::default(), Instant::now());
        assert_eq!(rest.reason(start), None);
        let mut now = start;
        for seconds in [10, 20, 40, 80, 160, 320, 600, 600] {
            rest.begin("no room".to_owned(), now);
            let last = now + Duration::from_secs(seconds) - Duration::from_millis(1);
            assert_eq!(rest.reason(last).as_deref(), Some("no room"), "{seconds}");
            now += Duration::from_secs(seconds);
            assert_eq!(rest.reason(now), None, "{seconds}");
        }
        rest.end();
        rest.begin("again".to_owned(), now);
        assert_eq!(rest.reason(now + FIRST_REST), None);
    }
}
