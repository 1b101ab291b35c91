//! Restores a state: the whole tree, or only some paths. A restore is a change like any other, and the state before it
//! becomes a checkpoint.

use std::collections::BTreeMap;

use agentiso_store::{Edit, Node, Objects, StoreError, TreeId, TreePath, directory_meta, edit, lookup};

use super::kind::{Checkpoint, CheckpointKind, SaveCheckpoint};
use super::save::{NewCheckpoint, detail};
use crate::commit::{Begun, Proposal, Storing};
use crate::files::View;
use crate::model::{Changed, Note};
use crate::places::{PlaceKind, Places};
use crate::state::{State, StateRef};
use crate::vault::live_uses;
use crate::{Vaults, VfsError};

/// What to restore.
#[derive(Clone, Debug, Default)]
pub struct Restore {
    /// The state.
    pub state: StateRef,
    /// Only these paths; everything if there are none. A path that the state does not have is removed.
    pub paths: Vec<TreePath>,
    /// Although runs are in progress. What they change is merged when they end.
    pub force: bool,
}

/// What a restore did.
#[derive(Clone, Debug)]
pub struct Restored {
    /// The change of the vault.
    pub changed: Changed,
    /// The state before, unless nothing changed. Restore it to undo this.
    pub undo: Option<Checkpoint>,
    /// Files, links and pipes that are new or different.
    pub files: u64,
    /// Directories that are new.
    pub directories: u64,
    /// Files, links and pipes that are gone.
    pub removed: u64,
}

impl Vaults {
    /// Gives a vault, or some paths of it, the content of an earlier state. Atomic, and can be undone.
    pub fn restore(&self, vault: &str, request: &Restore) -> Result<Restored, VfsError> {
        let view = self.view(vault, &request.state)?;
        let mut note = Note::new("snapshot_restore");
        if let StateRef::Checkpoint(name) = &request.state {
            note = note.detail(detail(name));
        }
        if let [path] = request.paths.as_slice() {
            note = note.at(path);
        }
        let target = self.returns_to(vault, &request.state, &view)?;
        let edit = |session: &agentiso_store::Session, begun: &Begun| {
            if request.paths.is_empty() {
                let state = State { tree: view.tree(), annotations: view.shared_annotations() };
                let totals = view.known_totals();
                return Ok(Proposal { totals, is_return: true, target, ..Proposal::new(state) });
            }
            let state = take_paths(session, &begun.state, &view, &request.paths)?;
            Ok(Proposal { is_return: true, ..Proposal::new(state) })
        };
        let also = |storing: &Storing<'_>| self.undo_point(storing, request.force);
        let (changed, undo) = self.commit(vault, &note, edit, also)?;
        let places = Places::between(&self.store, changed.before, changed.after)?;
        let replaced = places.list.iter().filter(|(_, kind)| *kind == PlaceKind::Changed).count() as u64;
        Ok(Restored {
            changed,
            undo,
            files: places.added.files,
            directories: places.added.directories,
            removed: places.removed.files.saturating_sub(replaced),
        })
    }

    /// The change whose state is restored, if it is the state of one.
    fn returns_to(&self, vault: &str, state: &StateRef, view: &View) -> Result<Option<u64>, VfsError> {
        Ok(match state {
            StateRef::Checkpoint(name) => {
                let found = self.checkpoint(vault, name)?;
                (found.kind != CheckpointKind::Conflict).then_some(found.revision)
            }
            StateRef::Tree(_) => None,
            StateRef::Now | StateRef::Revision(_) => view.revision(),
        })
    }

    fn undo_point(&self, storing: &Storing<'_>, force: bool) -> Result<Option<Checkpoint>, VfsError> {
        let row = storing.row;
        let runs = live_uses(storing.tx, row.key)?;
        if runs > 0 && !force {
            return Err(VfsError::VaultBusy { name: row.shown(), runs });
        }
        if !storing.changed.is_changed {
            return Ok(None);
        }
        let request = SaveCheckpoint {
            description: Some("before a restore".to_owned()),
            kind: CheckpointKind::Undo,
            ..SaveCheckpoint::default()
        };
        let new = NewCheckpoint {
            row,
            request: &request,
            tree: row.tree,
            annotations: row.annotations,
            revision: row.revision,
            totals: row.totals,
            actor: self.actor(),
            now: storing.now,
        };
        storing.tx.save_checkpoint(&new).map(Some)
    }
}

/// The state with some paths of another one.
fn take_paths(
    session: &agentiso_store::Session,
    state: &State,
    view: &View,
    paths: &[TreePath],
) -> Result<State, VfsError> {
    let mut tree = state.tree;
    let mut annotations = (*state.annotations).clone();
    for path in paths {
        tree = take_path(session, tree, view.tree(), path)?;
        annotations.take_from(view.annotations(), path);
    }
    Ok(crate::commit::with_annotations(tree, annotations))
}

/// A tree that has at one path what another tree has there.
pub(crate) fn take_path(
    session: &agentiso_store::Session,
    tree: TreeId,
    from: TreeId,
    path: &TreePath,
) -> Result<TreeId, VfsError> {
    if path.is_root() {
        return Ok(from);
    }
    let mut edits = BTreeMap::new();
    match find(session, from, path)? {
        Some(node) => {
            let mut above = path.split().map(|(parent, _)| parent);
            while let Some(parent) = above.filter(|parent| !parent.is_root()) {
                if !matches!(find(session, tree, &parent)?, Some(Node::Directory(_)))
                    && let Some(Node::Directory(theirs)) = find(session, from, &parent)?
                {
                    edits.insert(parent.clone(), Edit::MakeDirectory(directory_meta(session, theirs)?));
                }
                above = parent.split().map(|(parent, _)| parent);
            }
            edits.insert(path.clone(), Edit::Put(node));
        }
        None if find(session, tree, path)?.is_some() => drop(edits.insert(path.clone(), Edit::Remove)),
        None => return Err(VfsError::NotFound { path: path.clone() }),
    }
    Ok(edit(session, tree, edits)?)
}

/// What a path names; nothing too if a part of it is not a directory.
pub(crate) fn find(objects: &dyn Objects, tree: TreeId, path: &TreePath) -> Result<Option<Node>, VfsError> {
    match lookup(objects, tree, path) {
        Err(StoreError::NotADirectory { .. }) => Ok(None),
        other => Ok(other?),
    }
}
