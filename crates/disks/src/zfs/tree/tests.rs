use proptest::prelude::*;

use super::super::listing::{SnapshotRow, VolumeRow};
use agentiso_core::ports::Dataset;

use super::super::name::Volumes;
use super::*;

const HOME: &str = "0123456789abcdef";

fn home() -> HomeId {
    HomeId::parse(HOME).unwrap()
}

fn volume(number: usize) -> Volume {
    Dataset::parse("tank/a").unwrap().volume(&home(), &format!("v{number}")).unwrap()
}

/// A pool as ZFS would have it: it refuses what ZFS refuses. Written apart from what is tested.
#[derive(Clone, Debug, Default)]
struct Pool {
    /// Each volume with the number of the snapshot it was cloned from.
    volumes: BTreeMap<usize, Option<usize>>,
    /// Each snapshot with the volume it is of. Their numbers are their ages.
    snapshots: BTreeMap<usize, usize>,
    strangers: BTreeSet<usize>,
    next: usize,
}

impl Pool {
    fn number(&mut self) -> usize {
        self.next += 1;
        self.next
    }

    fn create(&mut self) -> usize {
        let number = self.number();
        self.volumes.insert(number, None);
        number
    }

    fn snapshot(&mut self, of: usize) -> usize {
        let number = self.number();
        self.snapshots.insert(number, of);
        number
    }

    fn clone_of(&mut self, source: usize) -> usize {
        let snapshot = self.snapshot(source);
        let number = self.number();
        self.volumes.insert(number, Some(snapshot));
        number
    }

    fn clones(&self, snapshot: usize) -> usize {
        self.volumes.values().filter(|origin| **origin == Some(snapshot)).count()
            + usize::from(self.strangers.contains(&snapshot))
    }

    fn idle(&self) -> Vec<usize> {
        self.snapshots.keys().copied().filter(|&one| self.clones(one) == 0).collect()
    }

    fn named(&self, snapshot: usize) -> Snapshot {
        Snapshot { volume: volume(self.snapshots[&snapshot]), tag: format!("{HOME}.{snapshot}") }
    }

    fn listing(&self) -> Listing {
        let row = |origin: &Option<usize>| VolumeRow {
            origin: origin.map(|one| self.named(one)),
            ..VolumeRow::default()
        };
        let volumes = self.volumes.iter().map(|(number, origin)| (volume(*number), row(origin))).collect();
        let row = |one: usize| SnapshotRow {
            created: one as u64,
            has_strangers: self.strangers.contains(&one),
            own: 0,
        };
        Listing {
            volumes,
            snapshots: self.snapshots.keys().map(|one| (self.named(*one), row(*one))).collect(),
        }
    }

    fn find(&self, wanted: &Volume) -> usize {
        *self.volumes.keys().find(|number| volume(**number) == *wanted).expect("a volume that is there")
    }

    /// Does what ZFS would do, and panics where it would refuse.
    fn perform(&mut self, step: &Step) {
        match step {
            Step::Promote(clone) => {
                let clone = self.find(clone);
                let origin = self.volumes[&clone].expect("only a clone can be promoted");
                let parent = self.snapshots[&origin];
                for (_, owner) in
                    self.snapshots.iter_mut().filter(|(age, owner)| **age <= origin && **owner == parent)
                {
                    *owner = clone;
                }
                let above = self.volumes.insert(parent, Some(origin)).expect("a parent");
                self.volumes.insert(clone, above);
            }
            Step::Destroy(gone) => {
                let gone = self.find(gone);
                let own: Vec<usize> =
                    self.snapshots.iter().filter(|(_, of)| **of == gone).map(|(one, _)| *one).collect();
                assert!(own.iter().all(|&one| self.clones(one) == 0), "{gone} has clones");
                self.snapshots.retain(|_, of| *of != gone);
                self.volumes.remove(&gone);
            }
            Step::DestroySnapshot(gone) => {
                let found = self.snapshots.keys().copied().find(|&one| self.named(one) == *gone);
                let found = found.expect("a snapshot that is there");
                assert_eq!(self.clones(found), 0, "the snapshot {found} has clones");
                self.snapshots.remove(&found);
            }
        }
    }

    /// What a volume's data hangs on, each of which must be there.
    fn check_footing(&self, number: usize) {
        let mut seen = BTreeSet::new();
        let mut at = number;
        while let Some(origin) = self.volumes[&at] {
            assert!(seen.insert(at), "{number} stands on itself");
            at = *self.snapshots.get(&origin).expect("the snapshot under a volume");
        }
    }

    fn remove(&mut self, doomed: &[usize]) -> Vec<Step> {
        let doomed = doomed.iter().map(|number| volume(*number)).collect();
        let steps = plan(&self.listing(), &home(), &doomed);
        for step in &steps {
            self.perform(step);
        }
        steps
    }
}

#[test]
fn a_source_goes_while_its_fork_lives_by_one_promotion() {
    let mut pool = Pool::default();
    let source = pool.create();
    let frozen = pool.clone_of(source);
    let fork = pool.clone_of(frozen);
    let steps = pool.remove(&[source, frozen]);
    assert_eq!(pool.volumes.keys().collect::<Vec<_>>(), [&fork]);
    assert!(pool.snapshots.is_empty(), "{pool:?}");
    assert_eq!(steps.iter().filter(|step| matches!(step, Step::Promote(_))).count(), 2);
}

#[test]
fn a_volume_without_clones_is_removed_without_promotion() {
    let mut pool = Pool::default();
    let base = pool.create();
    let all: Vec<usize> = (0..3).map(|_| pool.clone_of(base)).collect();
    let steps = pool.remove(&all);
    assert!(steps.iter().all(|step| !matches!(step, Step::Promote(_))), "{steps:?}");
    assert_eq!((pool.volumes.len(), pool.snapshots.len()), (1, 0));
}

#[test]
fn a_volume_that_a_stranger_was_cloned_from_stays() {
    let mut pool = Pool::default();
    let (kept, gone) = (pool.create(), pool.create());
    let snapshot = pool.snapshot(kept);
    pool.strangers.insert(snapshot);
    pool.remove(&[kept, gone]);
    assert_eq!(pool.volumes.keys().collect::<Vec<_>>(), [&kept]);
    assert_eq!(pool.snapshots.len(), 1);
}

#[test]
fn snapshots_that_another_installation_is_about_to_clone_stay() {
    let mut pool = Pool::default();
    let source = pool.create();
    pool.snapshot(source);
    let other = HomeId::parse("ffffffffffffffff").unwrap();
    assert_eq!(plan(&pool.listing(), &other, &BTreeSet::new()), []);
    assert_eq!(plan(&pool.listing(), &home(), &BTreeSet::new()).len(), 1);
}

proptest! {
    #[test]
    fn any_volumes_of_any_forest_can_be_removed(
        sources in proptest::collection::vec(any::<prop::sample::Index>(), 1..24),
        doomed in proptest::collection::vec(any::<bool>(), 24),
        idle in proptest::collection::vec(any::<prop::sample::Index>(), 0..4),
        rounds in 1..4_usize,
    ) {
        let mut pool = Pool::default();
        let mut made = vec![pool.create()];
        for source in sources {
            // Now and then one stands alone, as a base does.
            let number = match source.index(made.len() + 1) {
                0 => pool.create(),
                index => pool.clone_of(made[index - 1]),
            };
            made.push(number);
        }
        for of in idle {
            pool.snapshot(made[of.index(made.len())]);
        }
        let mut left: BTreeSet<usize> = made.iter().copied().collect();
        for round in 0..rounds {
            let chosen = |index: usize| doomed[index % doomed.len()] && index % rounds == round;
            let gone: Vec<usize> = made.iter().enumerate().filter(|(index, _)| chosen(*index)).map(|(_, one)| *one).collect();
            pool.remove(&gone);
            left.retain(|one| !gone.contains(one));
            prop_assert_eq!(pool.volumes.keys().copied().collect::<BTreeSet<_>>(), left.clone());
            prop_assert_eq!(pool.idle(), Vec::<usize>::new());
            for number in &left {
                pool.check_footing(*number);
            }
        }
    }
}
