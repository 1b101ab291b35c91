//! Removing long outputs that nobody has fetched.

use std::fs;
use std::time::{Duration, SystemTime};

use super::Places;

/// How long the file of a long output is kept.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
/// How many of these files are kept.
const MOST: usize = 200;

/// Removes old files. What cannot be removed now is removed later: nothing depends on it.
pub fn after_run(places: &Places) {
    let Ok(entries) = fs::read_dir(places.output()) else { return };
    let mut files: Vec<_> = entries
        .flatten()
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    files.sort();
    let surplus = files.len().saturating_sub(MOST);
    let oldest = SystemTime::now().checked_sub(KEPT);
    for (index, (modified, path)) in files.into_iter().enumerate() {
        if index < surplus || oldest.is_some_and(|oldest| modified < oldest) {
            let _ = fs::remove_file(path);
        }
    }
}
