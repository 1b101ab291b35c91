//! How much expensive work is done at once.
//!
//! Machines that are filled keep a processor busy each, and comparisons of disks hold tables in memory. Beyond what the
//! host has of either, more at once makes nothing faster and everybody else slower, so the rest waits for its turn.

use std::sync::Arc;

use agentiso_core::Failure;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::undertaking::internal;

/// What a comparison of two disks is expected to hold in memory.
const COMPARISON: u64 = 32 << 20;
/// What all of them together may hold.
const COMPARISONS: u64 = 256 << 20;
/// The share of the host's memory they may hold, if that is less.
const SHARE: u64 = 16;

/// Limits on concurrent expensive work, shared by all calls.
#[derive(Clone)]
pub(crate) struct Turns {
    filling: Arc<Semaphore>,
    comparing: Arc<Semaphore>,
}

impl Turns {
    /// Limits for this host.
    pub fn of_host() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let system = rustix::system::sysinfo();
        Self {
            filling: Arc::new(Semaphore::new(2 * processors)),
            comparing: Arc::new(Semaphore::new(comparisons(system.totalram * u64::from(system.mem_unit)))),
        }
    }

    /// Waits for a turn to fill the memory of a new machine.
    pub async fn to_fill(&self) -> Result<OwnedSemaphorePermit, Failure> {
        Arc::clone(&self.filling).acquire_owned().await.map_err(internal)
    }

    /// Waits for a turn to compare disks.
    pub async fn to_compare(&self) -> Result<OwnedSemaphorePermit, Failure> {
        Arc::clone(&self.comparing).acquire_owned().await.map_err(internal)
    }
}

/// How many comparisons may run at once on a host with this much memory.
fn comparisons(memory: u64) -> usize {
    let budget = (memory / SHARE).min(COMPARISONS);
    usize::try_from(budget / COMPARISON).unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_are_bounded_by_memory() {
        assert_eq!(comparisons(64 << 30), 8);
        assert_eq!(comparisons(1 << 30), 2);
        assert_eq!(comparisons(128 << 20), 1);
    }

    #[tokio::test]
    async fn a_turn_comes_when_another_ends() {
        let turns = Turns { filling: Arc::new(Semaphore::new(1)), comparing: Arc::new(Semaphore::new(1)) };
        let first = turns.to_compare().await.unwrap();
        let other = turns.clone();
        let mut second = tokio::spawn(async move { other.to_compare().await.is_ok() });
        let waits = std::future::poll_fn(|context| {
            std::task::Poll::Ready(std::pin::Pin::new(&mut second).poll(context).is_pending())
        });
        assert!(waits.await);
        // Filling has its own turns.
        drop(turns.to_fill().await.unwrap());
        drop(first);
        assert!(second.await.unwrap());
    }
}
