//! Vaults mounted as directories of the host.
//!
//! ```text
//!  mount ──► the vault's tree, with a writable layer of its own
//!              │ flush, before a checkpoint of the vault: what changed so far is merged into the vault
//!              └ unmount: the same, and the writable layer is removed
//! ```
//!
//! Several mounts of one vault do not see each other's changes. Where a mount and the vault changed the same, the vault
//! keeps what it has, and what the mount had becomes a fork.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use agentiso_core::{Code, Explain, Failure};
use agentiso_mounts::{
    By, IngestOptions, Ingested, Launcher, MountInfo, MountRequest, MountState, Mounts, Running, WorkDir,
};
use agentiso_vfs::{Endpoint, ForkNames, ForkVault, MergeVaults, OnConflict, StateRef, VaultId, Vaults};
use serde::{Deserialize, Serialize};

use crate::changes;
use crate::envelope::{ChangeReport, FileConflict};
use crate::run::{Places, work_dirs};

/// The command that serves a mount.
pub const SERVE_MOUNT: &str = "serve-mount";

/// What a working directory is for.
#[derive(Debug, Deserialize, Serialize)]
struct Label {
    kind: String,
    /// The id of the vault.
    vault: String,
}

/// The mounts of an installation.
pub struct Mounting<'v> {
    vaults: &'v Vaults,
    places: Places,
    mounts: Mounts,
}

/// A mount of a vault.
#[derive(Clone, Debug)]
pub struct Mounted {
    /// The vault.
    pub vault: VaultId,
    /// The mount.
    pub info: MountInfo,
}

/// What a mount had changed.
#[derive(Clone, Debug, Default)]
pub struct BroughtBack {
    /// The changes; the first ones if there are many.
    pub changes: Vec<ChangeReport>,
    /// How many there are.
    pub total: u64,
    /// Where the vault had been changed too.
    pub conflicts: Vec<FileConflict>,
    /// The fork with what the mount had, if the vault could not take it.
    pub saved_as: Option<String>,
    /// What could not be kept.
    pub notices: Vec<String>,
}

impl<'v> Mounting<'v> {
    /// The mounts of an installation. A server is this program with [`SERVE_MOUNT`] and the path of a record.
    pub fn open(vaults: &'v Vaults, places: &Places) -> Result<Self, Failure> {
        let program = std::env::current_exe().map_err(|error| {
            Failure::new(Code::of_io(&error), format!("could not find this program: {error}"))
        })?;
        let launcher = Launcher { program, arguments: vec![OsString::from(SERVE_MOUNT)] };
        let work = work_dirs(vaults.store(), places)?;
        let mounts = Mounts::open(&places.mounts(), &work, launcher)?;
        Ok(Self { vaults, places: places.clone(), mounts })
    }

    /// Mounts a vault.
    pub fn mount(&self, vault: &str, point: &Path, read_only: bool, by: By) -> Result<Mounted, Failure> {
        let id = self.vaults.info(vault)?.id;
        // Kept while it is mounted by this process; afterwards the working directory keeps it.
        let view = self.vaults.view(vault, &StateRef::Now)?;
        let label = Label { kind: "mount".to_owned(), vault: id.to_string() };
        let label = serde_json::to_string(&label).map_err(|error| {
            Failure::new(Code::Internal, format!("could not describe the mount: {error}"))
        })?;
        let request = MountRequest { tree: view.tree(), point: point.to_owned(), label, read_only, by };
        Ok(Mounted { vault: id, info: self.mounts.mount(&request)? })
    }

    /// All mounts of vaults. What dead ones had changed is brought into their vaults.
    pub fn list(&self) -> Result<Vec<Mounted>, Failure> {
        let all = self.all()?;
        for dead in all.iter().filter(|one| one.info.state == MountState::Dead) {
            // What cannot be brought back now stays where it is, and maintenance tries again.
            let _ = self.recover(dead);
        }
        Ok(all)
    }

    fn all(&self) -> Result<Vec<Mounted>, Failure> {
        let mounts = self.mounts.list()?.into_iter();
        Ok(mounts.filter_map(|info| Some(Mounted { vault: vault_of(&info.label)?, info })).collect())
    }

    /// Brings what mounts of a vault have changed into the vault. They stay mounted.
    pub fn flush(&self, vault: &str) -> Result<BroughtBack, Failure> {
        let id = self.vaults.info(vault)?.id;
        let live =
            |one: &Mounted| one.vault == id && one.info.state == MountState::Live && !one.info.read_only;
        let mut all = BroughtBack::default();
        let work = work_dirs(self.vaults.store(), &self.places)?;
        for one in self.list()?.into_iter().filter(live) {
            let directory = work.visit(&one.info.workdir)?;
            let back = self.bring_back(id, &directory, Running::Unfrozen)?;
            all.changes.extend(back.changes);
            all.total += back.total;
            all.conflicts.extend(back.conflicts);
            all.saved_as = back.saved_as.or(all.saved_as);
            all.notices.extend(back.notices);
        }
        Ok(all)
    }

    /// Unmounts, and brings what was changed into the vault.
    pub fn unmount(&self, point: &Path, lazy: bool) -> Result<(Mounted, BroughtBack), Failure> {
        let all = self.all()?;
        let point = find(point, &all)?;
        for other in all.iter().filter(|one| one.info.state == MountState::Dead && one.info.point != point) {
            let _ = self.recover(other);
        }
        let info = all.into_iter().find(|one| one.info.point == point);
        let Some(mounted) = info else {
            return Err(Failure::new(
                Code::InvalidArgument,
                format!("no vault is mounted at {}", point.display()),
            )
            .with_remedy("avfs mount without arguments lists mounts"));
        };
        // Its server was killed, the host was restarted, or it was unmounted by other means.
        if mounted.info.state == MountState::Dead {
            let back = self.recover(&mounted)?;
            return Ok((mounted, back));
        }
        // While it is mounted, everything can still be copied from it.
        if !mounted.info.read_only && !lazy && self.is_gone(mounted.vault)? {
            return Err(Failure::new(
                Code::VaultNotFound,
                format!(
                    "the vault of {} was removed: there is nothing to keep its changes in",
                    point.display()
                ),
            )
            .with_remedy("copy what you need, then unmount it with --lazy, which gives the changes up"));
        }
        let directory = self.mounts.unmount(&point, lazy)?;
        let back = match mounted.info.read_only {
            true => BroughtBack::default(),
            false if lazy && self.is_gone(mounted.vault)? => BroughtBack::default(),
            false => self.bring_back(mounted.vault, &directory, Running::Nothing)?,
        };
        directory.remove()?;
        Ok((mounted, back))
    }

    /// Brings back what a dead mount had changed.
    fn recover(&self, dead: &Mounted) -> Result<BroughtBack, Failure> {
        let directory = work_dirs(self.vaults.store(), &self.places)?.claim(&dead.info.workdir)?;
        let back = match dead.info.read_only {
            true => BroughtBack::default(),
            false => self.bring_back(dead.vault, &directory, Running::Nothing)?,
        };
        directory.remove()?;
        Ok(back)
    }

    fn is_gone(&self, vault: VaultId) -> Result<bool, Failure> {
        match self.vaults.info(&vault.to_string()) {
            Ok(_) => Ok(false),
            Err(error) if error.code() == Code::VaultNotFound => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    fn bring_back(
        &self,
        vault: VaultId,
        directory: &WorkDir,
        running: Running<'_>,
    ) -> Result<BroughtBack, Failure> {
        if !directory.is_touched()? {
            return Ok(BroughtBack::default());
        }
        let got = directory.ingest(&IngestOptions { running, threads: 0 })?;
        bring_back(self.vaults, vault, &got)
    }
}

/// The mount point that a path names. A dead mount cannot be looked at.
fn find(point: &Path, all: &[Mounted]) -> Result<PathBuf, Failure> {
    let found = point.canonicalize().ok().filter(|found| all.iter().any(|one| one.info.point == *found));
    match found {
        Some(found) => Ok(found),
        None => std::path::absolute(point).map_err(|error| {
            Failure::new(Code::InvalidArgument, format!("could not find {}: {error}", point.display()))
        }),
    }
}

/// Merges what a working directory has into its vault. Where the vault cannot take it, a fork does: nobody can mount the
/// directory again.
pub fn bring_back(vaults: &Vaults, vault: VaultId, got: &Ingested) -> Result<BroughtBack, Failure> {
    let mut back = BroughtBack {
        changes: changes::first(&got.changes),
        total: got.changes.total,
        notices: got.report.notices.iter().map(changes::notice).collect(),
        ..BroughtBack::default()
    };
    if got.changes.total == 0 {
        return Ok(back);
    }
    let name = vault.to_string();
    let tree = |tree| Endpoint::state(&name, StateRef::Tree(tree));
    let request = MergeVaults {
        source: tree(got.tree),
        base: Some(tree(got.before)),
        on_conflict: OnConflict::Ours,
        ..MergeVaults::new(&name, &name)
    };
    let is_refused = match vaults.merge(&request) {
        Ok(merged) => {
            let conflict =
                |path, kind| FileConflict { path: changes::shown(path), reason: changes::reason(kind) };
            back.conflicts = merged.conflicts.iter().map(|one| conflict(&one.path, one.kind)).collect();
            false
        }
        Err(error) if error.code() == Code::QuotaExceeded => {
            back.notices.push(error.to_string());
            true
        }
        Err(error) => return Err(error.into()),
    };
    if is_refused || !back.conflicts.is_empty() {
        let fork = ForkVault {
            source: name,
            state: StateRef::Tree(got.tree),
            names: ForkNames::Automatic(1),
            description: Some("what a mount had that its vault could not take".to_owned()),
            expires_at: None,
        };
        back.saved_as = vaults.fork(&fork)?.pop().map(|fork| fork.name);
    }
    Ok(back)
}

/// The vault that a working directory belongs to.
fn vault_of(label: &str) -> Option<VaultId> {
    let label: Label = serde_json::from_str(label).ok()?;
    if label.kind == "mount" { label.vault.parse().ok().map(VaultId) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_mounts_have_labels_of_mounts() {
        let id = "01890000-0000-7000-8000-000000000001";
        let label = |kind: &str| format!("{{\"kind\":\"{kind}\",\"vault\":\"{id}\"}}");
        assert_eq!(vault_of(&label("mount")).unwrap().to_string(), id);
        assert_eq!(vault_of(&label("run")), None);
        assert_eq!(vault_of("work"), None);
    }
}
