//! The owners of disk files, when each machine runs as its own user.
//!
//! ```text
//!   the disk a machine writes to      the machine's user, mode 0600
//!   frozen disks                      root, readable by the group of all machines
//!   the disk of a stopped workspace   root, mode 0600
//! ```
//!
//! User ids are reused after a machine has ended, so none of its files may keep its owner. Files that a killed process
//! did not change back are changed when the workspaces are next opened.
#![expect(clippy::disallowed_methods, reason = "the methods run `in_place`, or are called so")]

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use agentiso_blocking::in_place;
use agentiso_core::{DiskId, Failure};
use agentiso_meta::Workspace;
use agentiso_vmm::make_base;

use super::Workspaces;
use super::machine::MachineState;
use crate::own_disks::OwnDisks;

impl Workspaces {
    /// Lets a running machine open a new disk.
    pub(super) fn show(&self, state: &MachineState, disk: &Path) -> Result<(), Failure> {
        in_place(|| self.show_blocking(state, disk))
    }

    fn show_blocking(&self, state: &MachineState, disk: &Path) -> Result<(), Failure> {
        // Machines started by earlier versions run as the shared user.
        let shared = || Ok::<_, Failure>(self.installation.shared_user()?.map(|user| (user.uid, user.gid)));
        let user = state.record.user.map_or_else(shared, |user| Ok(Some(user)))?;
        self.installation.disks().admit(disk, user)?;
        match self.private_disks(state)? {
            Some(own) => {
                own.add(disk).map_err(|error| self.installation.io("show the machine a disk", error))
            }
            None => Ok(()),
        }
    }

    /// The private disk directory of a machine; `None` if it was started by an earlier version and sees all disks.
    fn private_disks(&self, state: &MachineState) -> Result<Option<OwnDisks>, Failure> {
        let own = OwnDisks::of(&state.dir.path(&self.installation.paths.workspaces_dir()));
        let exists =
            own.exist().map_err(|error| self.installation.io("list the disks of a machine", error))?;
        Ok(exists.then_some(own))
    }

    /// Lets a machine see exactly the files that its disk consists of now.
    pub(super) fn show_current(&self, workspace: &Workspace, state: &MachineState) -> Result<(), Failure> {
        in_place(|| self.show_current_blocking(workspace, state))
    }

    fn show_current_blocking(&self, workspace: &Workspace, state: &MachineState) -> Result<(), Failure> {
        let Some(own) = self.private_disks(state)? else { return Ok(()) };
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

    /// Whether a machine sees disks that were replaced or removed.
    pub(super) fn sees_old(&self, state: &MachineState) -> Result<bool, Failure> {
        in_place(|| {
            let Some(own) = self.private_disks(state)? else { return Ok(false) };
            let old = own.is_behind(&self.installation.paths.disks_dir());
            old.map_err(|error| self.installation.io("list the disks of a machine", error))
        })
    }

    /// Gives a frozen disk to root. What fails is tried again when the workspaces are next opened.
    pub(super) fn own_frozen(&self, frozen: DiskId) {
        let Some(group) = self.group_of_machines() else { return };
        if let Err(error) = in_place(|| make_base(&self.installation.disk_path(frozen), group)) {
            tracing::warn!(%error, disk = %frozen, "could not change the owner of a frozen disk");
        }
    }

    /// Gives the disk of a machine that has ended to root.
    pub(super) fn own_stopped(&self, disk: DiskId) {
        if self.group_of_machines().is_none() {
            return;
        }
        if let Err(error) = in_place(|| make_roots(&self.installation.disk_path(disk))) {
            tracing::warn!(%error, %disk, "could not change the owner of a stopped workspace's disk");
        }
    }

    /// Gives all disks to root that no running machine writes to.
    pub(super) fn own_disks(&self) -> Result<(), Failure> {
        let Some(group) = self.group_of_machines() else { return Ok(()) };
        let (disks, workspaces, pool) =
            self.meta.read(|read| Ok((read.disks()?, read.workspaces()?, read.pool()?)))?;
        let mut written: HashSet<DiskId> = pool.iter().map(|machine| machine.disk).collect();
        written.extend(workspaces.iter().filter(|one| one.machine().is_some()).map(|one| one.disk));
        for disk in disks.iter().filter(|disk| !written.contains(&disk.id)) {
            let path = self.installation.disk_path(disk.id);
            let owned = match path.symlink_metadata() {
                Ok(about) if about.is_file() && about.uid() != 0 => match disk.frozen {
                    true => make_base(&path, group),
                    false => make_roots(&path),
                },
                Ok(_) => Ok(()),
                // A missing disk is reported by the operation that needs it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                Err(error) => Err(error),
            };
            owned.map_err(|error| self.installation.io("change the owner of a disk", error))?;
        }
        Ok(())
    }

    /// The group of all machines; `None` if they run as the user of this process.
    fn group_of_machines(&self) -> Option<u32> {
        self.installation.shared_user().ok().flatten().map(|user| user.gid)
    }
}

/// Gives a disk to root. For a volume, this changes the owner of the device that the link names.
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
