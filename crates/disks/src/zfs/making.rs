//! Creating volumes, so that a failure leaves none behind.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use agentiso_core::ports::{DiskCopy, DiskError, ZpoolError};

use super::backend::Zvols;
use super::listing::LINK;
use super::name::{HomeId, Snapshot, Volume, Volumes, random_digits};
use super::node;
use super::ticket::{self, Ticket};
use super::tool::zfs;
use super::tree::Step;

/// A volume in progress. Dropping it before it is published removes it.
#[derive(Debug)]
pub(super) struct New {
    home: HomeId,
    path: PathBuf,
    volume: Volume,
    link: String,
    /// `None` once the disk has its final name.
    ticket: Option<Ticket>,
    snapshot: Option<Snapshot>,
}

impl Zvols {
    /// Starts a volume for a disk. Its name begins with `stem`, if that is a valid name.
    pub(super) fn begin(&self, path: &Path, stem: &str) -> Result<New, DiskError> {
        let failed = |cause| DiskError::Io { action: "create the disk", path: path.to_owned(), cause };
        let Some(link) = ticket::spell(&self.root, path) else {
            let reason = format!("it is not in {}", self.root.display());
            return Err(DiskError::BadDisk { path: path.to_owned(), reason });
        };
        let id = random_digits().map_err(failed)?;
        let volume = self.dataset.volume(&self.home, &format!("{stem}.{id}"));
        let Some(volume) = volume.or_else(|| self.dataset.volume(&self.home, &format!("disk.{id}"))) else {
            return Err(failed(io::Error::other("no name for the volume")));
        };
        let ticket = Some(Ticket::write(path, &volume).map_err(failed)?);
        let (home, path) = (self.home.clone(), path.to_owned());
        Ok(New { home, path, volume, link, ticket, snapshot: None })
    }
}

impl New {
    pub(super) fn volume(&self) -> &Volume {
        &self.volume
    }

    /// Creates an empty volume.
    pub(super) fn make(&self, size: u64, block: u64) -> Result<(), ZpoolError> {
        let (size, block, link) = (size.to_string(), format!("volblocksize={block}"), self.note());
        let name = self.volume.as_str();
        zfs("make", name).run(&["create", "-s", "-V", &size, "-o", &block, "-o", &link, name]).map(drop)
    }

    /// Takes a snapshot of a volume.
    pub(super) fn snapshot(&mut self, source: &Volume) -> Result<(), ZpoolError> {
        let leaf = self.volume.as_str().rsplit('/').next().unwrap_or_default();
        let snapshot = Snapshot { volume: source.clone(), tag: format!("{}.{leaf}", self.home.as_str()) };
        zfs("take a snapshot of", source.as_str()).run(&["snapshot", &snapshot.to_string()])?;
        self.snapshot = Some(snapshot);
        Ok(())
    }

    /// Creates it as a clone of the snapshot, larger if a size is given.
    pub(super) fn clone_held(&self, size: Option<u64>) -> Result<(), ZpoolError> {
        let (name, origin) = (self.volume.as_str(), self.snapshot.as_ref().map(Snapshot::to_string));
        let (link, size) = (self.note(), size.map(|size| format!("volsize={size}")));
        let mut arguments = vec!["clone", "-o", &link];
        if let Some(size) = &size {
            arguments.extend(["-o", size]);
        }
        arguments.extend(origin.as_deref());
        arguments.push(name);
        zfs("make", name).run(&arguments).map(drop)
    }

    fn note(&self) -> String {
        format!("{LINK}={}", self.link)
    }

    /// Gives the disk its final name.
    pub(super) fn publish(mut self) -> Result<Volume, DiskError> {
        let published = self.ticket.as_mut().map_or(Ok(()), Ticket::publish);
        match published {
            Ok(()) => {
                self.ticket = None;
                Ok(self.volume.clone())
            }
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {
                Err(DiskError::Exists(self.path.clone()))
            }
            Err(cause) => Err(DiskError::Io { action: "create the disk", path: self.path.clone(), cause }),
        }
    }
}

impl Drop for New {
    fn drop(&mut self) {
        if self.ticket.is_none() {
            return;
        }
        // If that fails it has no link, and the next sweep removes it.
        let _ = perform(&Step::Destroy(self.volume.clone()));
        if let Some(snapshot) = self.snapshot.take() {
            let _ = perform(&Step::DestroySnapshot(snapshot));
        }
    }
}

/// A clone in progress.
pub(super) struct VolumeCopy {
    pub new: New,
    pub source: Volume,
    /// The source's device, which is flushed: ZFS does not see data in the host's page cache.
    pub device: File,
    /// The new size, if it is larger.
    pub size: Option<u64>,
    /// Keeps the snapshot, which has no clone yet, from being swept.
    pub _turn: File,
}

impl DiskCopy for VolumeCopy {
    fn hold(&mut self) -> Result<(), DiskError> {
        node::write_back(&self.device, &self.source)?;
        Ok(self.new.snapshot(&self.source)?)
    }

    fn finish(self: Box<Self>) -> Result<(), DiskError> {
        self.new.clone_held(self.size)?;
        self.new.publish().map(drop)
    }
}

/// Runs one `zfs` command.
pub(super) fn perform(step: &Step) -> Result<(), ZpoolError> {
    match step {
        Step::Promote(volume) => zfs("promote", volume.as_str()).run(&["promote", volume.as_str()]),
        Step::Destroy(volume) => zfs("remove", volume.as_str()).run(&["destroy", "-r", volume.as_str()]),
        Step::DestroySnapshot(snapshot) => {
            let name = snapshot.to_string();
            zfs("remove", &name).run(&["destroy", &name])
        }
    }
    .map(drop)
}
