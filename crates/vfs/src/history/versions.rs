//! The versions of one file.

use agentiso_store::{Objects, TreePath};

use crate::VfsError;
use crate::checkpoint::find;
use crate::db::Read;
use crate::places::{PlaceKind, has_same_content};
use crate::records::{RevisionRow, Segment, VaultRow};

/// A change of a file.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// Numbers count from 1; a deletion has none.
    pub(super) number: Option<u64>,
    /// The state has the file as of this change.
    pub(super) revision: u64,
    /// The change; nothing if it is not recorded any more.
    pub(super) change: Option<RevisionRow>,
    /// Pruned, for this file alone.
    pub(super) is_hidden: bool,
}

/// All changes of a file, oldest first.
pub(super) fn steps(
    read: &Read<'_>,
    objects: &dyn Objects,
    row: &VaultRow,
    path: &TreePath,
) -> Result<Vec<Step>, VfsError> {
    let line = read.segments(row)?;
    let mut changes = Vec::new();
    for segment in line.iter().rev() {
        changes.extend(changes_in(read, objects, segment, path)?);
    }
    let (pruned, hidden) = pruned(read, &line, path)?;
    let mut steps = Vec::new();
    let mut number = pruned;
    if let Some(revision) = initial(read, objects, row, &line, path)? {
        number = number.max(1);
        steps.push(Step {
            number: Some(number),
            revision,
            change: None,
            is_hidden: revision <= hidden && hidden > 0,
        });
    }
    for (change, exists) in changes {
        number += u64::from(exists);
        let revision = change.revision;
        steps.push(Step {
            number: exists.then_some(number),
            revision,
            change: Some(change),
            is_hidden: revision <= hidden && hidden > 0,
        });
    }
    // What the file is now is always shown.
    if let Some(last) = steps.last_mut() {
        last.is_hidden = false;
    }
    Ok(steps)
}

/// The changes of a file in one vault, oldest first, with whether it exists afterwards.
fn changes_in(
    read: &Read<'_>,
    objects: &dyn Objects,
    segment: &Segment,
    path: &TreePath,
) -> Result<Vec<(RevisionRow, bool)>, VfsError> {
    let mut found: Vec<(u64, Option<bool>)> = Vec::new();
    let mut at = Some(path.clone());
    while let Some(place) = at {
        let sql = "SELECT revision, kind FROM touched WHERE vault = ?1 AND path = ?2 AND revision <= ?3";
        let rows = read.all(sql, (segment.vault, place.as_bytes(), segment.to), |row| {
            Ok((row.get::<_, u64>(0)?, row.get::<_, u8>(1)?))
        })?;
        for (revision, kind) in rows {
            let is_exact = place == *path;
            let known = [(PlaceKind::Created, true), (PlaceKind::Changed, true), (PlaceKind::Removed, false)];
            let known = known.iter().find(|(known, _)| *known as u8 == kind && is_exact);
            if kind != PlaceKind::Metadata as u8 {
                found.push((revision, known.map(|(_, exists)| *exists)));
            }
        }
        at = place.split().map(|(parent, _)| parent);
    }
    found.sort_unstable();
    found.dedup_by_key(|(revision, _)| *revision);
    let mut changes = Vec::new();
    for (revision, known) in found {
        let Some(change) = read.revision(&[*segment], revision)? else { continue };
        let exists = match known {
            Some(exists) => Some(exists),
            None => verify(objects, &change, path)?,
        };
        changes.extend(exists.map(|exists| (change, exists)));
    }
    Ok(changes)
}

/// Whether the file exists after a change at a directory above it; nothing if the change did not touch it.
fn verify(objects: &dyn Objects, change: &RevisionRow, path: &TreePath) -> Result<Option<bool>, VfsError> {
    let (before, after) = (find(objects, change.before, path)?, find(objects, change.after, path)?);
    Ok(match (before, after) {
        (None, None) => None,
        (Some(before), Some(after)) if has_same_content(&before, &after) => None,
        (_, after) => Some(after.is_some()),
    })
}

/// The state before the oldest recorded change, if it has the file.
fn initial(
    read: &Read<'_>,
    objects: &dyn Objects,
    row: &VaultRow,
    line: &[Segment],
    path: &TreePath,
) -> Result<Option<u64>, VfsError> {
    let mut oldest = (row.tree, row.revision);
    for segment in line {
        let first = read.oldest_revision(segment.vault)?.filter(|first| first.revision <= segment.to);
        if let Some(first) = first {
            oldest = (first.before, first.revision - 1);
        }
    }
    let (tree, revision) = oldest;
    Ok(find(objects, tree, path)?.map(|_| revision))
}

/// How many versions were pruned with their changes, and the last revision that is hidden.
fn pruned(read: &Read<'_>, line: &[Segment], path: &TreePath) -> Result<(u64, u64), VfsError> {
    let (mut versions, mut hidden) = (0, 0);
    for segment in line {
        let sql = "SELECT versions, hidden_to FROM pruned WHERE vault = ?1 AND path = ?2";
        let found = read.one(sql, (segment.vault, path.as_bytes()), |row| {
            Ok((row.get::<_, u64>(0)?, row.get::<_, Option<u64>>(1)?))
        })?;
        if let Some((count, to)) = found {
            versions += count;
            hidden = hidden.max(to.unwrap_or(0));
        }
    }
    Ok((versions, hidden))
}
