//! Chains under snapshots, forks and removals, without a byte of disk.

use proptest::prelude::*;
use uuid::Uuid;

use super::*;

/// A workspace's disks, kept by the rules.
struct World {
    forest: Forest,
    /// The disks that workspaces write to.
    writers: Vec<DiskId>,
    snapshots: Vec<DiskId>,
    /// Levels that were copied.
    copied: u64,
    made: u128,
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            forest: Forest::default(),
            writers: Vec::new(),
            snapshots: Vec::new(),
            copied: 0,
            made: 0,
        };
        let template = DiskId::from_uuid(uuid::Builder::from_custom_bytes([7; 16]).into_uuid());
        world.forest.plant(Disk { id: template, parent: None, frozen: true, span: 1, workspace: None });
        let writer = world.write_on(template);
        world.writers.push(writer);
        world
    }

    fn write_on(&mut self, parent: DiskId) -> DiskId {
        self.made += 1;
        let id = DiskId::from_uuid(Uuid::from_u128(self.made));
        self.forest.plant(Disk { id, parent: Some(parent), frozen: false, span: 1, workspace: None });
        self.forest.named.insert(id);
        self.forest.writers.insert(id, WorkspaceId::from_uuid(Uuid::from_u128(self.made)));
        id
    }

    fn freeze(&mut self, which: usize) -> DiskId {
        let which = which % self.writers.len();
        let frozen = self.writers[which];
        self.writers[which] = self.write_on(frozen);
        self.forest.disks.get_mut(&frozen).unwrap().frozen = true;
        self.forest.named.remove(&frozen);
        self.forest.writers.remove(&frozen);
        frozen
    }

    fn snapshot(&mut self, which: usize) {
        let frozen = self.freeze(which);
        self.forest.named.insert(frozen);
        self.snapshots.push(frozen);
    }

    fn fork(&mut self, which: usize) {
        let frozen = self.freeze(which);
        let fork = self.write_on(frozen);
        self.writers.push(fork);
    }

    fn remove_snapshot(&mut self, which: usize) {
        if !self.snapshots.is_empty() {
            let gone = self.snapshots.swap_remove(which % self.snapshots.len());
            self.forest.named.remove(&gone);
        }
    }

    fn stand(&mut self, disk: DiskId, through: DiskId, span: u32) {
        let onto = self.forest.disks[&through].parent;
        let old = self.forest.disks[&disk].parent.unwrap();
        self.forest.children.get_mut(&old).unwrap().retain(|child| *child != disk);
        if let Some(onto) = onto {
            self.forest.children.entry(onto).or_default().push(disk);
        }
        let row = self.forest.disks.get_mut(&disk).unwrap();
        (row.parent, row.span) = (onto, span);
        self.copied += u64::from(span);
        self.remove_unneeded();
    }

    fn remove_unneeded(&mut self) {
        loop {
            self.forest.children.retain(|_, children| !children.is_empty());
            let unneeded = |disk: &&Disk| {
                !self.forest.children.contains_key(&disk.id) && !self.forest.named.contains(&disk.id)
            };
            let Some(gone) = self.forest.disks.values().find(unneeded).cloned() else { return };
            self.forest.disks.remove(&gone.id);
            if let Some(parent) = gone.parent {
                self.forest.children.get_mut(&parent).unwrap().retain(|child| *child != gone.id);
            }
        }
    }

    /// What maintenance does; `merging` if every merge is worth it.
    fn maintain(&mut self, merging: bool) {
        self.remove_unneeded();
        let mut steps = 0;
        loop {
            steps += 1;
            assert!(steps < 10_000, "it never ends");
            let frozen = |merge: &Merge| merge.writer.is_none();
            if merging && let Some(merge) = self.forest.merges().into_iter().find(frozen) {
                let span = merge.middles.iter().chain([&merge.child]).map(|disk| self.forest.span(*disk));
                let span = span.sum();
                self.stand(merge.child, *merge.middles.last().unwrap(), span);
            } else if let Some(rewrite) = self.forest.rewrite() {
                self.stand(rewrite.disk, rewrite.through, rewrite.span);
            } else {
                return;
            }
        }
    }

    fn longest(&self) -> usize {
        self.forest.disks.keys().map(|disk| self.forest.frozen_chain(*disk).len()).max().unwrap()
    }
}

#[test]
fn a_thousand_snapshots_make_no_long_chain_and_are_copied_no_more_often_than_there_are_levels() {
    let mut world = World::new();
    for _ in 0..1000 {
        world.snapshot(0);
        world.maintain(true);
        assert!(world.longest() <= LONGEST, "{}", world.longest());
    }
    assert_eq!(world.snapshots.len(), 1000);
    assert!(world.copied <= 3 * 1000, "{} levels copied", world.copied);
}

#[test]
fn removed_snapshots_occupy_no_disks() {
    let mut world = World::new();
    for _ in 0..200 {
        world.snapshot(0);
        world.remove_snapshot(0);
        world.maintain(true);
    }
    // The template, what was merged, and what is written to.
    assert_eq!(world.forest.disks.len(), 3);
}

#[test]
fn a_template_is_never_merged_into_its_only_machine() {
    let world = World::new();
    assert_eq!(world.forest.merges(), []);
    assert_eq!(world.forest.rewrite(), None);
}

#[test]
fn what_only_a_writable_disk_needs_names_its_writer() {
    let mut world = World::new();
    let (template, below) = (world.forest.disks[&world.writers[0]].parent, world.writers[0]);
    world.snapshot(0);
    world.remove_snapshot(0);
    let [merge] = &world.forest.merges()[..] else { panic!("{:?}", world.forest.merges()) };
    assert_eq!((merge.child, &merge.middles[..]), (world.writers[0], &[below][..]));
    assert!(merge.writer.is_some());
    assert_eq!(world.forest.disks[&below].parent, template);
}

#[test]
fn a_disk_frozen_to_be_merged_takes_over_what_is_below_it_and_is_not_frozen_for_that_again() {
    let mut world = World::new();
    let below = world.freeze(0);
    let frozen = world.freeze(0);
    let merges = world.forest.merges();
    assert_eq!(merges[0], Merge { child: frozen, writer: None, middles: vec![below] });
    assert_eq!((merges[1].child, &merges[1].middles[..]), (world.writers[0], &[frozen][..]));
    assert_eq!(merges.len(), 2);
}

#[test]
fn one_snapshot_in_each_of_many_forks_copies_nothing_of_what_they_share() {
    let mut world = World::new();
    for _ in 0..6 {
        world.snapshot(0);
    }
    for _ in 0..10 {
        world.fork(0);
    }
    for fork in 1..world.writers.len() {
        world.snapshot(fork);
    }
    world.maintain(true);
    assert_eq!(world.copied, 0);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Snapshot(usize),
    Fork(usize),
    RemoveSnapshot(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => any::<usize>().prop_map(Step::Snapshot),
        1 => any::<usize>().prop_map(Step::Fork),
        3 => any::<usize>().prop_map(Step::RemoveSnapshot),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_history_of_snapshots_forks_and_removals_makes_a_long_chain(
        steps in proptest::collection::vec(step(), 1..200),
        merging: bool,
    ) {
        let mut world = World::new();
        for step in steps {
            match step {
                Step::Snapshot(which) => world.snapshot(which),
                Step::Fork(which) => world.fork(which),
                Step::RemoveSnapshot(which) => world.remove_snapshot(which),
            }
            world.maintain(merging);
            prop_assert!(world.longest() <= LONGEST);
            prop_assert!(world.snapshots.iter().all(|disk| world.forest.disks.contains_key(disk)));
        }
    }

    #[test]
    fn a_window_is_eight_disks_of_the_chain(
        disks in proptest::collection::vec((1u32..600, 0usize..4), 0..60),
    ) {
        let links: Vec<Link> = disks.into_iter().map(|(span, machines)| Link { span, machines }).collect();
        match next_window(&links) {
            Some(window) => prop_assert!(window.len() == GROUP && window.end <= links.len()),
            None => prop_assert!(links.len() <= LONGEST),
        }
    }
}
