//! The open flows of all machines together. Each has a descriptor of the router, of which there is a limited number.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rustix::process::{Resource, getrlimit};

/// Descriptors that are for something else: clients, and questions to the host's resolvers.
const RESERVED: usize = 512;

/// How many flows are open.
#[derive(Debug, Default)]
pub(crate) struct Places {
    open: AtomicUsize,
}

impl Places {
    /// Takes a place for a machine that has `own` of them; it is taken even if there is no room.
    pub(crate) fn take(&self, own: usize, machines: usize) -> bool {
        let all = self.open.fetch_add(1, Relaxed);
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        has_room(all, own, machines, usize::try_from(descriptors).unwrap_or(usize::MAX))
    }

    /// Gives a place back.
    pub(crate) fn give_back(&self) {
        self.open.fetch_sub(1, Relaxed);
    }
}

/// Half of the places are for whoever comes first. The others are divided among the machines, so that none can keep
/// another from opening connections.
fn has_room(all: usize, own: usize, machines: usize, descriptors: usize) -> bool {
    let half = descriptors.saturating_sub(RESERVED + machines) / 2;
    all < half || own < half / machines.max(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn descriptors_suffice_and_every_machine_has_its_share(
            attempts in proptest::collection::vec(0usize..4, 0..600), descriptors in 600usize..900
        ) {
            let mut open = [0; 4];
            for machine in attempts {
                let all = open.iter().sum();
                if has_room(all, open[machine], open.len(), descriptors) {
                    open[machine] += 1;
                } else {
                    prop_assert!(open[machine] >= (descriptors - RESERVED - 4) / 8, "refused within its share");
                }
            }
            prop_assert!(open.iter().sum::<usize>() + RESERVED + 4 <= descriptors);
        }
    }
}
