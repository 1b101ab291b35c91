//! Whose the disks are, where each machine has a user of its own.
//!
//! ```text
//!   the disk a machine writes to      its own user, mode 0600
//!   what is frozen                    root, for the group of all machines to read
//!   the disk of a stopped workspace   root, mode 0600
//! ```
//!
//! An id is another machine's when the first one has ended, so nothing of a machine may stay its own. What could not be
//! taken over at the time, because a process was killed, is when the workspaces are next opened.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use agentiso_core::{DiskId, Failure};
use agentiso_meta::Workspace;
use agentiso_vmm::make_base;

use super::Workspaces;
use super::machine::MachineState;
use crate::own_disks::OwnDisks;

impl Workspaces {
    /// Lets a running machine open a disk that was made for it.
    pub(super) fn show(&self, state: &MachineState, disk: &Path) -> Result<(), Failure> {
        // A machine of an earlier version runs as the user that all had.
        let shared = || Ok::<_, Failure>(self.installation.shared_user()?.map(|user| (user.uid, user.gid)));
        let user = state.record.user.map_or_else(shared, |user| Ok(Some(user)))?;
        self.installation.disks().admit(disk, user)?;
        let own = OwnDisks::of(&state.berth.path(&self.installation.paths.workspaces_dir()));
        if !own.exist() {
            return Ok(());
        }
        own.add(disk).map_err(|error| self.installation.io("show the machine a disk", error))
    }

    /// Lets a machine see what its disk consists of now, and nothing else.
    pub(super) fn show_current(&self, workspace: &Workspace, state: &MachineState) -> Result<(), Failure> {
        let own = OwnDisks::of(&state.berth.path(&self.installation.paths.workspaces_dir()));
        if !own.exist() {
            return Ok(());
        }
        let (all, disk) = (self.installation.paths.disks_dir(), self.installation.disk_path(workspace.disk));
        let doing = |error| self.installation.io("show the machine its disks", error);
        let real = all.canonicalize().map_err(doing)?;
        let below = self.installation.disks().below(&disk)?;
        let ours =
            below.iter().chain([&disk]).filter(|disk| [Some(&*all), Some(&*real)].contains(&disk.parent()));
        let names: BTreeSet<OsString> =
            ours.filter_map(|disk| disk.file_name().map(OsString::from)).collect();
        own.keep_up(&all, &names).map_err(doing)
    }

    /// Whether what a machine sees is not what there is.
    pub(super) fn sees_old(&self, state: &MachineState) -> Result<bool, Failure> {
        let own = OwnDisks::of(&state.berth.path(&self.installation.paths.workspaces_dir()));
        if !own.exist() {
            return Ok(false);
        }
        let old = own.is_behind(&self.installation.paths.disks_dir());
        old.map_err(|error| self.installation.io("look at the disks of a machine", error))
    }

    /// Makes a disk that is frozen now root's. What fails is tried again when the workspaces are next opened.
    pub(super) fn own_frozen(&self, frozen: DiskId) {
        let Some(group) = self.group_of_machines() else { return };
        if let Err(error) = make_base(&self.installation.disk_path(frozen), group) {
            tracing::warn!(%error, disk = %frozen, "could not take over a disk that is frozen");
        }
    }

    /// Makes the disk of a workspace whose machine has ended root's.
    pub(super) fn own_stopped(&self, disk: DiskId) {
        if self.group_of_machines().is_none() {
            return;
        }
        if let Err(error) = make_roots(&self.installation.disk_path(disk)) {
            tracing::warn!(%error, %disk, "could not take back the disk of a machine that has ended");
        }
    }

    /// Makes everything root's that belongs to no machine that runs.
    pub(super) fn own_disks(&self) -> Result<(), Failure> {
        let Some(group) = self.group_of_machines() else { return Ok(()) };
        let (disks, workspaces, pool) =
            self.meta.read(|read| Ok((read.disks()?, read.workspaces()?, read.pool()?)))?;
        let mut written: HashSet<DiskId> = pool.iter().map(|machine| machine.disk).collect();
        written.extend(workspaces.iter().filter(|one| one.machine().is_some()).map(|one| one.disk));
        for disk in disks.iter().filter(|disk| !written.contains(&disk.id)) {
            let path = self.installation.disk_path(disk.id);
            match path.symlink_metadata() {
                Ok(about) if about.is_file() && about.uid() != 0 => {
                    if disk.frozen { make_base(&path, group) } else { make_roots(&path) }
                        .map_err(|error| self.installation.io("take over the disk of a machine", error))?;
                }
                // One that is missing is noticed by who needs it.
                _ => {}
            }
        }
        Ok(())
    }

    /// The group of all machines, if they have users of their own.
    fn group_of_machines(&self) -> Option<u32> {
        self.installation.shared_user().ok().flatten().map(|user| user.gid)
    }
}

/// Of a volume it is the device that has been a machine's.
fn make_roots(disk: &Path) -> io::Result<()> {
    match std::os::unix::fs::chown(disk, Some(0), Some(0)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    }
    if disk.symlink_metadata()?.is_file() {
        fs::set_permissions(disk, Permissions::from_mode(0o600))?;
    }
    Ok(())
}
