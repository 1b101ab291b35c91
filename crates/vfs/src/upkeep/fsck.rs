//! Checks the store, the records, and that every record's tree can be read.
//!
//! A repair stores what can be stored again ([`agentiso_store::repair`]). What is left is handled by its effect:
//!
//! | lost | what happens |
//! |---|---|
//! | the bytes of a file | the file is named; nothing else can be done |
//! | a directory of a change, checkpoint, merge or run | the row is removed, because its tree is of no use to anybody |
//! | a directory of a working tree | the vault gets its newest state that is whole |

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;

use agentiso_store::{Affected, FsckReport, ObjectKind, Repaired, Root, TreeId, TreePath, check, repair};

use crate::db::{Read, Tx, to_micros, tree_of};
use crate::places::totals_of_tree;
use crate::records::{RevisionRow, VaultRow};
use crate::{Vaults, VfsError};

/// Paths of one row that are listed.
const MAX_PATHS: usize = 100;

/// What is checked and repaired.
#[derive(Clone, Debug, Default)]
pub struct FsckRequest {
    /// Repair what can be repaired.
    pub repair: bool,
    /// A directory of the host that may still have files that were lost.
    pub source: Option<PathBuf>,
}

/// A row whose tree cannot be read completely.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LostRow {
    /// The row in words, for example `checkpoint "x" of the vault "v"`.
    pub what: String,
    /// Its tree.
    pub tree: TreeId,
    /// Paths that are lost; the first 100.
    pub paths: Vec<TreePath>,
    /// How many there are.
    pub total: u64,
    /// Directories are lost, and so what is in them.
    pub is_structural: bool,
}

/// What was found and done.
#[derive(Clone, Debug, Default)]
pub struct VaultFsck {
    /// The store, before any repair.
    pub store: FsckReport,
    /// What is wrong with the records.
    pub records: Vec<String>,
    /// Rows with trees that cannot be read completely; after a repair, those that are left.
    pub lost: Vec<LostRow>,
    /// What the repair of the store did.
    pub repaired: Option<Repaired>,
    /// What was done to rows, in words.
    pub actions: Vec<String>,
}

impl VaultFsck {
    /// Whether nothing is wrong, or everything was repaired.
    pub fn is_clean(&self) -> bool {
        self.records.is_empty() && self.lost.is_empty() && (self.store.is_clean() || self.repaired.is_some())
    }
}

impl Vaults {
    /// Checks everything, and repairs what can be repaired if asked to.
    pub fn fsck(&self, request: &FsckRequest) -> Result<VaultFsck, VfsError> {
        let mut report = VaultFsck { records: self.check_records()?, ..VaultFsck::default() };
        let named = self.records.read(|read| read.named_roots())?;
        if !request.repair {
            report.store = check(&self.store, &named)?;
            report.lost = lost(&named, &report.store.affected);
            return Ok(report);
        }
        let repaired = repair(&self.store, &named, request.source.as_deref())?;
        report.store = repaired.before.clone();
        report.lost = lost(&named, &repaired.remaining);
        report.repaired = Some(repaired);
        let broken: HashSet<TreeId> =
            report.lost.iter().filter(|row| row.is_structural).map(|row| row.tree).collect();
        if !broken.is_empty() {
            report.actions = self.replace_broken(&broken)?;
            let named = self.records.read(|read| read.named_roots())?;
            report.lost = lost(&named, &check(&self.store, &named)?.affected);
        }
        Ok(report)
    }

    fn check_records(&self) -> Result<Vec<String>, VfsError> {
        self.records.outside(|connection| {
            let mut statement = connection.prepare("PRAGMA quick_check(100)")?;
            let rows = statement.query_map([], |row| row.get::<_, String>(0))?;
            let mut problems: Vec<String> = rows.collect::<Result<_, _>>()?;
            problems.retain(|problem| problem != "ok");
            let mut statement = connection.prepare("PRAGMA foreign_key_check")?;
            let rows = statement.query_map([], |row| row.get::<_, String>(0))?;
            for table in rows {
                problems.push(format!("a row of the table {} refers to another that is missing", table?));
            }
            Ok(problems)
        })
    }

    fn replace_broken(&self, broken: &HashSet<TreeId>) -> Result<Vec<String>, VfsError> {
        // The states that a vault can get are found, and counted, before the transaction.
        let mut actions = Vec::new();
        let mut moves: Vec<(VaultRow, TreeId)> = Vec::new();
        let rows = self.records.read(|read| read.vault_rows())?;
        for row in rows.into_iter().filter(|row| broken.contains(&row.tree)) {
            match self.records.read(|read| read.newest_whole(&row, broken))? {
                Some(tree) => moves.push((row, tree)),
                None => actions.push(format!("the vault {:?} has no state that is whole", row.shown())),
            }
        }
        for (row, tree) in moves {
            let totals = totals_of_tree(&self.store, tree)?;
            let now = Self::now();
            let is_moved = self.records.write(|tx| {
                if !tx.move_vault(row.key, row.revision, (tree, row.annotations, totals), now)? {
                    return Ok(false);
                }
                tx.insert_revision(&RevisionRow {
                    vault: row.key,
                    revision: row.revision + 1,
                    // The tree before is what is lost; a row must not refer to it.
                    before: tree,
                    before_annotations: row.annotations,
                    after: tree,
                    after_annotations: row.annotations,
                    totals,
                    operation: "fsck_repair".to_owned(),
                    path: None,
                    detail: None,
                    actor: self.actor.clone(),
                    at: now,
                    target: None,
                })?;
                self.audit_vault(tx, &row, "fsck_repair", None)?;
                Ok(true)
            })?;
            if is_moved {
                actions.push(format!("the vault {:?} has its newest state that is whole", row.shown()));
            }
        }
        let removed = self.records.write(|tx| tx.remove_broken(broken, to_micros(Self::now())))?;
        actions.extend(removed);
        Ok(actions)
    }
}

/// The rows that are affected, by name.
fn lost(named: &[(String, Root)], affected: &[Affected]) -> Vec<LostRow> {
    let trees: HashMap<&str, TreeId> = named
        .iter()
        .filter_map(|(name, root)| match root {
            Root::Tree(tree) => Some((name.as_str(), *tree)),
            Root::Content(_) => None,
        })
        .collect();
    let mut rows: BTreeMap<&str, LostRow> = BTreeMap::new();
    for one in affected {
        let Some(tree) = trees.get(one.root.as_str()) else { continue };
        let row = rows.entry(&one.root).or_insert_with(|| LostRow {
            what: one.root.clone(),
            tree: *tree,
            paths: Vec::new(),
            total: 0,
            is_structural: false,
        });
        row.total += 1;
        // Garbage collection must be able to read these.
        row.is_structural |=
            matches!(one.kind, ObjectKind::Directory | ObjectKind::Page | ObjectKind::Recipe);
        if row.paths.len() < MAX_PATHS {
            row.paths.push(one.path.clone());
        }
    }
    rows.into_values().collect()
}

impl Read<'_> {
    /// All trees that records name, each with one row that has it.
    fn named_roots(&self) -> Result<Vec<(String, Root)>, VfsError> {
        let sql = "
            SELECT 'vault \"' || name || '\"', tree FROM vaults WHERE name IS NOT NULL
            UNION ALL SELECT 'checkpoint \"' || checkpoints.name || '\" of the vault \"'
                || coalesce(vaults.name, hex(vaults.uuid)) || '\"', checkpoints.tree
                FROM checkpoints JOIN vaults ON vaults.id = checkpoints.vault
            UNION ALL SELECT 'run in the vault \"' || coalesce(vaults.name, hex(vaults.uuid)) || '\"', base
                FROM uses JOIN vaults ON vaults.id = uses.vault
            UNION ALL SELECT 'revision ' || revisions.revision || ' of the vault \"'
                || coalesce(vaults.name, hex(vaults.uuid)) || '\"', after_tree
                FROM revisions JOIN vaults ON vaults.id = revisions.vault
            UNION ALL SELECT 'before revision ' || revisions.revision || ' of the vault \"'
                || coalesce(vaults.name, hex(vaults.uuid)) || '\"', before_tree
                FROM revisions JOIN vaults ON vaults.id = revisions.vault
            UNION ALL SELECT 'origin of the vault \"' || coalesce(name, hex(uuid)) || '\"', parent_tree
                FROM vaults WHERE parent_tree IS NOT NULL
            UNION ALL SELECT 'removed vault \"' || hex(uuid) || '\"', tree FROM vaults WHERE name IS NULL
            UNION ALL SELECT 'merge into the vault \"' || coalesce(vaults.name, hex(vaults.uuid)) || '\"', merges.tree
                FROM merges JOIN vaults ON vaults.id = merges.target";
        let rows = self.all(sql, [], |row| Ok((row.get::<_, String>(0)?, tree_of(row, 1)?)))?;
        let mut seen = HashSet::new();
        let mut named = Vec::new();
        for (name, tree) in rows {
            // A vault or a checkpoint is named even if another row has its tree; other rows are many.
            let is_always_named = name.starts_with("vault") || name.starts_with("checkpoint");
            if seen.insert(tree) || is_always_named {
                named.push((name, Root::Tree(tree)));
            }
        }
        Ok(named)
    }

    fn newest_whole(&self, row: &VaultRow, broken: &HashSet<TreeId>) -> Result<Option<TreeId>, VfsError> {
        let line = self.segments(row)?;
        let mut before = None;
        loop {
            let page = self.revisions(&line, before, 256)?;
            let found =
                page.iter().flat_map(|row| [row.after, row.before]).find(|tree| !broken.contains(tree));
            if found.is_some() {
                return Ok(found);
            }
            match page.last() {
                Some(last) => before = Some(last.revision),
                None => break,
            }
        }
        let mut checkpoints = self.checkpoint_rows(&line)?;
        checkpoints.reverse();
        let found = checkpoints.into_iter().map(|row| row.tree).find(|tree| !broken.contains(tree));
        Ok(found.or_else(|| row.parent.map(|parent| parent.tree).filter(|tree| !broken.contains(tree))))
    }
}

impl Tx<'_> {
    /// Removes the rows of trees that cannot be read, so that garbage can be collected again.
    fn remove_broken(&self, broken: &HashSet<TreeId>, now: i64) -> Result<Vec<String>, VfsError> {
        let mut actions = Vec::new();
        let mut count = |what: &str, rows: usize| {
            if rows > 0 {
                actions.push(format!("removed {rows} {what} whose directories are lost"));
            }
        };
        for tree in broken {
            let id = tree.0.as_bytes();
            count("checkpoint(s)", self.execute("DELETE FROM checkpoints WHERE tree = ?1", [id])?);
            let sql = "DELETE FROM revisions WHERE before_tree = ?1 OR after_tree = ?1";
            count("change(s)", self.execute(sql, [id])?);
            count("merge record(s)", self.execute("DELETE FROM merges WHERE tree = ?1", [id])?);
            count("run(s)", self.execute("DELETE FROM uses WHERE base = ?1", [id])?);
            self.execute(
                "UPDATE vaults SET parent_tree = tree, modified_at = ?2 WHERE parent_tree = ?1",
                (id, now),
            )?;
            self.execute(
                "UPDATE vaults SET tree = coalesce(parent_tree, tree) WHERE name IS NULL AND tree = ?1",
                [id],
            )?;
        }
        Ok(actions)
    }
}
