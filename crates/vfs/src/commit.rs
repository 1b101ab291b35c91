//! Changes of a working tree: made from what is there, stored if that is still there, else made again.

use std::sync::Arc;

use agentiso_store::{Root, Session, TreeId, TreePath};
use jiff::Timestamp;

use crate::annotations::Annotations;
use crate::db::Tx;
use crate::model::{Changed, Note, Totals};
use crate::places::{PlaceKind, Places};
use crate::records::{Entry, RevisionRow, VaultRow};
use crate::state::State;
use crate::turn;
use crate::{Vaults, VfsError};

/// Attempts without a lock, and then with it. Even with it, a transaction that does not take the lock could win.
const PLAIN_ATTEMPTS: usize = 3;
const ATTEMPTS: usize = 20;

/// What a change begins with.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) row: VaultRow,
    pub(crate) state: State,
}

/// What a change results in.
#[derive(Debug)]
pub(crate) struct Proposal {
    pub(crate) state: State,
    /// The totals of the tree, if they are known; the difference is computed otherwise.
    pub(crate) totals: Option<Totals>,
    /// Quotas do not count: the change only brings back what was there.
    pub(crate) is_return: bool,
    /// For an undo or redo, what it refers to.
    pub(crate) target: Option<u64>,
}

impl Proposal {
    pub(crate) fn new(state: State) -> Self {
        Self { state, totals: None, is_return: false, target: None }
    }
}

/// A change that is being stored.
pub(crate) struct Storing<'s> {
    pub(crate) tx: &'s Tx<'s>,
    /// The vault before the change.
    pub(crate) row: &'s VaultRow,
    pub(crate) changed: &'s Changed,
    pub(crate) now: Timestamp,
}

impl Vaults {
    /// Changes the working tree of a vault. `edit` makes the new state from the present one; it runs again if another
    /// process changed the vault meanwhile, so nobody's change is lost. Several vaults may be changed at once.
    pub fn update(
        &self,
        vault: &str,
        note: &Note,
        mut edit: impl FnMut(&Session, &State) -> Result<State, VfsError>,
    ) -> Result<Changed, VfsError> {
        self.commit(vault, note, |session, begun| edit(session, &begun.state).map(Proposal::new), |_| Ok(()))
            .map(|(changed, ())| changed)
    }

    /// The same with all possibilities. `also` runs in the transaction that stores the change, or that finds that there is
    /// none.
    pub(crate) fn commit<T>(
        &self,
        vault: &str,
        note: &Note,
        mut edit: impl FnMut(&Session, &Begun) -> Result<Proposal, VfsError>,
        mut also: impl FnMut(&Storing<'_>) -> Result<T, VfsError>,
    ) -> Result<(Changed, T), VfsError> {
        let row = self.records.read(|read| read.vault(vault))?;
        for attempt in 0..ATTEMPTS {
            let is_patient = attempt < PLAIN_ATTEMPTS;
            let mut turn = match is_patient {
                true => None,
                false => Some(turn::take(self.directory(), row.id, true)?),
            };
            let begun = self.begin_change(&row)?;
            let session = self.store.begin()?;
            let proposal = edit(&session, &begun)?;
            let before = begun.state.tree;
            let places = Places::between(&session, before, proposal.state.tree)?;
            let lease = session.commit(&[Root::Tree(proposal.state.tree)])?;
            if turn.is_none() {
                turn = Some(turn::take(self.directory(), row.id, false)?);
            }
            let stored = self.store_change(note, &begun, &proposal, &places, &mut also)?;
            drop((lease, turn));
            if let Some((changed, answer)) = stored {
                self.tidy_up(&begun.row, changed.revision);
                return Ok((changed, answer));
            }
        }
        Err(VfsError::Contended { name: row.shown(), attempts: ATTEMPTS })
    }

    fn begin_change(&self, row: &VaultRow) -> Result<Begun, VfsError> {
        self.records.read(|read| {
            let found = read.vault_by_key(row.key)?.filter(|found| found.name.is_some());
            let gone = || VfsError::VaultNotFound { asked: row.shown(), nearest: None };
            let row = found.ok_or_else(gone)?;
            let annotations = read.annotations(row.annotations)?;
            Ok(Begun { state: State { tree: row.tree, annotations }, row })
        })
    }

    /// Stores a change; nothing if somebody else was faster.
    fn store_change<T>(
        &self,
        note: &Note,
        begun: &Begun,
        proposal: &Proposal,
        places: &Places,
        also: &mut impl FnMut(&Storing<'_>) -> Result<T, VfsError>,
    ) -> Result<Option<(Changed, T)>, VfsError> {
        let row = &begun.row;
        let totals = proposal.totals.unwrap_or_else(|| places.apply(row.totals));
        let now = Self::now();
        let mut changed = Changed {
            vault: row.id,
            revision: row.revision,
            before: begun.state.tree,
            after: proposal.state.tree,
            totals,
            is_changed: proposal.state != begun.state,
        };
        self.records.write(|tx| {
            let present = tx.vault_by_key(row.key)?.filter(|present| present.revision == row.revision);
            let Some(present) = present else { return Ok(None) };
            if !proposal.is_return {
                check_quotas(&present, totals, places)?;
            }
            let annotations = tx.store_annotations(&proposal.state.annotations)?;
            if changed.is_changed {
                if !tx.move_vault(row.key, row.revision, (changed.after, annotations, totals), now)? {
                    return Ok(None);
                }
                changed.revision += 1;
                self.journal(tx, note, begun, proposal, (&changed, annotations, places), now)?;
            }
            let storing = Storing { tx, row: &present, changed: &changed, now };
            let answer = also(&storing)?;
            Ok(Some((changed.clone(), answer)))
        })
    }

    fn journal(
        &self,
        tx: &Tx<'_>,
        note: &Note,
        begun: &Begun,
        proposal: &Proposal,
        (changed, annotations, places): (&Changed, Option<i64>, &Places),
        at: Timestamp,
    ) -> Result<(), VfsError> {
        tx.insert_revision(&RevisionRow {
            vault: begun.row.key,
            revision: changed.revision,
            before: changed.before,
            before_annotations: begun.row.annotations,
            after: changed.after,
            after_annotations: annotations,
            totals: changed.totals,
            operation: note.operation.clone(),
            path: note.path.clone(),
            detail: note.detail.clone(),
            actor: self.actor.clone(),
            at,
            target: proposal.target,
        })?;
        for (path, kind) in &places.list {
            tx.insert_place(begun.row.key, path, changed.revision, *kind)?;
        }
        tx.audit(Entry {
            at,
            vault: Some(&begun.row),
            operation: &note.operation,
            path: note.path.as_ref(),
            detail: note.detail.as_deref(),
            revision: Some(changed.revision),
            actor: &self.actor,
        })?;
        Ok(())
    }

    /// Applies the vault's retention and joins packs from time to time. What fails here is done by the next change.
    fn tidy_up(&self, row: &VaultRow, revision: u64) {
        if revision.is_multiple_of(64) {
            let _ = self.records.write(|tx| tx.apply_retention(row.key, Self::now()));
        }
        if revision.is_multiple_of(16) {
            let _ = agentiso_store::tidy(&self.store);
        }
    }
}

impl Tx<'_> {
    fn insert_place(
        &self,
        vault: i64,
        path: &TreePath,
        revision: u64,
        kind: PlaceKind,
    ) -> Result<(), VfsError> {
        self.execute(
            "INSERT INTO touched (vault, path, revision, kind) VALUES (?1, ?2, ?3, ?4)",
            (vault, path.as_bytes(), revision, kind as u8),
        )?;
        Ok(())
    }
}

/// Refuses what exceeds a quota and is more than before. What shrinks a vault is never refused.
fn check_quotas(row: &VaultRow, totals: Totals, places: &Places) -> Result<(), VfsError> {
    let exceeded = |quota, unit, limit, would_be| {
        Err(VfsError::QuotaExceeded { vault: row.shown(), quota, unit, limit, would_be })
    };
    let quotas = row.quotas;
    if let (Some(limit), Some((path, size))) = (quotas.max_file_bytes, &places.largest)
        && *size > limit
    {
        let path = path.clone();
        return Err(VfsError::FileQuota { vault: row.shown(), path, limit, would_be: *size });
    }
    if let Some(limit) =
        quotas.max_files.filter(|limit| totals.files > *limit && totals.files > row.totals.files)
    {
        return exceeded("max_files", "files", limit, totals.files);
    }
    if let Some(limit) =
        quotas.max_bytes.filter(|limit| totals.bytes > *limit && totals.bytes > row.totals.bytes)
    {
        return exceeded("max_size_mb", "bytes", limit, totals.bytes);
    }
    Ok(())
}

/// A state whose annotations are those of another one.
pub(crate) fn with_tree(state: &State, tree: TreeId) -> State {
    State { tree, annotations: Arc::clone(&state.annotations) }
}

/// A state with changed annotations.
pub(crate) fn with_annotations(tree: TreeId, annotations: Annotations) -> State {
    State { tree, annotations: Arc::new(annotations) }
}
