//! Forgets old history. Space is freed by the next garbage collection.

use std::collections::BTreeMap;

use agentiso_store::TreePath;
use jiff::Timestamp;

use super::versions::steps;
use crate::checkpoint::CheckpointKind;
use crate::db::{Read, Tx, to_micros};
use crate::places::PlaceKind;
use crate::records::VaultRow;
use crate::{Vaults, VfsError};

const MICROS_PER_DAY: i64 = 86_400_000_000;

/// What is kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PruneKeep {
    /// The newest changes of the vault, or versions of the file.
    Newest(u64),
    /// What is not older than this many days.
    Days(u64),
}

/// What to forget.
#[derive(Clone, Debug)]
pub struct PruneRequest {
    /// What is kept.
    pub keep: PruneKeep,
    /// Only versions of this file, or of the files in this directory. They disappear from the log at once; their content
    /// stays while the vault keeps the changes that made them.
    pub path: Option<TreePath>,
    /// Change nothing.
    pub dry_run: bool,
}

/// What was forgotten.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Pruned {
    /// Changes of the vault.
    pub revisions: u64,
    /// Versions of files.
    pub versions: u64,
    /// Files that had some.
    pub files: u64,
}

impl Vaults {
    /// Forgets old history of a vault. Forks keep the state that they began with. Numbers of versions stay.
    pub fn prune(&self, vault: &str, request: &PruneRequest) -> Result<Pruned, VfsError> {
        let now = Self::now();
        if let Some(path) = &request.path {
            return self.prune_files(vault, path, request, now);
        }
        if request.dry_run {
            return self.records.read(|read| {
                let row = read.vault(vault)?;
                read.prunable(row.key, read.cut(&row, request.keep, now)?)
            });
        }
        self.records.write(|tx| {
            let row = tx.vault(vault)?;
            let pruned = tx.prune(row.key, tx.cut(&row, request.keep, now)?)?;
            let detail = format!("{{\"revisions\":{}}}", pruned.revisions);
            self.audit_vault(tx, &row, "prune", Some(&detail))?;
            Ok(pruned)
        })
    }

    fn prune_files(
        &self,
        vault: &str,
        path: &TreePath,
        request: &PruneRequest,
        now: Timestamp,
    ) -> Result<Pruned, VfsError> {
        let (row, hidden) = self.records.read(|read| {
            let row = read.vault(vault)?;
            let mut hidden = BTreeMap::new();
            for path in read.touched_below(row.key, path)? {
                let steps = steps(read, &self.store, &row, &path)?;
                let shown: Vec<_> =
                    steps.iter().filter(|step| step.number.is_some() && !step.is_hidden).collect();
                let last = shown.len().saturating_sub(1);
                let count = match request.keep {
                    PruneKeep::Newest(keep) => shown.len().saturating_sub(keep.max(1) as usize),
                    PruneKeep::Days(days) => {
                        let limit = days_before(now, days);
                        let is_old = |step: &&&super::versions::Step| {
                            step.change.as_ref().is_none_or(|change| to_micros(change.at) < limit)
                        };
                        shown.iter().take(last).take_while(is_old).count()
                    }
                };
                if let Some(step) = count.checked_sub(1).and_then(|index| shown.get(index)) {
                    hidden.insert(path, (step.revision, count as u64));
                }
            }
            Ok((row, hidden))
        })?;
        let pruned = Pruned {
            revisions: 0,
            versions: hidden.values().map(|(_, count)| count).sum(),
            files: hidden.len() as u64,
        };
        if request.dry_run || hidden.is_empty() {
            return Ok(pruned);
        }
        self.records.write(|tx| {
            for (path, (revision, _)) in &hidden {
                tx.execute(
                    "INSERT INTO pruned (vault, path, versions, hidden_to) VALUES (?1, ?2, 0, ?3)
                     ON CONFLICT (vault, path) DO UPDATE SET hidden_to = max(coalesce(hidden_to, 0), ?3)",
                    (row.key, path.as_bytes(), revision),
                )?;
            }
            self.audit_vault(tx, &row, "prune", Some(&format!("{{\"versions\":{}}}", pruned.versions)))
        })?;
        Ok(pruned)
    }
}

fn days_before(now: Timestamp, days: u64) -> i64 {
    let span = i64::try_from(days).ok().and_then(|days| days.checked_mul(MICROS_PER_DAY));
    span.map_or(i64::MIN, |span| to_micros(now).saturating_sub(span))
}

impl Read<'_> {
    /// The last change that is not kept.
    fn cut(&self, row: &VaultRow, keep: PruneKeep, now: Timestamp) -> Result<u64, VfsError> {
        match keep {
            PruneKeep::Newest(keep) => Ok(row.revision.saturating_sub(keep)),
            PruneKeep::Days(days) => self.count(
                "SELECT coalesce(max(revision), 0) FROM revisions WHERE vault = ?1 AND at < ?2",
                (row.key, days_before(now, days)),
            ),
        }
    }

    fn prunable(&self, vault: i64, cut: u64) -> Result<Pruned, VfsError> {
        let revisions =
            self.count("SELECT count(*) FROM revisions WHERE vault = ?1 AND revision <= ?2", (vault, cut))?;
        let sql = "SELECT count(*), count(DISTINCT path) FROM touched
                   WHERE vault = ?1 AND revision <= ?2 AND kind IN (1, 3)";
        let found = self.one(sql, (vault, cut), |row| Ok((row.get::<_, u64>(0)?, row.get::<_, u64>(1)?)))?;
        let (versions, files) = found.unwrap_or_default();
        Ok(Pruned { revisions, versions, files })
    }

    /// Paths at or below a path that have changes of their own.
    fn touched_below(&self, vault: i64, path: &TreePath) -> Result<Vec<TreePath>, VfsError> {
        // What is below begins with the path and a slash; "0" is the byte after the slash.
        let (from, to) = ([path.as_bytes(), b"/"].concat(), [path.as_bytes(), b"0"].concat());
        let sql = "SELECT DISTINCT path FROM touched WHERE vault = ?1 AND kind IN (1, 3)
                   AND (?4 OR path = ?2 OR (path >= ?3 AND path < ?5))";
        let parameters = (vault, path.as_bytes(), &from, path.is_root(), &to);
        let paths = self.all(sql, parameters, |row| crate::db::path_of(row, 0))?;
        Ok(paths.into_iter().flatten().collect())
    }
}

impl Tx<'_> {
    /// Removes the changes of a vault up to a number.
    pub(crate) fn prune(&self, vault: i64, cut: u64) -> Result<Pruned, VfsError> {
        let pruned = self.prunable(vault, cut)?;
        if pruned.revisions == 0 {
            return Ok(pruned);
        }
        let sql = "SELECT path, count(*), (
                       SELECT kind FROM touched AS first WHERE first.vault = ?1 AND first.path = touched.path
                           AND first.kind IN (1, 3) ORDER BY revision LIMIT 1)
                   FROM touched WHERE vault = ?1 AND revision <= ?2 AND kind IN (1, 3) GROUP BY path";
        let counts = self.all(sql, (vault, cut), |row| {
            Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, u64>(1)?, row.get::<_, u8>(2)?))
        })?;
        for (path, count, first) in counts {
            // A file whose first change here is no creation had a version before.
            let earlier = u64::from(first == PlaceKind::Changed as u8);
            self.execute(
                "INSERT INTO pruned (vault, path, versions) VALUES (?1, ?2, ?3 + ?4)
                 ON CONFLICT (vault, path) DO UPDATE SET
                     versions = versions + ?3 + CASE WHEN versions = 0 THEN ?4 ELSE 0 END",
                (vault, path, count, earlier),
            )?;
        }
        self.execute("DELETE FROM touched WHERE vault = ?1 AND revision <= ?2", (vault, cut))?;
        self.execute("DELETE FROM revisions WHERE vault = ?1 AND revision <= ?2", (vault, cut))?;
        Ok(pruned)
    }

    /// Forgets what the vault's retention does not keep; returns how many changes and checkpoints.
    pub(crate) fn apply_retention(&self, vault: i64, now: Timestamp) -> Result<(u64, u64), VfsError> {
        let Some(row) = self.vault_by_key(vault)? else { return Ok((0, 0)) };
        let retention = self.retention(vault)?;
        let mut cut = 0;
        if let Some(keep) = retention.revisions {
            cut = self.cut(&row, PruneKeep::Newest(keep), now)?;
        }
        if let Some(days) = retention.max_age_days {
            cut = cut.max(self.cut(&row, PruneKeep::Days(days), now)?);
        }
        let mut checkpoints = 0;
        let kinds = [
            (CheckpointKind::Auto, retention.auto_checkpoints),
            (CheckpointKind::Undo, retention.undo_points),
        ];
        for (kind, keep) in kinds {
            if let Some(keep) = keep {
                checkpoints += self.thin_checkpoints(vault, kind, keep)?;
            }
            if let Some(days) = retention.max_age_days {
                checkpoints += self.execute(
                    "DELETE FROM checkpoints WHERE vault = ?1 AND kind = ?2 AND created_at < ?3",
                    (vault, kind.number(), days_before(now, days)),
                )? as u64;
            }
        }
        Ok((self.prune(vault, cut)?.revisions, checkpoints))
    }
}
