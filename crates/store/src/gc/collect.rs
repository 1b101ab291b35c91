//! A whole collection.

use std::sync::Arc;
use std::{fs, io};

use super::leftovers;
use super::mark::Live;
use super::replace::Replacement;
use super::tidy::is_small;
use crate::error::StoreError;
use crate::lease::{self, Root};
use crate::locks;
use crate::pack::{Pack, RECORD_LEN};
use crate::steps::Step;
use crate::store::{PackSet, Store};

/// How thorough a collection is.
#[derive(Clone, Copy, Debug)]
pub struct GcOptions {
    /// A pack is rewritten if at least this percentage of it is garbage. 0 rewrites every pack with garbage.
    pub min_waste_percent: u8,
}

impl Default for GcOptions {
    fn default() -> Self {
        Self { min_waste_percent: 25 }
    }
}

/// What a collection found and did.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct GcReport {
    /// Objects that are reachable.
    pub live_objects: u64,
    /// Objects that were removed, counted once for each copy.
    pub removed_objects: u64,
    /// Packs that were removed or rewritten.
    pub removed_packs: u64,
    /// Bytes that were freed: removed packs and leftovers, less the new packs.
    pub freed_bytes: u64,
    /// Temporary files of ended processes that were removed.
    pub leftovers: u64,
    /// Damage because of which packs were kept. Run fsck.
    pub damaged: Vec<String>,
}

/// Removes what is not reachable from the caller's roots, from pins or from leases.
///
/// `roots` is called once, after the collection has begun; it must read the caller's records then, and not before.
/// Fails with [`StoreError::Busy`] if another process is collecting.
pub fn collect<E: From<StoreError>>(
    store: &Store,
    options: GcOptions,
    roots: impl FnOnce() -> Result<Vec<Root>, E>,
) -> Result<GcReport, E> {
    let _gc =
        locks::collector(store.root())?.ok_or_else(|| StoreError::Busy { path: store.root().to_owned() })?;
    let (packs, ended, leftovers) = begin(store)?;
    let roots = roots()?;
    for path in &ended {
        remove_lease(path)?;
    }
    Ok(run(store, options, roots, &packs, leftovers)?)
}

type Begun = (Arc<PackSet>, Vec<std::path::PathBuf>, (u64, u64));

/// What exists at one moment: packs, the leases that have ended, and leftovers.
fn begin(store: &Store) -> Result<Begun, StoreError> {
    let _commit = store.commit_lock(true)?;
    let leftovers = leftovers::remove(store)?;
    let leases = lease::list(store)?;
    let ended = leases.into_iter().filter(|lease| lease.is_ended).map(|lease| lease.path).collect();
    Ok((store.refresh()?, ended, leftovers))
}

fn remove_lease(path: &std::path::Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::io("remove", path)(error)),
        _ => Ok(()),
    }
}

fn run(
    store: &Store,
    options: GcOptions,
    roots: Vec<Root>,
    packs: &PackSet,
    (leftovers, leftover_bytes): (u64, u64),
) -> Result<GcReport, StoreError> {
    if let Some((path, error)) = packs.damaged.first() {
        // Its objects may be live, and what they name as well.
        return Err(StoreError::damaged(path.display(), error));
    }
    store.step(Step::Mark)?;
    let mut live = Live::default();
    for root in roots.into_iter().chain(store.pins()?.into_iter().map(|(_, root)| root)) {
        live.mark(store, root)?;
    }
    // Most leases were there before; marking them now keeps the locked part short. Their roots may be incomplete yet.
    for root in leased(store)? {
        match live.mark(store, root) {
            Err(error) if !error.is_damage() => return Err(error),
            _ => {}
        }
    }
    let mut replacement = Replacement::new(store, wasteful(packs, &live, options)?);
    let mut copied = replacement.copy(|id| live.contains(id))?;
    replacement.flush()?;
    let commit = store.commit_lock(true)?;
    for root in store.pins()?.into_iter().map(|(_, root)| root).chain(leased(store)?) {
        // A lease may name what its owner never published, because it failed or died in the middle of a commit. The root
        // of a tree is published last.
        if root.is_published(store)? {
            live.mark(store, root)?;
        }
    }
    copied += replacement.copy(|id| live.contains(id))?;
    let damaged = std::mem::take(&mut replacement.damaged);
    let before = size_of(store.refresh()?.as_ref());
    let (removed_packs, objects) = replacement.finish(&commit)?;
    let after = size_of(&store.packs());
    Ok(GcReport {
        live_objects: live.len() as u64,
        removed_objects: objects.saturating_sub(copied),
        removed_packs,
        freed_bytes: (before + leftover_bytes).saturating_sub(after),
        leftovers,
        damaged,
    })
}

fn leased(store: &Store) -> Result<Vec<Root>, StoreError> {
    Ok(lease::list(store)?.into_iter().flat_map(|lease| lease.roots).collect())
}

fn size_of(packs: &PackSet) -> u64 {
    packs.packs.iter().map(|pack| pack.len()).sum()
}

/// The packs to replace.
fn wasteful(packs: &PackSet, live: &Live, options: GcOptions) -> Result<Vec<Arc<Pack>>, StoreError> {
    let mut doomed = Vec::new();
    let mut small = Vec::new();
    for pack in &packs.packs {
        let entries = pack.entries()?;
        let dead = entries.iter().filter(|entry| !live.contains(&entry.header.id));
        let waste: u64 = dead.map(|entry| RECORD_LEN as u64 + u64::from(entry.header.stored)).sum();
        if waste > 0 && waste * 100 >= pack.len() * u64::from(options.min_waste_percent) {
            doomed.push(pack.clone());
        } else if is_small(pack) {
            small.push(pack.clone());
        }
    }
    if small.len() > 1 {
        doomed.extend(small);
    }
    Ok(doomed)
}

/// What a collection would remove, as far as it is known now.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Garbage {
    /// Objects, counted once for each copy.
    pub objects: u64,
    /// Their size in packs.
    pub bytes: u64,
}

/// Counts what is not reachable from these roots, from pins or from leases. Removes nothing.
pub fn garbage(store: &Store, roots: Vec<Root>) -> Result<Garbage, StoreError> {
    let packs = store.refresh()?;
    if let Some((path, error)) = packs.damaged.first() {
        return Err(StoreError::damaged(path.display(), error));
    }
    let mut live = Live::default();
    for root in roots.into_iter().chain(store.pins()?.into_iter().map(|(_, root)| root)) {
        live.mark(store, root)?;
    }
    for root in leased(store)? {
        match live.mark(store, root) {
            // Its owner may not have published it yet.
            Err(error) if !error.is_damage() => return Err(error),
            _ => {}
        }
    }
    let mut found = Garbage::default();
    for pack in &packs.packs {
        for entry in pack.entries()?.iter().filter(|entry| !live.contains(&entry.header.id)) {
            found.objects += 1;
            found.bytes += RECORD_LEN as u64 + u64::from(entry.header.stored);
        }
    }
    Ok(found)
}
