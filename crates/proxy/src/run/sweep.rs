//! Removing what earlier runs have left.

use std::fs;
use std::time::{Duration, SystemTime};

use agentiso_core::{Code, Explain, Failure};
use agentiso_mounts::{IngestOptions, Running, WorkDir};
use agentiso_vfs::{VaultId, Vaults};
use serde_json::Value;

use super::{Places, work_dirs};
use crate::mounting::bring_back;

/// How long the file of a long output is kept.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
/// How many of these files are kept.
const MOST: usize = 200;
/// How many working directories there may be before they are looked at.
const USUAL: usize = 16;

/// Removes old files. What cannot be removed now is removed later: nothing depends on it.
pub fn after_run(vaults: &Vaults, places: &Places) {
    outputs(places);
    let is_many = fs::read_dir(places.work()).is_ok_and(|entries| entries.count() > USUAL);
    if is_many {
        let _ = reclaim(vaults, places);
    }
}

fn outputs(places: &Places) {
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

/// Removes the working directories of killed processes, and forgets their runs. A command that did not end has changed
/// nothing; what a killed `enter` or a dead mount had changed is brought into its vault. Returns how many were removed.
pub fn reclaim(vaults: &Vaults, places: &Places) -> Result<u64, Failure> {
    let mut removed = 0;
    for directory in work_dirs(vaults.store(), places)?.abandoned()? {
        let label: Value = serde_json::from_str(&directory.label()).unwrap_or_default();
        match label["kind"].as_str() {
            Some("run" | "session") => {}
            // What cannot be brought back now stays, and keeps no other from it.
            Some("enter" | "mount") if bring(vaults, &label, &directory).is_err() => continue,
            Some("enter" | "mount") => {}
            // What others made is theirs.
            _ => continue,
        }
        directory.remove()?;
        removed += 1;
    }
    for one in vaults.uses(None)?.into_iter().filter(|one| !one.is_alive) {
        vaults.forget_use(one.id)?;
    }
    Ok(removed)
}

/// Brings what a directory has into its vault, unless that was removed.
fn bring(vaults: &Vaults, label: &Value, directory: &WorkDir) -> Result<(), Failure> {
    let id = label["vault"].as_str().and_then(|id| id.parse().ok()).map(VaultId);
    let Some(vault) = id else {
        return Err(Failure::new(Code::Internal, "a working directory does not say what it is for"));
    };
    match vaults.info(&vault.to_string()) {
        Ok(_) if directory.is_touched()? => {
            let got = directory.ingest(&IngestOptions { running: Running::Nothing, threads: 0 })?;
            bring_back(vaults, vault, &got).map(|_| ())
        }
        Ok(_) => Ok(()),
        Err(error) if error.code() == Code::VaultNotFound => Ok(()),
        Err(error) => Err(error.into()),
    }
}
