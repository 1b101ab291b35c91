//! Where a machine is put.

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

/// What a machine's disk is made of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum BerthDisk {
    /// It is made for this start, from the image or a template.
    Fresh,
    /// It is there, and somebody has written to it.
    Existing,
}

/// A directory and a disk for one machine.
#[derive(Clone, Debug)]
pub(crate) struct Berth {
    /// For sockets and logs.
    pub dir: PathBuf,
    /// The user its QEMU runs as, if not ours.
    pub user: Option<User>,
    /// The disk's file.
    pub disk: PathBuf,
    /// Whether it has to be made.
    pub disk_is: BerthDisk,
    /// It outlives this process, and so must what it stands on.
    pub lasting: bool,
    /// See [`Launch::spare_port`].
    pub spare_port: bool,
}

impl Berth {
    /// Makes room for another attempt.
    fn clear(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            } else {
                fs::remove_file(entry.path())?;
            }
        }
        if self.disk_is == BerthDisk::Fresh {
            return match fs::remove_file(&self.disk) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        Ok(())
    }
}

impl Installation {
    /// Makes the disk of one attempt to start, and says how QEMU is to be started on it.
    pub(super) fn launch<'a>(
        &self,
        with: &Ingredients,
        berth: &'a Berth,
        source: &DiskSource,
        memory: Memory,
    ) -> Result<Launch<'a>, VmError> {
        berth.clear().map_err(VmError::io("clear the machine's directory"))?;
        match berth.disk_is {
            BerthDisk::Fresh => self.create_disk(&berth.disk, source, with.image.bytes)?,
            // Whoever grew it may have been killed before it was longer.
            BerthDisk::Existing => self.disks().let_grow(&berth.disk, with.image.bytes)?,
        }
        let disk = self.hand_over(berth)?;
        Ok(Launch {
            dir: &berth.dir,
            hardware: with.hardware,
            user: berth.user.clone(),
            disk,
            memory,
            ephemeral: !berth.lasting,
            spare_port: berth.spare_port,
        })
    }

    /// Makes a disk.
    pub(crate) fn create_disk(&self, path: &Path, source: &DiskSource, bytes: u64) -> Result<(), VmError> {
        in_place(|| Ok(self.disks().create(path, source, bytes)?))
    }

    /// Gives a machine its disk, and says what its QEMU is to see of it.
    pub(crate) fn hand_over(&self, berth: &Berth) -> Result<DiskFile, VmError> {
        let disks = self.disks();
        disks.admit(&berth.disk, berth.user.as_ref().map(User::owner))?;
        let (path, format) = (berth.disk.clone(), disks.qemu_format());
        let below = disks.below(&path)?;
        let own = if berth.lasting && disks.freezing() == Freezing::Overlay {
            let shown = self.own_disks(berth, &below);
            Some(shown.map_err(VmError::io("show the machine its disks"))?)
        } else {
            None
        };
        Ok(DiskFile::File { path, format, below, own })
    }

    /// Links what a machine's disk consists of into a directory of its own.
    fn own_disks(&self, berth: &Berth, below: &[PathBuf]) -> io::Result<qemu::OwnDisks> {
        let own = OwnDisks::of(&berth.dir);
        own.make(berth.user.as_ref().map(|user| user.owner().1))?;
        let all = self.paths.disks_dir();
        let real = all.canonicalize()?;
        own.add(&berth.disk)?;
        // What it stands on names the next by its real path.
        for disk in below.iter().filter(|disk| disk.parent() == Some(&real) || disk.parent() == Some(&all)) {
            own.add(disk)?;
        }
        let mut at = vec![all];
        if at[0] != real {
            at.push(real);
        }
        Ok(qemu::OwnDisks { dir: own.dir().to_owned(), at })
    }

    /// Removes what was kept for disks that are gone. What cannot be removed now is by whoever comes next.
    pub fn sweep_disks(&self) {
        if let Err(error) = self.disks().sweep() {
            tracing::warn!(error = %agentiso_core::chain(&error), "could not remove what was kept for disks that are gone");
        }
    }

    /// A template's memory and disk, as a machine in this berth may stand on them.
    pub(super) fn footing(
        &self,
        berth: &Berth,
        template: &Template,
    ) -> Result<(PathBuf, DiskSource), VmError> {
        if !berth.lasting {
            return Ok((template.ram(), DiskSource::Layer(template.disk())));
        }
        let hold = || Ok((self.hold_memory(template)?, DiskSource::Layer(self.hold_disk(template)?)));
        hold().map_err(VmError::io("keep the template for as long as the machine needs it"))
    }
}
