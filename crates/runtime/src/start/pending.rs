//! A machine that is about to be started: its directory, its user and its disk.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use agentiso_blocking::in_place;
use agentiso_core::ports::{DiskSource, Freezing};
use agentiso_vmm::qemu::{self, DiskFile, Memory};
use agentiso_vmm::template::Template;
use agentiso_vmm::{Launch, User, VmError};

use super::Ingredients;
use crate::Installation;
use crate::own_disks::OwnDisks;

/// Whether the disk of a machine has to be created.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum StartDisk {
    /// Created for this start, from the image or a template.
    Fresh,
    /// Exists, and has been written to.
    Existing,
}

/// A machine to start. Its owner removes the directory and a fresh disk if the start fails.
#[derive(Clone, Debug)]
pub(crate) struct PendingStart {
    /// The directory for sockets and logs.
    pub dir: PathBuf,
    /// The user its QEMU runs as, if not the user of this process.
    pub user: Option<User>,
    /// The disk's file.
    pub disk: PathBuf,
    /// Whether the disk has to be created.
    pub disk_is: StartDisk,
    /// It outlives this process, so the template files it depends on are pinned.
    pub lasting: bool,
    /// See [`Launch::spare_port`].
    pub spare_port: bool,
}

impl PendingStart {
    /// Removes what an earlier attempt left.
    #[expect(clippy::disallowed_methods, reason = "called by `launch`, which runs `in_place`")]
    fn clear(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            } else {
                fs::remove_file(entry.path())?;
            }
        }
        if self.disk_is == StartDisk::Fresh {
            return match fs::remove_file(&self.disk) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        Ok(())
    }
}

impl Installation {
    /// Prepares one attempt to start: clears the directory, creates the disk and hands it to QEMU's user.
    pub(super) fn launch<'a>(
        &self,
        with: &Ingredients,
        pending: &'a PendingStart,
        source: &DiskSource,
        memory: Memory,
    ) -> Result<Launch<'a>, VmError> {
        let disk = in_place(|| {
            pending.clear().map_err(VmError::io("clear the machine's directory"))?;
            match pending.disk_is {
                StartDisk::Fresh => self.disks().create(&pending.disk, source, with.image.bytes)?,
                // A process that was killed while it grew the disk may have recorded only the new size.
                StartDisk::Existing => self.disks().let_grow(&pending.disk, with.image.bytes)?,
            }
            self.hand_over(pending)
        })?;
        Ok(Launch {
            dir: &pending.dir,
            hardware: with.hardware,
            user: pending.user.clone(),
            disk,
            memory,
            ephemeral: !pending.lasting,
            spare_port: pending.spare_port,
        })
    }

    /// Creates a disk.
    pub(crate) fn create_disk(&self, path: &Path, source: &DiskSource, bytes: u64) -> Result<(), VmError> {
        Ok(self.disks().create(path, source, bytes)?)
    }

    /// Gives QEMU's user access to the disk. Returns the disk as QEMU's command line needs it.
    pub(crate) fn hand_over(&self, pending: &PendingStart) -> Result<DiskFile, VmError> {
        in_place(|| {
            let disks = self.disks();
            disks.admit(&pending.disk, pending.user.as_ref().map(User::owner))?;
            let (path, format) = (pending.disk.clone(), disks.qemu_format());
            let below = disks.below(&path)?;
            let own = if pending.lasting && disks.freezing() == Freezing::Overlay {
                let shown = self.own_disks(pending, &below);
                Some(shown.map_err(VmError::io("show the machine its disks"))?)
            } else {
                None
            };
            Ok(DiskFile::File { path, format, below, own })
        })
    }

    /// Links the disk and its backing files into the machine's private directory.
    #[expect(clippy::disallowed_methods, reason = "called by `hand_over`, which runs `in_place`")]
    fn own_disks(&self, pending: &PendingStart, below: &[PathBuf]) -> io::Result<qemu::OwnDisks> {
        let own = OwnDisks::of(&pending.dir);
        own.make(pending.user.as_ref().map(|user| user.owner().1))?;
        let all = self.paths.disks_dir();
        let real = all.canonicalize()?;
        own.add(&pending.disk)?;
        // Disks name their backing files by their real path.
        for disk in below.iter().filter(|disk| disk.parent() == Some(&real) || disk.parent() == Some(&all)) {
            own.add(disk)?;
        }
        let mut at = vec![all];
        if at[0] != real {
            at.push(real);
        }
        Ok(qemu::OwnDisks { dir: own.dir().to_owned(), at })
    }

    /// Removes what the back end keeps for deleted disks. What fails is left for the next sweep.
    pub fn sweep_disks(&self) {
        if let Err(error) = self.disks().sweep() {
            tracing::warn!(error = %agentiso_core::chain(&error), "could not sweep deleted disks");
        }
    }

    /// A template's memory and disk for this machine: pinned if the machine is lasting.
    pub(super) fn template_files(
        &self,
        pending: &PendingStart,
        template: &Template,
    ) -> Result<(PathBuf, DiskSource), VmError> {
        if !pending.lasting {
            return Ok((template.ram(), DiskSource::Layer(template.disk())));
        }
        let pin = || Ok((self.pin_memory(template)?, DiskSource::Layer(self.pin_disk(template)?)));
        in_place(pin).map_err(VmError::io("pin the template for the machine"))
    }

    /// A template's memory for this machine: pinned if the machine is lasting.
    pub(super) fn template_memory(
        &self,
        pending: &PendingStart,
        template: &Template,
    ) -> Result<PathBuf, VmError> {
        if !pending.lasting {
            return Ok(template.ram());
        }
        in_place(|| self.pin_memory(template)).map_err(VmError::io("pin the template for the machine"))
    }
}
