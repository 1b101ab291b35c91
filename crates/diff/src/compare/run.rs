//! Entry points of a comparison.

use std::ops::ControlFlow;

use agentiso_core::ports::DiskView;

use super::pair::Pair;
use super::renames;
use super::report::{Halt, Report};
use super::walk::Walk;
use crate::change::{Change, Changes, Totals};
use crate::error::{DiffError, Ext4Error};
use crate::ext4::{ROOT, Volume};
use crate::file;

/// Scope and limits of a comparison.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Options {
    /// Only compare this absolute path and everything below it. Symbolic links in it are not followed.
    pub under: Option<Vec<u8>>,
    /// Maximum number of entries on either disk.
    pub max_entries: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { under: None, max_entries: 5_000_000 }
    }
}

/// Compares two disks and returns all differences, ordered by path.
pub fn compare(before: &dyn DiskView, after: &dyn DiskView, options: &Options) -> Result<Changes, DiffError> {
    let mut entries = Vec::new();
    let totals = visit(before, after, options, &mut |change| {
        entries.push(change);
        ControlFlow::Continue(())
    })?;
    // Compare component by component, so that a directory is followed by its contents.
    entries.sort_by(|one: &Change, other: &Change| {
        one.path.split(|byte| *byte == b'/').cmp(other.path.split(|byte| *byte == b'/'))
    });
    Ok(Changes { entries, totals })
}

/// Compares two disks and passes each change to the visitor as it is found, without keeping a list.
///
/// Paths that exist on both disks come first, in order. Renamed, removed and added entries follow, as they are known
/// only at the end. After [`ControlFlow::Break`] the totals cover only what was reported.
pub fn visit(
    before: &dyn DiskView,
    after: &dyn DiskView,
    options: &Options,
    visitor: &mut dyn FnMut(Change) -> ControlFlow<()>,
) -> Result<Totals, DiffError> {
    let pair = Pair::open(before, after)?;
    let mut report = Report::to(visitor);
    let start = Start::find(&pair, options)?;
    if pair.clean.is_everything(before, after) {
        return Ok(report.totals);
    }
    match all(&pair, start, options, &mut report) {
        Ok(()) | Err(Halt::Enough) => Ok(report.totals),
        Err(Halt::Failed(error)) => Err(error),
    }
}

fn all(pair: &Pair<'_>, start: Start, options: &Options, report: &mut Report<'_>) -> Result<(), Halt> {
    let mut walk = Walk::new(pair, options.max_entries);
    walk.from(start.path, start.before, start.after, report)?;
    let (gone, new) = walk.expand(report)?;
    renames::report(pair, &gone, &new, report)
}

/// Where the comparison begins.
struct Start {
    path: Vec<u8>,
    before: Option<u32>,
    after: Option<u32>,
}

impl Start {
    fn find(pair: &Pair<'_>, options: &Options) -> Result<Self, DiffError> {
        let Some(under) = &options.under else {
            return Ok(Self { path: b"/".to_vec(), before: Some(ROOT), after: Some(ROOT) });
        };
        let before = find(&pair.before, under).map_err(DiffError::Before)?;
        let after = find(&pair.after, under).map_err(DiffError::After)?;
        if before.is_none() && after.is_none() {
            return Err(DiffError::NotFound { path: String::from_utf8_lossy(under).into_owned() });
        }
        let mut path = Vec::new();
        for part in file::parts(under) {
            path.push(b'/');
            path.extend_from_slice(part);
        }
        if path.is_empty() {
            path.push(b'/');
        }
        Ok(Self { path, before, after })
    }
}

fn find(volume: &Volume<'_>, path: &[u8]) -> Result<Option<u32>, Ext4Error> {
    match file::find(volume, path) {
        Ok(inode) => Ok(Some(inode.number)),
        Err(Ext4Error::NotFound { .. } | Ext4Error::WrongType { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
