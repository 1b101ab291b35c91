//! The order in which volumes with clones can be removed.
//!
//! ZFS does not remove a volume whose snapshots have clones. Promoting the clone reverses the two: the snapshot, and all
//! older ones, then belong to the clone, and the volume depends on it. So one promotion per volume is enough.

use std::collections::{BTreeMap, BTreeSet};

use super::listing::Listing;
use super::name::{HomeId, Snapshot, Volume};

/// One step.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Step {
    /// Promotes a clone: it takes over the snapshot it was cloned from, and all older ones.
    Promote(Volume),
    /// Removes a volume and its snapshots without clones.
    Destroy(Volume),
    /// Removes a snapshot without clones.
    DestroySnapshot(Snapshot),
}

/// The steps to remove `doomed` and unused snapshots. Volumes with clones outside of our dataset are kept.
pub(super) fn plan(listing: &Listing, home: &HomeId, doomed: &BTreeSet<Volume>) -> Vec<Step> {
    let mut plan = Plan { tree: Tree::of(listing), steps: Vec::new() };
    for idle in plan.tree.idle_snapshots_of(home) {
        plan.take(Step::DestroySnapshot(idle));
    }
    let mut doomed: BTreeSet<&Volume> =
        doomed.iter().filter(|volume| plan.tree.may_be_removed(volume)).collect();
    // Volumes without clones first, so that no promotion is wasted.
    while let Some(next) =
        doomed.iter().find(|volume| plan.tree.heirs(volume).is_empty()).or(doomed.first()).copied()
    {
        doomed.remove(next);
        plan.remove(next, &doomed);
    }
    plan.steps
}

struct Plan {
    tree: Tree,
    steps: Vec<Step>,
}

impl Plan {
    fn take(&mut self, step: Step) {
        self.tree.apply(&step);
        self.steps.push(step);
    }

    fn remove(&mut self, volume: &Volume, doomed: &BTreeSet<&Volume>) {
        let heirs = self.tree.heirs(volume);
        // Do not promote a clone that will be removed too.
        let heir = heirs.iter().find(|heir| !doomed.contains(heir)).or(heirs.first());
        if let Some(heir) = heir {
            self.take(Step::Promote(heir.clone()));
        }
        let origin = self.tree.origins.get(volume).cloned().flatten();
        self.take(Step::Destroy(volume.clone()));
        if let Some(origin) = origin
            && self.tree.is_idle(&origin)
        {
            self.take(Step::DestroySnapshot(origin));
        }
    }
}

/// The dependencies between volumes and snapshots.
#[derive(Clone, Debug)]
struct Tree {
    origins: BTreeMap<Volume, Option<Snapshot>>,
    /// The snapshots: when they were taken, and whether they have clones outside of our dataset.
    snapshots: BTreeMap<Snapshot, (u64, bool)>,
}

impl Tree {
    fn of(listing: &Listing) -> Self {
        let origins = listing.volumes.iter().map(|(volume, row)| (volume.clone(), row.origin.clone()));
        let snapshots =
            listing.snapshots.iter().map(|(one, row)| (one.clone(), (row.created, row.has_strangers)));
        Self { origins: origins.collect(), snapshots: snapshots.collect() }
    }

    fn clones_of<'a>(&'a self, snapshot: &'a Snapshot) -> impl Iterator<Item = &'a Volume> {
        self.origins
            .iter()
            .filter(move |(_, origin)| origin.as_ref() == Some(snapshot))
            .map(|(clone, _)| clone)
    }

    fn snapshots_of<'a>(
        &'a self,
        volume: &'a Volume,
    ) -> impl Iterator<Item = (&'a Snapshot, &'a (u64, bool))> {
        self.snapshots.iter().filter(move |(snapshot, _)| snapshot.volume == *volume)
    }

    fn is_idle(&self, snapshot: &Snapshot) -> bool {
        self.snapshots.get(snapshot).is_some_and(|(_, has_strangers)| !has_strangers)
            && self.clones_of(snapshot).next().is_none()
    }

    /// Snapshots that were never cloned: the tag contains the name of the intended clone.
    fn idle_snapshots_of(&self, home: &HomeId) -> Vec<Snapshot> {
        let is_ours = |snapshot: &&Snapshot| {
            snapshot.tag.strip_prefix(home.as_str()).is_some_and(|rest| rest.starts_with('.'))
        };
        self.snapshots.keys().filter(is_ours).filter(|one| self.is_idle(one)).cloned().collect()
    }

    fn may_be_removed(&self, volume: &Volume) -> bool {
        self.origins.contains_key(volume)
            && self.snapshots_of(volume).all(|(_, (_, has_strangers))| !has_strangers)
    }

    /// Clones of the youngest snapshot of a volume that has any.
    fn heirs(&self, volume: &Volume) -> Vec<Volume> {
        let cloned = self.snapshots_of(volume).filter(|(one, _)| self.clones_of(one).next().is_some());
        let youngest = cloned.max_by_key(|(_, (created, _))| *created).map(|(snapshot, _)| snapshot);
        youngest.map(|snapshot| self.clones_of(snapshot).cloned().collect()).unwrap_or_default()
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Promote(heir) => self.promote(heir),
            Step::Destroy(volume) => {
                self.origins.remove(volume);
                self.snapshots.retain(|snapshot, _| snapshot.volume != *volume);
            }
            Step::DestroySnapshot(snapshot) => {
                self.snapshots.remove(snapshot);
            }
        }
    }

    fn promote(&mut self, heir: &Volume) {
        let Some(origin) = self.origins.get(heir).cloned().flatten() else { return };
        let Some(&(limit, _)) = self.snapshots.get(&origin) else { return };
        let moved: Vec<Snapshot> = self
            .snapshots_of(&origin.volume)
            .filter(|(_, (created, _))| *created <= limit)
            .map(|(snapshot, _)| snapshot.clone())
            .collect();
        let above = self.origins.insert(heir.clone(), None).flatten();
        let before = self.origins.insert(origin.volume.clone(), above).flatten();
        self.origins.insert(heir.clone(), before);
        for old in moved {
            let new = Snapshot { volume: heir.clone(), tag: old.tag.clone() };
            if let Some(row) = self.snapshots.remove(&old) {
                self.snapshots.insert(new.clone(), row);
            }
            for above in self.origins.values_mut().filter(|above| above.as_ref() == Some(&old)) {
                *above = Some(new.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests;
