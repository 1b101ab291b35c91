//! Separates renamed entries from removed and added ones.
//!
//! An inode number alone does not identify a file, because it is reused after a deletion. Together with the generation
//! and the creation time, which are set once when the inode is created, it does, if the file systems have a common
//! origin.

use std::collections::HashMap;

use super::forest::Forest;
use super::pair::{Inodes, Pair};
use super::report::{Halt, Report};
use crate::change::EntryKind;
use crate::error::DiffError;
use crate::ext4::{Identity, Inode};

/// Reports everything in the two forests.
pub(super) fn report(
    pair: &Pair<'_>,
    gone: &Forest,
    new: &Forest,
    report: &mut Report<'_>,
) -> Result<(), Halt> {
    let mut matching = Matching {
        pair,
        gone,
        new,
        by_inode: HashMap::new(),
        is_gone_settled: vec![false; gone.len()],
        is_new_settled: vec![false; new.len()],
        report,
    };
    if pair.is_related && gone.len() > 0 && new.len() > 0 {
        matching.index();
        // Directories first: an entry that is still in a renamed directory was not renamed itself.
        matching.settle(|kind| kind == EntryKind::Directory)?;
        matching.settle(|kind| kind != EntryKind::Directory)?;
    }
    matching.rest()
}

struct Matching<'m, 'd, 'r> {
    pair: &'m Pair<'d>,
    gone: &'m Forest,
    new: &'m Forest,
    /// Removed entries by inode; several if the file had several names.
    by_inode: HashMap<u32, Vec<u32>>,
    is_gone_settled: Vec<bool>,
    is_new_settled: Vec<bool>,
    report: &'m mut Report<'r>,
}

impl Matching<'_, '_, '_> {
    fn index(&mut self) {
        for node in (0..self.gone.len()).rev() {
            self.by_inode.entry(self.gone.inode(node)).or_default().push(node as u32);
        }
    }

    /// Finds renames among the added entries of some kinds. Parents precede children in a forest.
    fn settle(&mut self, is_wanted: impl Fn(EntryKind) -> bool) -> Result<(), Halt> {
        for new in 0..self.new.len() {
            if is_set(&self.is_new_settled, new) || !self.by_inode.contains_key(&self.new.inode(new)) {
                continue;
            }
            // Damage is reported at the end, by `rest`.
            let Some(inode) = unless_damaged(self.after(new))? else { continue };
            let (Some(identity), Some(true)) = (inode.identity(), inode.kind().map(&is_wanted)) else {
                continue;
            };
            if let Some(old) = self.find(inode.number, identity)? {
                self.renamed(old, new)?;
            }
        }
        Ok(())
    }

    /// The first removed entry that was the same inode.
    fn find(&mut self, number: u32, identity: Identity) -> Result<Option<usize>, Halt> {
        // Dropping those already matched keeps the search short.
        if let Some(nodes) = self.by_inode.get_mut(&number) {
            while nodes.last().is_some_and(|node| is_set(&self.is_gone_settled, *node as usize)) {
                nodes.pop();
            }
        }
        let Some(old) = self.by_inode.get(&number).and_then(|nodes| nodes.last()) else { return Ok(None) };
        let Some(before) = unless_damaged(self.before(*old as usize))? else { return Ok(None) };
        let is_same = before.identity() == Some(identity);
        Ok(is_same.then_some(*old as usize))
    }

    fn renamed(&mut self, old: usize, new: usize) -> Result<(), Halt> {
        let inodes = self.inodes(old, new)?;
        let aspects = self.report.readable(|| self.new.path(new), self.pair.aspects(&inodes))?;
        if let Some(aspects) = aspects {
            self.report.renamed(self.gone.path(old), self.new.path(new), &inodes, aspects)?;
        }
        self.below(old, new)
    }

    /// Compares the children of two directories, if they are directories, by name.
    fn below(&mut self, old: usize, new: usize) -> Result<(), Halt> {
        let mut pairs = vec![(old, new)];
        while let Some((old, new)) = pairs.pop() {
            set(&mut self.is_gone_settled, old);
            set(&mut self.is_new_settled, new);
            let (mut olds, mut news) = (self.gone.children(old), self.new.children(new));
            let (mut old, mut new) = (olds.next(), news.next());
            while let (Some(was), Some(is)) = (old, new) {
                match self.gone.name(was).cmp(self.new.name(is)) {
                    std::cmp::Ordering::Less => old = olds.next(),
                    std::cmp::Ordering::Greater => new = news.next(),
                    std::cmp::Ordering::Equal => {
                        if !is_set(&self.is_gone_settled, was) && !is_set(&self.is_new_settled, is) {
                            self.compared(was, is)?;
                            pairs.push((was, is));
                        }
                        (old, new) = (olds.next(), news.next());
                    }
                }
            }
        }
        Ok(())
    }

    /// Compares two entries of the same name.
    fn compared(&mut self, old: usize, new: usize) -> Result<(), Halt> {
        let path = || self.new.path(new);
        let Some(inodes) =
            self.report.readable(path, self.pair.inodes(self.gone.inode(old), self.new.inode(new)))?
        else {
            return Ok(());
        };
        match self.report.readable(path, self.pair.aspects(&inodes))? {
            Some(aspects) => self.report.compared(path(), &inodes, aspects),
            None => Ok(()),
        }
    }

    fn rest(self) -> Result<(), Halt> {
        for old in (0..self.gone.len()).filter(|old| !is_set(&self.is_gone_settled, *old)) {
            let inode = self.before(old);
            if let Some(inode) = self.report.readable(|| self.gone.path(old), inode)? {
                self.report.removed(self.gone.path(old), &inode)?;
            }
        }
        for new in (0..self.new.len()).filter(|new| !is_set(&self.is_new_settled, *new)) {
            let inode = self.after(new);
            if let Some(inode) = self.report.readable(|| self.new.path(new), inode)? {
                self.report.added(self.new.path(new), &inode)?;
            }
        }
        Ok(())
    }

    fn inodes(&self, old: usize, new: usize) -> Result<Inodes, DiffError> {
        self.pair.inodes(self.gone.inode(old), self.new.inode(new))
    }

    fn before(&self, node: usize) -> Result<Inode, DiffError> {
        self.pair.before.inode(self.gone.inode(node)).map_err(DiffError::Before)
    }

    fn after(&self, node: usize) -> Result<Inode, DiffError> {
        self.pair.after.inode(self.new.inode(node)).map_err(DiffError::After)
    }
}

/// Converts damage of the file system to `None`.
fn unless_damaged<T>(result: Result<T, DiffError>) -> Result<Option<T>, DiffError> {
    match result {
        Ok(read) => Ok(Some(read)),
        Err(error) if error.damage().is_some() => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_set(flags: &[bool], at: usize) -> bool {
    flags.get(at).copied().unwrap_or(true)
}

fn set(flags: &mut [bool], at: usize) {
    if let Some(flag) = flags.get_mut(at) {
        *flag = true;
    }
}
