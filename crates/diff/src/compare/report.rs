//! Passes changes to the caller's visitor.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use super::pair::Inodes;
use crate::change::{Aspect, Change, ChangeKind, Totals};
use crate::error::DiffError;
use crate::ext4::Inode;

/// A comparison with more unreadable paths than this fails.
const MAX_UNREADABLE: u64 = 1000;

/// Why a comparison ends early.
pub(super) enum Halt {
    /// The visitor asked to stop.
    Enough,
    Failed(DiffError),
}

impl From<DiffError> for Halt {
    fn from(error: DiffError) -> Self {
        Self::Failed(error)
    }
}

/// Counts changes and passes them on.
pub(super) struct Report<'r> {
    pub(super) totals: Totals,
    visitor: &'r mut dyn FnMut(Change) -> ControlFlow<()>,
}

impl<'r> Report<'r> {
    pub(super) fn to(visitor: &'r mut dyn FnMut(Change) -> ControlFlow<()>) -> Self {
        Self { totals: Totals::default(), visitor }
    }

    pub(super) fn added(&mut self, path: Vec<u8>, inode: &Inode) -> Result<(), Halt> {
        self.pass(Change { path, kind: ChangeKind::Added, before: None, after: inode.info() })
    }

    pub(super) fn removed(&mut self, path: Vec<u8>, inode: &Inode) -> Result<(), Halt> {
        self.pass(Change { path, kind: ChangeKind::Removed, before: inode.info(), after: None })
    }

    /// Reports a path that exists on both sides, if it differs.
    pub(super) fn compared(
        &mut self,
        path: Vec<u8>,
        inodes: &Inodes,
        aspects: BTreeSet<Aspect>,
    ) -> Result<(), Halt> {
        if aspects.is_empty() {
            return Ok(());
        }
        self.both(path, ChangeKind::Modified { aspects }, inodes)
    }

    pub(super) fn renamed(
        &mut self,
        from: Vec<u8>,
        path: Vec<u8>,
        inodes: &Inodes,
        aspects: BTreeSet<Aspect>,
    ) -> Result<(), Halt> {
        self.both(path, ChangeKind::Renamed { from, aspects }, inodes)
    }

    /// Returns what could be read. Damage is reported as an unreadable path, and the comparison continues.
    pub(super) fn readable<T>(
        &mut self,
        path: impl FnOnce() -> Vec<u8>,
        result: Result<T, DiffError>,
    ) -> Result<Option<T>, Halt> {
        let error = match result {
            Ok(read) => return Ok(Some(read)),
            Err(error) => error,
        };
        match error.damage() {
            Some(reason) if self.totals.unreadable < MAX_UNREADABLE => {
                let kind = ChangeKind::Unreadable { reason };
                self.pass(Change { path: path(), kind, before: None, after: None })?;
                Ok(None)
            }
            _ => Err(error.into()),
        }
    }

    fn both(&mut self, path: Vec<u8>, kind: ChangeKind, inodes: &Inodes) -> Result<(), Halt> {
        self.pass(Change { path, kind, before: inodes.before.info(), after: inodes.after.info() })
    }

    fn pass(&mut self, change: Change) -> Result<(), Halt> {
        self.totals.count(&change);
        match (self.visitor)(change) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Halt::Enough),
        }
    }
}
