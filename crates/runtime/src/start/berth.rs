//! Where a machine is put.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use agentiso_core::ports::DiskSource;
use agentiso_vmm::qemu::{Credentials, DiskFile, Memory};
use agentiso_vmm::template::Template;
use agentiso_vmm::{Launch, VmError, in_place};

use super::Ingredients;
use crate::Installation;

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
    /// For sockets and logs; QEMU's user may write to it.
    pub dir: PathBuf,
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
            fs::remove_file(entry?.path())?;
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
            BerthDisk::Fresh => self.create_disk(&berth.disk, source, with.image.bytes, with.host.run_as)?,
            BerthDisk::Existing => {
                // Whoever grew it may have been killed before it was longer.
                self.disks().let_grow(&berth.disk, with.image.bytes)?;
                self.admit(&berth.disk, with.host.run_as)?;
            }
        }
        let disk = DiskFile::File { path: berth.disk.clone(), format: self.disks().qemu_format() };
        Ok(Launch {
            dir: &berth.dir,
            hardware: with.hardware,
            disk,
            memory,
            ephemeral: !berth.lasting,
            spare_port: berth.spare_port,
        })
    }

    /// Makes a disk that QEMU's user may write to.
    pub(crate) fn create_disk(
        &self,
        path: &Path,
        source: &DiskSource,
        bytes: u64,
        owner: Option<Credentials>,
    ) -> Result<(), VmError> {
        in_place(|| {
            self.disks().create(path, source, bytes)?;
            self.admit(path, owner)
        })
    }

    /// Lets QEMU's user at a disk.
    fn admit(&self, path: &Path, user: Option<Credentials>) -> Result<(), VmError> {
        Ok(self.disks().admit(path, user.map(|user| (user.uid, user.gid)))?)
    }

    /// Removes what was kept for disks that are gone. What cannot be removed now is by whoever comes next.
    pub(crate) fn sweep_disks(&self) {
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
