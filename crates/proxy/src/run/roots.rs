//! What working directories need of the store.

use agentiso_core::Failure;
use agentiso_mounts::{LayoutOptions, Layouts, Support, WorkDirs};
use agentiso_store::{Root, Store};

use super::Places;

/// The trees that working directories need. Garbage collection has to keep them.
pub fn roots(store: &Store, places: &Places) -> Result<Vec<Root>, Failure> {
    Ok(work_dirs(store, places)?.roots()?)
}

/// The working directories.
pub fn work_dirs(store: &Store, places: &Places) -> Result<WorkDirs, Failure> {
    let layouts = Layouts::open(&places.layouts(), store, LayoutOptions::default())?;
    let support = Support::probe(&places.work())?;
    Ok(WorkDirs::open(&places.work(), store, &layouts, &support)?)
}
