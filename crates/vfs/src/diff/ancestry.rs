//! What two vaults had in common last.
//!
//! | relation | base |
//! |---|---|
//! | the source was merged into the target before | the source as it was then |
//! | the target was merged into the source before | the target as it was then |
//! | one was forked from the other | what was forked |
//! | both come from a third vault | the earlier of the two states of it |

use agentiso_store::TreeId;

use crate::VfsError;
use crate::db::Read;
use crate::records::{ParentRow, VaultRow};

/// A state that both vaults began with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Base {
    pub(super) tree: TreeId,
    pub(super) annotations: Option<i64>,
}

pub(super) fn base(read: &Read<'_>, source: &VaultRow, target: &VaultRow) -> Result<Base, VfsError> {
    if source.key == target.key {
        return Ok(Base { tree: target.tree, annotations: target.annotations });
    }
    for merged in merges(read, source, target)? {
        let merged_into = if merged.target == target.key { target } else { source };
        if includes(read, merged_into, merged.revision)? {
            return Ok(merged.base);
        }
    }
    let (ours, theirs) = (ancestors(read, target)?, ancestors(read, source)?);
    for one in &ours {
        if let Some(other) = theirs.iter().find(|other| other.key == one.key) {
            let earlier = if one.revision <= other.revision { one } else { other };
            return Ok(Base { tree: earlier.tree, annotations: earlier.annotations });
        }
    }
    Err(VfsError::Unrelated { source_name: source.shown(), target: target.shown() })
}

struct Merged {
    target: i64,
    revision: u64,
    base: Base,
}

/// The last merges of the two vaults in either direction, the latest first.
fn merges(read: &Read<'_>, source: &VaultRow, target: &VaultRow) -> Result<Vec<Merged>, VfsError> {
    read.all(
        "SELECT target, revision, tree, annotations FROM merges
         WHERE (source = ?1 AND target = ?2) OR (source = ?2 AND target = ?1) ORDER BY at DESC",
        (source.key, target.key),
        |row| {
            let base = Base { tree: crate::db::tree_of(row, 2)?, annotations: row.get(3)? };
            Ok(Merged { target: row.get(0)?, revision: row.get(1)?, base })
        },
    )
}

/// Whether a vault still has a change: it was not undone, and no earlier state was restored.
fn includes(read: &Read<'_>, row: &VaultRow, revision: u64) -> Result<bool, VfsError> {
    let line = read.segments(row)?;
    let mut at = row.revision;
    while at > revision {
        // What is not recorded any more changed nothing that can be known.
        let Some(change) = read.revision(&line, at)? else { return Ok(true) };
        at = match (change.operation.as_str(), change.target) {
            ("undo" | "redo", Some(target)) => target.saturating_sub(1),
            ("snapshot_restore", Some(target)) => target,
            _ => at - 1,
        };
    }
    Ok(at == revision)
}

/// A vault as it is, and what it has of each vault that it comes from.
fn ancestors(read: &Read<'_>, row: &VaultRow) -> Result<Vec<ParentRow>, VfsError> {
    let own =
        ParentRow { key: row.key, revision: row.revision, tree: row.tree, annotations: row.annotations };
    let mut found = vec![own];
    let mut parent = row.parent;
    while let Some(above) = parent {
        found.push(above);
        parent = read.vault_by_key(above.key)?.and_then(|row| row.parent);
    }
    Ok(found)
}
