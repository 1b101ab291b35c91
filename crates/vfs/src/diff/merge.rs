//! Merges what one vault changed into another.

use std::cell::Cell;

use agentiso_store::{
    ChangeOptions, Changes, Conflict, MergeOptions, Session, Sides, TextStyle, TreeId, TreePath, changes,
    merge,
};

use super::ancestry;
use super::compare::Endpoint;
use super::settle::{Prefer, settle};
use crate::annotations::Annotations;
use crate::checkpoint::find;
use crate::commit::{Begun, Proposal, Storing, with_annotations};
use crate::db::to_micros;
use crate::files::View;
use crate::model::{Changed, Note, RemoveOptions};
use crate::state::{State, StateRef};
use crate::{Vaults, VfsError};

/// Changes that a report lists.
const MAX_LISTED: usize = 10_000;

/// What happens where both sides changed the same thing. Our side is the target.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum OnConflict {
    /// Nothing is changed if there are conflicts.
    #[default]
    Stop,
    /// The target keeps what it has.
    Ours,
    /// The source wins.
    Theirs,
    /// Texts get both sides between markers; of anything else the target keeps what it has.
    Markers,
}

/// A merge.
#[derive(Clone, Debug)]
pub struct MergeVaults {
    /// Whose changes are taken.
    pub source: Endpoint,
    /// The vault that takes them.
    pub target: String,
    /// What both sides began with. Found in the lineage if it is not given; a directory of the host needs one.
    pub base: Option<Endpoint>,
    /// Only changes at and below this path.
    pub scope: TreePath,
    /// What happens to conflicts.
    pub on_conflict: OnConflict,
    /// Change nothing.
    pub dry_run: bool,
}

impl MergeVaults {
    /// Everything that a vault changed.
    pub fn new(source: &str, target: &str) -> Self {
        Self {
            source: Endpoint::now(source),
            target: target.to_owned(),
            base: None,
            scope: TreePath::root(),
            on_conflict: OnConflict::Stop,
            dry_run: false,
        }
    }
}

/// What a merge found and did.
#[derive(Clone, Debug)]
pub struct MergeReport {
    /// The change of the target; nothing if conflicts stopped it or nothing was to be changed.
    pub applied: Option<Changed>,
    /// What both sides began with.
    pub base: TreeId,
    /// The merged tree. It is kept only if it was applied.
    pub merged: TreeId,
    /// Paths that both sides changed, also those that were decided as requested.
    pub conflicts: Vec<Conflict>,
    /// What the merge changes in the target; the first 10,000 of them.
    pub changes: Changes,
}

/// A merge that was made, and whether it may be stored.
struct Attempt {
    base: TreeId,
    merged: TreeId,
    conflicts: Vec<Conflict>,
    changes: Changes,
    is_stopped: bool,
}

impl Vaults {
    /// Takes the changes of one vault since it and the target had the same state.
    pub fn merge(&self, request: &MergeVaults) -> Result<MergeReport, VfsError> {
        let theirs = self.tree_of_endpoint(&request.source)?;
        let given = request.base.as_ref().map(|base| self.tree_of_endpoint(base)).transpose()?;
        let label = request.source.label().replace('"', "'").replace('\\', "/");
        let note = Note::new("merge").detail(format!("{{\"source\":\"{label}\"}}"));
        let mut made = None;
        let is_applied = Cell::new(false);
        let edit = |session: &Session, begun: &Begun| {
            let (attempt, state) = self.attempt(session, begun, request, &theirs, given.as_ref())?;
            is_applied.set(!attempt.is_stopped && !request.dry_run);
            made = Some(attempt);
            let state = if is_applied.get() { state } else { begun.state.clone() };
            Ok(Proposal::new(state))
        };
        let also = |storing: &Storing<'_>| match is_applied.get() && request.scope.is_root() {
            true => self.record_merge(storing, request, &theirs),
            false => Ok(()),
        };
        let (changed, ()) = self.commit(&request.target, &note, edit, also)?;
        let Some(Attempt { base, merged, conflicts, changes, .. }) = made else {
            return Err(VfsError::invalid("the merge", "it was not attempted"));
        };
        let applied = is_applied.get().then_some(changed);
        Ok(MergeReport { applied, base, merged, conflicts, changes })
    }

    /// Merges a fork into the vault that it was forked from, and removes it if asked to.
    pub fn promote(
        &self,
        fork: &str,
        on_conflict: OnConflict,
        remove: bool,
    ) -> Result<MergeReport, VfsError> {
        let info = self.info(fork)?;
        let parent = info.parent.as_ref().and_then(|parent| parent.name.clone());
        let parent = parent.ok_or_else(|| {
            VfsError::invalid(format!("the vault {:?}", info.name), "its parent does not exist")
        })?;
        let report = self.merge(&MergeVaults { on_conflict, ..MergeVaults::new(fork, &parent) })?;
        if remove && report.applied.is_some() {
            self.remove(fork, RemoveOptions::default())?;
        }
        Ok(report)
    }

    fn attempt(
        &self,
        session: &Session,
        begun: &Begun,
        request: &MergeVaults,
        theirs: &View,
        given: Option<&View>,
    ) -> Result<(Attempt, State), VfsError> {
        let base = self.base_state(begun, request, given)?;
        let sides = Sides { base: base.tree, ours: begun.state.tree, theirs: theirs.tree() };
        let text = match request.on_conflict {
            OnConflict::Stop => TextStyle::Markers { ours: String::new(), theirs: String::new() },
            _ => TextStyle::Markers { ours: begun.row.shown(), theirs: request.source.label() },
        };
        let made = merge(session, sides, &MergeOptions { text, scope: request.scope.clone() })?;
        let tree = match request.on_conflict {
            OnConflict::Theirs => settle(session, made.tree, &made.conflicts, Prefer::Theirs)?,
            OnConflict::Ours => settle(session, made.tree, &made.conflicts, Prefer::Ours)?,
            OnConflict::Stop | OnConflict::Markers => made.tree,
        };
        let options = ChangeOptions { limit: MAX_LISTED, ..ChangeOptions::default() };
        let listed = changes(session, sides.ours, tree, &options)?;
        let mut annotations =
            Annotations::merge(&base.annotations, &begun.state.annotations, theirs.annotations());
        annotations.retain(|path| Ok(find(session, tree, path)?.is_some()))?;
        let is_stopped = request.on_conflict == OnConflict::Stop && !made.conflicts.is_empty();
        let attempt =
            Attempt { base: base.tree, merged: tree, conflicts: made.conflicts, changes: listed, is_stopped };
        Ok((attempt, with_annotations(tree, annotations)))
    }

    fn base_state(
        &self,
        begun: &Begun,
        request: &MergeVaults,
        given: Option<&View>,
    ) -> Result<State, VfsError> {
        if let Some(view) = given {
            return Ok(State { tree: view.tree(), annotations: view.shared_annotations() });
        }
        let Endpoint::Vault { vault, state } = &request.source else {
            let reason = "give the state that the directory and the vault began with";
            return Err(VfsError::invalid("the base of the merge", reason));
        };
        self.records.read(|read| {
            let source = read.vault(vault)?;
            if let (StateRef::Now, true) = (state, source.key == begun.row.key) {
                return Err(VfsError::invalid("the merge", "source and target are the same"));
            }
            let found = ancestry::base(read, &source, &begun.row)?;
            Ok(State { tree: found.tree, annotations: read.annotations(found.annotations)? })
        })
    }

    /// The next merge of the same vaults begins with what was merged now.
    fn record_merge(
        &self,
        storing: &Storing<'_>,
        request: &MergeVaults,
        theirs: &View,
    ) -> Result<(), VfsError> {
        let Endpoint::Vault { vault, .. } = &request.source else { return Ok(()) };
        let tx = storing.tx;
        let source = tx.vault(vault)?;
        let annotations = tx.store_annotations(theirs.annotations())?;
        tx.execute(
            "INSERT INTO merges (source, target, tree, annotations, revision, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (source, target) DO UPDATE SET tree = ?3, annotations = ?4, revision = ?5, at = ?6",
            (
                source.key,
                storing.row.key,
                theirs.tree().0.as_bytes(),
                annotations,
                storing.changed.revision,
                to_micros(storing.now),
            ),
        )?;
        Ok(())
    }
}
