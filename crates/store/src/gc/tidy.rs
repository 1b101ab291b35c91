//! Joins small packs, so that a store with many commits stays quick.

use std::sync::Arc;

use super::replace::Replacement;
use crate::error::StoreError;
use crate::locks;
use crate::pack::Pack;
use crate::store::Store;

/// Packs above this size are left alone.
const SMALL: u64 = 16 << 20;
/// Packs of about the same size are joined when there are this many of them.
const CROWD: usize = 16;

pub(super) fn is_small(pack: &Pack) -> bool {
    pack.len() < SMALL
}

/// Joins packs of similar size if there are many; returns how many were joined. Keeps every object. Costs next to nothing
/// if there is nothing to do, so call it after commits, when nobody waits. Does nothing while garbage is collected.
///
/// Each object is copied at most once for each factor of 16 in size, so the cost per commit stays the same however many
/// there are.
pub fn tidy(store: &Store) -> Result<u64, StoreError> {
    if crowd(store)?.is_empty() {
        return Ok(0);
    }
    let Some(_gc) = locks::collector(store.root())? else { return Ok(0) };
    let mut joined = 0;
    loop {
        let doomed = crowd(store)?;
        if doomed.is_empty() {
            return Ok(joined);
        }
        let count = doomed.len() as u64;
        let mut replacement = Replacement::new(store, doomed);
        replacement.copy(|_| true)?;
        replacement.flush()?;
        if !replacement.damaged.is_empty() {
            return Ok(joined);
        }
        let commit = store.commit_lock(true)?;
        replacement.finish(&commit)?;
        joined += count;
    }
}

/// The packs of the lowest power of sixteen that has too many.
fn crowd(store: &Store) -> Result<Vec<Arc<Pack>>, StoreError> {
    let mut tiers: Vec<Vec<Arc<Pack>>> = vec![Vec::new(); 17];
    for pack in store.refresh()?.packs.iter().filter(|pack| is_small(pack)) {
        let tier = (pack.len().max(1).ilog2() / 4) as usize;
        if let Some(packs) = tiers.get_mut(tier) {
            packs.push(pack.clone());
        }
    }
    Ok(tiers.into_iter().find(|packs| packs.len() >= CROWD).unwrap_or_default())
}
