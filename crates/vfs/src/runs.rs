//! Runs: commands that work in a directory laid out from a vault's tree, several on one vault at once.
//!
//! ```text
//! begin_use ──► (the command changes files) ──► commit_use, perhaps several times ──► end_use
//!     │                                            │ nobody else changed the vault: it gets the tree of the run
//!     │ killed: the row stays, with the tree       │ somebody did: three-way merge; where both changed the same, the
//!     │ that the run began with, until             │ vault keeps what it has, and the tree of the run becomes a
//!     └ `forget_use`                               └ checkpoint
//! ```

use std::cell::RefCell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use agentiso_store::{
    ChangeKind, ChangeOptions, Conflict, Lease, MergeOptions, Objects, Session, Sides, TextStyle, TreeId,
    changes, merge,
};
use jiff::Timestamp;
use uuid::Uuid;

use crate::annotations::{Annotations, rebased};
use crate::checkpoint::{Checkpoint, CheckpointKind, NewCheckpoint, SaveCheckpoint, find};
use crate::commit::{Begun, Proposal, Storing};
use crate::db::{from_micros, id_of, to_micros, tree_of};
use crate::diff::{Prefer, settle};
use crate::model::{Changed, Note};
use crate::name::VaultId;
use crate::owner::Owner;
use crate::places::totals_of_tree;
use crate::state::State;
use crate::{Vaults, VfsError};

/// A run to begin.
#[derive(Clone, Debug, Default)]
pub struct BeginUse {
    /// The directory in which it works, for whoever finds it after a crash.
    pub directory: Option<PathBuf>,
    /// What it does, in a few words.
    pub purpose: String,
}

/// A run in progress. It ends with [`Vaults::end_use`]; one that is only dropped counts as running while the process lives.
#[derive(Debug)]
#[must_use = "a run ends with end_use or finish"]
pub struct Use {
    id: Uuid,
    vault: VaultId,
    name: String,
    base: State,
    revision: u64,
}

impl Use {
    /// Its identity.
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// The vault.
    pub fn vault(&self) -> VaultId {
        self.vault
    }

    /// The name that the vault had when the run began.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The tree to lay out; later, the last tree of the run that was committed.
    pub fn base(&self) -> TreeId {
        self.base.tree
    }

    /// The last change of the vault that the base has.
    pub fn revision(&self) -> u64 {
        self.revision
    }
}

/// What became of the changes of a run.
#[derive(Clone, Debug)]
pub struct UseReport {
    /// The change of the vault.
    pub changed: Changed,
    /// What the run began with: compare it with `changes_to` for what the run changed.
    pub changes_from: TreeId,
    /// What the run left.
    pub changes_to: TreeId,
    /// Others had changed the vault, so the result is a merge.
    pub is_merged: bool,
    /// Where the run and others changed the same. The vault has what the others wrote.
    pub conflicts: Vec<Conflict>,
    /// What the run left, as a checkpoint, if there were conflicts.
    pub saved: Option<Checkpoint>,
}

/// A run as it is recorded.
#[derive(Clone, Debug)]
pub struct UseRecord {
    /// Its identity.
    pub id: Uuid,
    /// The vault.
    pub vault: VaultId,
    /// The present name of the vault.
    pub name: Option<String>,
    /// The directory in which it works.
    pub directory: Option<PathBuf>,
    /// What it does.
    pub purpose: String,
    /// The tree that it began with, or committed last.
    pub base: TreeId,
    /// The last change of the vault that the base has.
    pub revision: u64,
    /// The process that began it.
    pub pid: u32,
    /// When it began.
    pub since: Timestamp,
    /// Whether the process is still running.
    pub is_alive: bool,
}

impl Vaults {
    /// Begins a run. Its tree stays until the run has ended, whatever happens to the vault.
    pub fn begin_use(&self, vault: &str, request: &BeginUse) -> Result<Use, VfsError> {
        let owner = Owner::current()?;
        let id = Uuid::now_v7();
        let directory = request.directory.as_ref().map(|path| path.as_os_str().as_bytes());
        self.records.write(|tx| {
            let row = tx.vault(vault)?;
            tx.execute(
                "INSERT INTO uses (uuid, vault, directory, purpose, base, base_annotations, base_revision, pid,
                                   started, at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
                (
                    id.as_bytes(),
                    row.key,
                    directory,
                    &request.purpose,
                    row.tree.0.as_bytes(),
                    row.annotations,
                    row.revision,
                    owner.pid,
                    owner.started,
                    to_micros(Self::now()),
                ),
            )?;
            let base = State { tree: row.tree, annotations: tx.annotations(row.annotations)? };
            Ok(Use { id, vault: row.id, name: row.shown(), base, revision: row.revision })
        })
    }

    /// Takes what a run left so far into its vault. `lease` keeps the tree until it is recorded. The run continues from it.
    pub fn commit_use(
        &self,
        using: &mut Use,
        tree: TreeId,
        lease: Lease,
        note: &Note,
    ) -> Result<UseReport, VfsError> {
        let theirs = State { tree, annotations: followed(&self.store, &using.base, tree)? };
        let outcome = RefCell::new((false, Vec::new()));
        let edit = |session: &Session, begun: &Begun| {
            let (state, is_merged, conflicts) = combine(session, &using.base, &begun.state, &theirs)?;
            outcome.replace((is_merged, conflicts));
            Ok(Proposal::new(state))
        };
        let also = |storing: &Storing<'_>| self.advance(storing, using, &theirs, &outcome.borrow().1);
        let vault = using.vault.to_string();
        let (changed, saved) = self.commit(&vault, note, edit, also)?;
        drop(lease);
        let (is_merged, conflicts) = outcome.into_inner();
        let changes_from = using.base.tree;
        using.base = theirs;
        using.revision = changed.revision;
        Ok(UseReport { changed, changes_from, changes_to: tree, is_merged, conflicts, saved })
    }

    /// Records the new base of a run, and its tree if there were conflicts.
    fn advance(
        &self,
        storing: &Storing<'_>,
        using: &Use,
        theirs: &State,
        conflicts: &[Conflict],
    ) -> Result<Option<Checkpoint>, VfsError> {
        let tx = storing.tx;
        let annotations = tx.store_annotations(&theirs.annotations)?;
        let updated = tx.execute(
            "UPDATE uses SET base = ?2, base_annotations = ?3, base_revision = ?4 WHERE uuid = ?1",
            (using.id.as_bytes(), theirs.tree.0.as_bytes(), annotations, storing.changed.revision),
        )?;
        if updated == 0 {
            return Err(VfsError::UseEnded { id: using.id, name: using.name.clone() });
        }
        if conflicts.is_empty() {
            return Ok(None);
        }
        let request = SaveCheckpoint {
            description: Some(format!("what a run left; {} conflict(s)", conflicts.len())),
            kind: CheckpointKind::Conflict,
            ..SaveCheckpoint::default()
        };
        let new = NewCheckpoint {
            row: storing.row,
            request: &request,
            tree: theirs.tree,
            annotations,
            revision: using.revision,
            totals: totals_of_tree(&self.store, theirs.tree)?,
            actor: self.actor(),
            now: storing.now,
        };
        tx.save_checkpoint(&new).map(Some)
    }

    /// Ends a run. What it did not commit is not in the vault.
    pub fn end_use(&self, using: Use) -> Result<(), VfsError> {
        self.records.write(|tx| {
            tx.execute("DELETE FROM uses WHERE uuid = ?1", [using.id.as_bytes()])?;
            Ok(())
        })
    }

    /// Takes what a run left into its vault, and ends it. If that fails, the run has not ended.
    pub fn finish(
        &self,
        mut using: Use,
        tree: TreeId,
        lease: Lease,
        note: &Note,
    ) -> Result<UseReport, VfsError> {
        let report = self.commit_use(&mut using, tree, lease, note)?;
        self.end_use(using)?;
        Ok(report)
    }

    /// Saves a tree that is not a state of the vault, such as one that a quota refused. `lease` keeps it until then.
    pub fn save_tree(
        &self,
        vault: &str,
        tree: TreeId,
        lease: Lease,
        request: &SaveCheckpoint,
    ) -> Result<Checkpoint, VfsError> {
        crate::checkpoint::check(request)?;
        let totals = totals_of_tree(&self.store, tree)?;
        let now = Self::now();
        let saved = self.records.write(|tx| {
            let row = tx.vault(vault)?;
            let annotations = row.annotations;
            let (revision, actor) = (row.revision, self.actor());
            let new = NewCheckpoint { row: &row, request, tree, annotations, revision, totals, actor, now };
            let saved = tx.save_checkpoint(&new)?;
            self.audit_vault(tx, &row, "snapshot_save", None)?;
            Ok(saved)
        });
        drop(lease);
        saved
    }

    /// The runs that are recorded: all, or those of one vault.
    pub fn uses(&self, vault: Option<&str>) -> Result<Vec<UseRecord>, VfsError> {
        self.records.read(|read| {
            let key = vault.map(|vault| read.vault(vault)).transpose()?.map(|row| row.key);
            let sql =
                "SELECT uses.uuid, vaults.uuid, vaults.name, directory, purpose, base, base_revision, pid,
                              started, at
                       FROM uses JOIN vaults ON vaults.id = uses.vault
                       WHERE ?1 IS NULL OR vaults.id = ?1 ORDER BY at";
            read.all(sql, [key], |row| {
                let directory: Option<Vec<u8>> = row.get(3)?;
                let owner = Owner { pid: row.get(7)?, started: row.get(8)? };
                Ok(UseRecord {
                    id: id_of(row, 0)?,
                    vault: VaultId(id_of(row, 1)?),
                    name: row.get(2)?,
                    directory: directory.map(|path| PathBuf::from(OsStr::from_bytes(&path))),
                    purpose: row.get(4)?,
                    base: tree_of(row, 5)?,
                    revision: row.get(6)?,
                    pid: owner.pid,
                    since: from_micros(9, row.get(9)?)?,
                    is_alive: owner.is_alive(),
                })
            })
        })
    }

    /// Continues a run whose process has died, in this process, to take what it left into the vault.
    pub fn adopt_use(&self, id: Uuid) -> Result<Use, VfsError> {
        let me = Owner::current()?;
        self.records.write(|tx| {
            let sql =
                "SELECT vault, base, base_annotations, base_revision, pid, started FROM uses WHERE uuid = ?1";
            let found = tx.one(sql, [id.as_bytes()], |row| {
                let owner = Owner { pid: row.get(4)?, started: row.get(5)? };
                Ok((
                    row.get::<_, i64>(0)?,
                    tree_of(row, 1)?,
                    row.get::<_, Option<i64>>(2)?,
                    row.get(3)?,
                    owner,
                ))
            })?;
            let ended = || VfsError::UseEnded { id, name: String::new() };
            let (vault, tree, annotations, revision, owner) = found.ok_or_else(ended)?;
            let row = tx.vault_by_key(vault)?.ok_or_else(ended)?;
            if owner != me && owner.is_alive() {
                return Err(VfsError::VaultBusy { name: row.shown(), runs: 1 });
            }
            tx.execute(
                "UPDATE uses SET pid = ?2, started = ?3 WHERE uuid = ?1",
                (id.as_bytes(), me.pid, me.started),
            )?;
            let base = State { tree, annotations: tx.annotations(annotations)? };
            Ok(Use { id, vault: row.id, name: row.shown(), base, revision })
        })
    }

    /// Forgets a run whose process has died; returns whether there was one. A run that is alive is an error.
    pub fn forget_use(&self, id: Uuid) -> Result<bool, VfsError> {
        match self.adopt_use(id) {
            Ok(using) => self.end_use(using).map(|()| true),
            Err(VfsError::UseEnded { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The state that a vault gets: what the run left, merged with what others did meanwhile.
fn combine(
    session: &Session,
    base: &State,
    ours: &State,
    theirs: &State,
) -> Result<(State, bool, Vec<Conflict>), VfsError> {
    if ours == base {
        return Ok((theirs.clone(), false, Vec::new()));
    }
    if theirs == base {
        return Ok((ours.clone(), false, Vec::new()));
    }
    let sides = Sides { base: base.tree, ours: ours.tree, theirs: theirs.tree };
    // Lines that only one side changed are merged. Markers would break a program that somebody else is building.
    let text = TextStyle::Markers { ours: String::new(), theirs: String::new() };
    let merged = merge(session, sides, &MergeOptions { text, ..MergeOptions::default() })?;
    let marked = merged.conflicts.iter().filter(|conflict| conflict.has_markers);
    let tree = settle(session, merged.tree, marked, Prefer::Ours)?;
    let mut conflicts = merged.conflicts;
    conflicts.iter_mut().for_each(|conflict| conflict.has_markers = false);
    let mut annotations = Annotations::merge(&base.annotations, &ours.annotations, &theirs.annotations);
    annotations.retain(|path| Ok(find(session, tree, path)?.is_some()))?;
    Ok((State { tree, annotations: Arc::new(annotations) }, true, conflicts))
}

/// Tags and metadata after a run: they follow what was renamed, and go with what was removed.
fn followed(objects: &dyn Objects, base: &State, tree: TreeId) -> Result<Arc<Annotations>, VfsError> {
    if base.annotations.is_empty() || base.tree == tree {
        return Ok(Arc::clone(&base.annotations));
    }
    let found = changes(objects, base.tree, tree, &ChangeOptions::default())?;
    let mut after = (*base.annotations).clone();
    let renamed: Vec<_> = found
        .list
        .iter()
        .filter(|change| change.kind == ChangeKind::Renamed)
        .filter_map(|change| Some((change.old_path.as_ref()?, &change.path)))
        .collect();
    for (old, _) in &renamed {
        after.remove_below(old);
    }
    for (old, new) in renamed {
        let moved = base.annotations.iter().filter(|(path, _)| path.is_within(old));
        after.insert_all(moved.map(|(path, annotation)| (rebased(path, old, new), annotation.clone())));
    }
    after.retain(|path| Ok(find(objects, tree, path)?.is_some()))?;
    Ok(Arc::new(after))
}
