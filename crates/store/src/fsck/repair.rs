//! Repairs what can be repaired.
//!
//! 1. Packs whose index cannot be used are read from the start, and their good objects are stored again.
//! 2. Objects without a good copy are looked for in a directory of the host, by importing it.
//! 3. Packs with damaged objects are moved to `damaged/`, after their good objects were stored again. Nothing is deleted.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use super::affected::Affected;
use super::check::{FsckReport, read_all};
use super::{affected, check};
use crate::error::StoreError;
use crate::id::ObjectId;
use crate::import::{ImportOptions, import_directory};
use crate::lease::Root;
use crate::locks;
use crate::pack::salvage;
use crate::store::Store;

/// What a repair did.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Repaired {
    /// What was wrong before.
    pub before: FsckReport,
    /// Paths that are affected still.
    pub remaining: Vec<Affected>,
    /// Objects that a root needs and that have a good copy again.
    pub restored: u64,
    /// Packs that were moved to the directory `damaged` of the store.
    pub quarantined: Vec<String>,
}

/// Checks the store and repairs it. `source` is a directory that may still have files that were lost, for example the one
/// that was imported. Fails with [`StoreError::Busy`] while another process collects garbage.
pub fn repair(
    store: &Store,
    roots: &[(String, Root)],
    source: Option<&Path>,
) -> Result<Repaired, StoreError> {
    let _gc =
        locks::collector(store.root())?.ok_or_else(|| StoreError::Busy { path: store.root().to_owned() })?;
    let before = check::check(store, roots)?;
    if before.is_clean() {
        return Ok(Repaired { before, ..Repaired::default() });
    }
    let mut good = read_all(store, &mut FsckReport::default())?;
    let lost = |affected: &[Affected]| affected.iter().map(|one| one.object).collect::<HashSet<ObjectId>>();
    let lost_before = lost(&before.affected);
    let bad_packs: HashSet<String> = before.damage.iter().map(|damage| damage.pack.clone()).collect();
    rescue(store, &bad_packs, &mut good)?;
    let mut remaining = affected::find(store, &good, roots)?;
    if let Some(source) = source.filter(|_| !remaining.is_empty()) {
        // A lost directory hides what it names, so more may turn out to be lost once it is back.
        loop {
            let missing = lost(&remaining);
            reimport(store, source, missing.clone())?;
            good = read_all(store, &mut FsckReport::default())?;
            remaining = affected::find(store, &good, roots)?;
            if remaining.is_empty() || lost(&remaining) == missing {
                break;
            }
        }
    }
    let quarantined = quarantine(store, bad_packs)?;
    let still_lost = lost(&remaining);
    let restored = lost_before.iter().filter(|id| !still_lost.contains(id)).count() as u64;
    Ok(Repaired { before, remaining, restored, quarantined })
}

/// Stores the good objects of bad packs again.
fn rescue(store: &Store, packs: &HashSet<String>, good: &mut HashSet<ObjectId>) -> Result<(), StoreError> {
    let session = store.begin()?;
    for name in packs {
        salvage(&store.root().join("packs").join(name), |header, record| {
            good.insert(header.id);
            session.append(header, record)
        })?;
    }
    session.commit(&[]).map(drop)
}

/// Imports a directory without relying on the stored copies of what is lost.
fn reimport(store: &Store, source: &Path, lost: HashSet<ObjectId>) -> Result<(), StoreError> {
    let session = store.begin()?.distrusting(lost);
    import_directory(&session, source, &ImportOptions { skip_unreadable: true, ..ImportOptions::default() })?;
    session.commit(&[]).map(drop)
}

fn quarantine(store: &Store, packs: HashSet<String>) -> Result<Vec<String>, StoreError> {
    let directory = store.root().join("damaged");
    fs::create_dir_all(&directory).map_err(StoreError::io("create", &directory))?;
    let _commit = store.commit_lock(true)?;
    let mut moved: Vec<String> = packs.into_iter().collect();
    moved.sort();
    for name in &moved {
        let (from, to) = (store.root().join("packs").join(name), directory.join(name));
        fs::rename(&from, &to).map_err(StoreError::io("move", &from))?;
    }
    store.sync_packs()?;
    store.refresh()?;
    Ok(moved)
}
