//! Walks two trees in parallel and collects the entries that only one of them has.

use std::collections::HashSet;
use std::rc::Rc;

use super::forest::{Forest, MAX_PATH};
use super::pair::{Inodes, Pair};
use super::report::{Halt, Report};
use crate::change::EntryKind;
use crate::error::{DiffError, Ext4Error};
use crate::ext4::{Inode, Listing, Volume};

/// One side of the walk.
pub(super) struct Side<'p, 'd> {
    pub(super) volume: &'p Volume<'d>,
    pub(super) on_side: fn(Ext4Error) -> DiffError,
    /// Directories visited so far. Each may occur only once, otherwise it is not a tree.
    directories: HashSet<u32>,
    max_entries: u64,
    left: u64,
    alone: Forest,
}

impl Side<'_, '_> {
    /// Lists a directory.
    pub(super) fn list(&mut self, inode: &Inode) -> Result<Listing, DiffError> {
        self.enter(inode)?;
        let listing = crate::ext4::list(self.volume, inode, self.left);
        let listing = listing.map_err(|error| self.explain(error))?;
        self.count(listing.len())?;
        Ok(listing)
    }

    /// Records that a directory is about to be listed.
    fn enter(&mut self, inode: &Inode) -> Result<(), DiffError> {
        if self.directories.insert(inode.number) {
            return Ok(());
        }
        let reason = "a directory occurs more than once in the tree";
        Err((self.on_side)(Ext4Error::Damaged { inode: inode.number, reason }))
    }

    /// Counts the entries of a directory against the limit.
    fn count(&mut self, entries: usize) -> Result<(), DiffError> {
        self.left = self.left.checked_sub(entries as u64).ok_or_else(|| self.too_many())?;
        Ok(())
    }

    /// Replaces the remaining limit in an error with the overall limit.
    fn explain(&self, error: Ext4Error) -> DiffError {
        match error {
            Ext4Error::TooLarge { what: "entries", .. } => self.too_many(),
            error => (self.on_side)(error),
        }
    }

    fn too_many(&self) -> DiffError {
        (self.on_side)(Ext4Error::TooLarge { what: "entries", limit: self.max_entries })
    }
}

/// Both sides of the walk.
pub(super) struct Walk<'p, 'd> {
    pair: &'p Pair<'d>,
    before: Side<'p, 'd>,
    after: Side<'p, 'd>,
}

/// A directory that is being compared.
struct Frame {
    before: Rc<Listing>,
    after: Rc<Listing>,
    next_before: usize,
    next_after: usize,
    path_length: usize,
    /// The directory's index in each forest, once an entry of it was added.
    place_before: Option<u32>,
    place_after: Option<u32>,
}

/// The next entry of a directory.
enum Step {
    Gone(u32),
    New(u32),
    Both(u32, u32),
}

impl<'p, 'd> Walk<'p, 'd> {
    pub(super) fn new(pair: &'p Pair<'d>, max_entries: u64) -> Self {
        let side = |volume, on_side| Side {
            volume,
            on_side,
            directories: HashSet::new(),
            max_entries,
            left: max_entries,
            alone: Forest::default(),
        };
        Self {
            pair,
            before: side(&pair.before, DiffError::Before),
            after: side(&pair.after, DiffError::After),
        }
    }

    /// Compares `path` on both sides and everything below it.
    pub(super) fn from(
        &mut self,
        mut path: Vec<u8>,
        before: Option<u32>,
        after: Option<u32>,
        report: &mut Report<'_>,
    ) -> Result<(), Halt> {
        let (before, after) = match (before, after) {
            (Some(before), Some(after)) => (before, after),
            (gone, new) => {
                let split = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
                let (parent, name) = path.split_at(split);
                let parent = parent.strip_suffix(b"/").unwrap_or(parent);
                for (side, inode) in [(&mut self.before, gone), (&mut self.after, new)] {
                    if let Some(inode) = inode {
                        let place = side.alone.place(parent).map_err(side.on_side)?;
                        side.alone.plant(place, name, inode).map_err(side.on_side)?;
                    }
                }
                return Ok(());
            }
        };
        let mut frames = Vec::new();
        frames.extend(self.both(&mut path, before, after, report)?);
        while let Some(frame) = frames.last_mut() {
            path.truncate(frame.path_length);
            let Some(step) = frame.step(&mut path)? else {
                frames.pop();
                continue;
            };
            let (parent, name) = path.split_at(frame.path_length);
            let name = name.strip_prefix(b"/").unwrap_or(name);
            match step {
                Step::Gone(inode) => alone(&mut self.before, &mut frame.place_before, parent, name, inode)?,
                Step::New(inode) => alone(&mut self.after, &mut frame.place_after, parent, name, inode)?,
                Step::Both(before, after) => {
                    let below = self.both(&mut path, before, after, report)?;
                    frames.extend(below);
                }
            }
        }
        Ok(())
    }

    /// Lists everything below the entries that only one side has.
    pub(super) fn expand(mut self, report: &mut Report<'_>) -> Result<(Forest, Forest), Halt> {
        let mut gone = std::mem::take(&mut self.before.alone);
        let mut new = std::mem::take(&mut self.after.alone);
        gone.grow(&mut self.before, report)?;
        new.grow(&mut self.after, report)?;
        Ok((gone, new))
    }

    /// Compares a path that both sides have. Returns the directory to compare next, if it is one.
    fn both(
        &mut self,
        path: &mut Vec<u8>,
        before: u32,
        after: u32,
        report: &mut Report<'_>,
    ) -> Result<Option<Frame>, Halt> {
        let inodes = self.pair.inodes(before, after);
        let Some(inodes) = report.readable(|| path.clone(), inodes)? else { return Ok(None) };
        if let Some(aspects) = report.readable(|| path.clone(), self.pair.aspects(&inodes))? {
            report.compared(path.clone(), &inodes, aspects)?;
        }
        let is_directory = |inode: &Inode| inode.kind() == Some(EntryKind::Directory);
        match (is_directory(&inodes.before), is_directory(&inodes.after)) {
            (true, true) => {
                let listings = self.listings(&inodes);
                let Some((before, after)) = report.readable(|| path.clone(), listings)? else {
                    return Ok(None);
                };
                Ok(Some(Frame::at(path, before, after)))
            }
            (false, false) => Ok(None),
            (was_directory, _) => {
                // All its former contents were removed, or all its contents are new.
                let (side, inode) = match was_directory {
                    true => (&mut self.before, &inodes.before),
                    false => (&mut self.after, &inodes.after),
                };
                let Some(listing) = report.readable(|| path.clone(), side.list(inode))? else {
                    return Ok(None);
                };
                let mut place = None;
                for (name, inode) in (0..listing.len()).filter_map(|index| listing.get(index)) {
                    alone(side, &mut place, path, name, inode)?;
                }
                Ok(None)
            }
        }
    }

    /// Lists a directory on both sides.
    fn listings(&mut self, inodes: &Inodes) -> Result<(Rc<Listing>, Rc<Listing>), DiffError> {
        self.before.enter(&inodes.before)?;
        self.after.enter(&inodes.after)?;
        let limits = (self.before.left, self.after.left);
        let (before, after) = self.pair.listings(inodes, limits).map_err(|error| match error {
            DiffError::Before(error) => self.before.explain(error),
            DiffError::After(error) => self.after.explain(error),
            error => error,
        })?;
        self.before.count(before.len())?;
        self.after.count(after.len())?;
        Ok((before, after))
    }
}

impl Frame {
    /// Prepares the comparison of a directory. `path` becomes the prefix of its entries' paths.
    fn at(path: &mut Vec<u8>, before: Rc<Listing>, after: Rc<Listing>) -> Self {
        // Only the root path ends in a slash; do not add a second one.
        if path.as_slice() == b"/" {
            path.clear();
        }
        let path_length = path.len();
        let (next_before, next_after, place_before, place_after) = (0, 0, None, None);
        Self { before, after, next_before, next_after, path_length, place_before, place_after }
    }

    /// Takes the next name of either side, in order, and appends it to `path`.
    fn step(&mut self, path: &mut Vec<u8>) -> Result<Option<Step>, DiffError> {
        let (step, name) = match (self.before.get(self.next_before), self.after.get(self.next_after)) {
            (None, None) => return Ok(None),
            (Some((name, before)), Some((other, after))) if name == other => {
                (Step::Both(before, after), name)
            }
            (Some((name, _)), Some((other, after))) if other < name => (Step::New(after), other),
            (Some((name, before)), _) => (Step::Gone(before), name),
            (None, Some((name, after))) => (Step::New(after), name),
        };
        path.push(b'/');
        path.extend_from_slice(name);
        let is_before = matches!(step, Step::Gone(_) | Step::Both(..));
        self.next_before += usize::from(is_before);
        self.next_after += usize::from(matches!(step, Step::New(_) | Step::Both(..)));
        if path.len() > MAX_PATH {
            let error = Ext4Error::TooLarge { what: "bytes in a path", limit: MAX_PATH as u64 };
            return Err(if is_before { DiffError::Before(error) } else { DiffError::After(error) });
        }
        Ok(Some(step))
    }
}

fn alone(
    side: &mut Side<'_, '_>,
    place: &mut Option<u32>,
    parent: &[u8],
    name: &[u8],
    inode: u32,
) -> Result<(), DiffError> {
    let place = match place {
        Some(place) => *place,
        None => *place.insert(side.alone.place(parent).map_err(side.on_side)?),
    };
    side.alone.plant(place, name, inode).map_err(side.on_side)
}
