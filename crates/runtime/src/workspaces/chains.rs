//! Deciding which disks to merge, so that reads do not slow down with every snapshot.
//!
//! Every snapshot and fork of a running machine leaves a frozen disk below the one it writes to. Two rules keep the
//! chains short:
//!
//! * *Merging.* A frozen disk that is referenced only by one other disk is merged into that disk.
//! * *Levels.* Eight consecutive disks of the same level become one: the newest takes over the data of the seven below
//!   it, which stay for the snapshots that refer to them. A disk that took over eight is of the next level, so nothing
//!   is copied more often than there are levels, and a chain of n snapshots has at most 7 · log8(n) disks. Disks that
//!   other machines read through are left alone, so that not every machine gets its own copy. For chains that removals
//!   and forks have left irregular, a limit on the length applies instead.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use agentiso_core::{DiskId, WorkspaceId};
use agentiso_meta::{Disk, MetaError, Read};

use crate::pinned::is_pinned;

/// How many disks become one.
const GROUP: usize = 8;
/// The most frozen disks in a chain, besides the template at its bottom.
pub(super) const LONGEST: usize = 24;
/// The weight of copying a disk that other machines continue to read through.
const SHARED_WEIGHT: u64 = 8;

/// All disks and their references.
#[derive(Clone, Debug, Default)]
pub(super) struct Forest {
    disks: HashMap<DiskId, Disk>,
    children: HashMap<DiskId, Vec<DiskId>>,
    /// Disks that a workspace, a snapshot or a pooled machine refers to.
    named: HashSet<DiskId>,
    writers: HashMap<DiskId, WorkspaceId>,
}

/// A chain of unreferenced disks, and the only disk that reads through them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Merge {
    /// The disk that takes them over.
    pub child: DiskId,
    /// The workspace that writes to that disk, if it is not frozen.
    pub writer: Option<WorkspaceId>,
    /// The disks, newest first.
    pub middles: Vec<DiskId>,
}

/// A frozen disk that takes over the data of the disks below it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Rewrite {
    /// The disk.
    pub disk: DiskId,
    /// The last disk it takes over, whose backing disk becomes its own.
    pub through: DiskId,
    /// How many disks it contains afterwards.
    pub span: u32,
}

/// A frozen disk of a chain, as the rules see it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Link {
    span: u32,
    /// How many machines read through it.
    machines: usize,
}

impl Forest {
    /// Reads all disks.
    pub fn read(read: &Read<'_>) -> Result<Self, MetaError> {
        let mut forest = Self::default();
        for disk in read.disks()? {
            forest.plant(disk);
        }
        for workspace in read.workspaces()? {
            forest.named.insert(workspace.disk);
            forest.writers.insert(workspace.disk, workspace.id);
            forest.named.extend(read.snapshots(workspace.id)?.iter().map(|snapshot| snapshot.disk));
        }
        forest.named.extend(read.pool()?.iter().map(|machine| machine.disk));
        Ok(forest)
    }

    fn plant(&mut self, disk: Disk) {
        if let Some(parent) = disk.parent {
            self.children.entry(parent).or_default().push(disk.id);
        }
        self.disks.insert(disk.id, disk);
    }

    /// How many disks were merged into a disk, itself included.
    pub fn span(&self, disk: DiskId) -> u32 {
        self.disks.get(&disk).map_or(1, |disk| disk.span)
    }

    /// All possible merges, those of frozen disks first.
    pub fn merges(&self) -> Vec<Merge> {
        let mut merges = Vec::new();
        for child in self.disks.values().filter(|disk| !self.is_spare(disk.id)) {
            let middles: Vec<DiskId> =
                self.below(child.id).take_while(|disk| self.is_spare(disk.id)).map(|disk| disk.id).collect();
            let [first, rest @ ..] = &middles[..] else { continue };
            // They can be merged among themselves, whatever the disk above them is.
            if !rest.is_empty() {
                merges.push(Merge { child: *first, writer: None, middles: rest.to_vec() });
            }
            match self.writers.get(&child.id) {
                // A disk that is written to is frozen first, which adds a layer. Only the disk directly below is
                // merged, or there would always be something worth merging.
                Some(&writer) => {
                    merges.push(Merge { child: child.id, writer: Some(writer), middles: vec![*first] });
                }
                None if child.frozen => merges.push(Merge { child: child.id, writer: None, middles }),
                None => {}
            }
        }
        merges.sort_by_key(|merge| (merge.writer.is_some(), merge.child));
        merges
    }

    /// The first chain to shorten.
    pub fn rewrite(&self) -> Option<Rewrite> {
        let mut tips: Vec<DiskId> =
            self.disks.keys().filter(|id| !self.children.contains_key(id)).copied().collect();
        tips.sort();
        let machines = self.machines();
        tips.into_iter().find_map(|tip| self.rewrite_below(tip, &machines))
    }

    fn rewrite_below(&self, tip: DiskId, machines: &HashMap<DiskId, usize>) -> Option<Rewrite> {
        let chain = self.frozen_chain(tip);
        let link =
            |disk: &&Disk| Link { span: disk.span, machines: machines.get(&disk.id).copied().unwrap_or(0) };
        let links: Vec<Link> = chain.iter().map(link).collect();
        let window = next_window(&links)?;
        let span = links[window.clone()].iter().map(|link| link.span).sum();
        Some(Rewrite { disk: chain[window.start].id, through: chain[window.end - 1].id, span })
    }

    /// The frozen disks that a disk reads through, itself included if it is frozen, newest first, without the template.
    fn frozen_chain(&self, tip: DiskId) -> Vec<&Disk> {
        let own = self.disks.get(&tip).into_iter();
        own.chain(self.below(tip)).filter(|disk| disk.frozen && !is_pinned(disk.id)).collect()
    }

    /// How many machines read through each disk.
    fn machines(&self) -> HashMap<DiskId, usize> {
        let mut machines = HashMap::new();
        for &disk in self.writers.keys() {
            for below in self.below(disk) {
                *machines.entry(below.id).or_default() += 1;
            }
        }
        machines
    }

    fn below(&self, disk: DiskId) -> impl Iterator<Item = &Disk> {
        let parent = |disk: &Disk| disk.parent.and_then(|parent| self.disks.get(&parent));
        std::iter::successors(self.disks.get(&disk).and_then(parent), move |disk| parent(disk))
    }

    fn children_of(&self, disk: DiskId) -> &[DiskId] {
        self.children.get(&disk).map_or(&[], Vec::as_slice)
    }

    /// Whether only one other disk refers to it. A template's disk stays for future machines.
    fn is_spare(&self, disk: DiskId) -> bool {
        self.disks.get(&disk).is_some_and(|disk| disk.frozen)
            && !self.named.contains(&disk)
            && self.children_of(disk).len() == 1
            && !is_pinned(disk)
    }
}

/// The disks of a chain, newest first, to merge into one; `None` if the chain is short enough.
fn next_window(links: &[Link]) -> Option<Range<usize>> {
    let windows = || (0..(links.len() + 1).saturating_sub(GROUP)).map(|start| start..start + GROUP).rev();
    let of_one_level = |window: &Range<usize>| {
        let disks = &links[window.clone()];
        disks.iter().all(|link| level(link.span) == level(disks[0].span))
            && disks[1..].iter().all(|link| link.machines <= disks[0].machines)
    };
    if let Some(window) = windows().find(of_one_level) {
        return Some(window);
    }
    let cost = |window: &Range<usize>| -> u64 {
        let disks = &links[window.clone()];
        let weight = |link: &Link| {
            let weight = if link.machines > disks[0].machines { SHARED_WEIGHT } else { 1 };
            weight * u64::from(link.span)
        };
        disks.iter().map(weight).sum()
    };
    // Of equally cheap windows the oldest, which most chains share.
    if links.len() > LONGEST { windows().min_by_key(cost) } else { None }
}

fn level(span: u32) -> u32 {
    span.max(1).ilog(GROUP as u32)
}

#[cfg(test)]
mod tests;
