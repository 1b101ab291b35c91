//! Making volumes so that a failure leaves none.

use std::io;
use std::path::Path;

use agentiso_core::ports::{DiskError, PoolError};

use super::backend::Zvols;
use super::listing::LINK;
use super::name::{HomeId, Snapshot, Volume, random_digits};
use super::ticket::{self, Ticket};
use super::tool::zfs;
use super::tree::Step;

/// A volume being made. Dropped before it is published, it disappears.
#[derive(Debug)]
pub(super) struct New<'a> {
    home: &'a HomeId,
    path: &'a Path,
    volume: Volume,
    link: String,
    /// `None` once the disk has its name.
    ticket: Option<Ticket>,
    snapshot: Option<Snapshot>,
}

impl Zvols {
    /// Begins to make a volume for a disk. Its name begins with `stem`, if it can.
    pub(super) fn begin<'a>(&'a self, path: &'a Path, stem: &str) -> Result<New<'a>, DiskError> {
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
        Ok(New { home: &self.home, path, volume, link, ticket, snapshot: None })
    }
}

impl New<'_> {
    pub(super) fn volume(&self) -> &Volume {
        &self.volume
    }

    /// Makes it, empty.
    pub(super) fn make(&self, size: u64, block: u64) -> Result<(), PoolError> {
        let (size, block, link) = (size.to_string(), format!("volblocksize={block}"), self.note());
        let name = self.volume.as_str();
        zfs("make", name).run(&["create", "-s", "-V", &size, "-o", &block, "-o", &link, name]).map(drop)
    }

    /// Makes it as a clone of a volume, larger if a size is given.
    pub(super) fn clone_from(&mut self, source: &Volume, size: Option<u64>) -> Result<(), PoolError> {
        let name = self.volume.as_str();
        let leaf = name.rsplit('/').next().unwrap_or_default();
        let snapshot = Snapshot { volume: source.clone(), tag: format!("{}.{leaf}", self.home.as_str()) };
        let origin = snapshot.to_string();
        zfs("take a snapshot of", source.as_str()).run(&["snapshot", &origin])?;
        self.snapshot = Some(snapshot);
        let (link, size) = (self.note(), size.map(|size| format!("volsize={size}")));
        let mut arguments = vec!["clone", "-o", &link];
        if let Some(size) = &size {
            arguments.extend(["-o", size]);
        }
        arguments.extend([origin.as_str(), name]);
        zfs("make", name).run(&arguments).map(drop)
    }

    fn note(&self) -> String {
        format!("{LINK}={}", self.link)
    }

    /// Gives the disk its name.
    pub(super) fn publish(mut self) -> Result<Volume, DiskError> {
        let published = self.ticket.as_mut().map_or(Ok(()), Ticket::publish);
        match published {
            Ok(()) => {
                self.ticket = None;
                Ok(self.volume.clone())
            }
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {
                Err(DiskError::Exists(self.path.to_owned()))
            }
            Err(cause) => Err(DiskError::Io { action: "create the disk", path: self.path.to_owned(), cause }),
        }
    }
}

impl Drop for New<'_> {
    fn drop(&mut self) {
        if self.ticket.is_none() {
            return;
        }
        // What cannot be removed now has no name and is swept.
        let _ = perform(&Step::Destroy(self.volume.clone()));
        if let Some(snapshot) = self.snapshot.take() {
            let _ = perform(&Step::DestroySnapshot(snapshot));
        }
    }
}

/// Has `zfs` do one thing.
pub(super) fn perform(step: &Step) -> Result<(), PoolError> {
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
