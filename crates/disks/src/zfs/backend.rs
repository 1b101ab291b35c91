//! ZFS volumes as a disk back end.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use agentiso_core::ports::{
    Dataset, DiskCopy, DiskError, DiskSource, DiskUsage, DiskView, Disks, Freezing, StorageStatus, ZpoolError,
};

use super::listing::Listing;
use super::lock::Notes;
use super::making::{VolumeCopy, perform};
use super::name::{HomeId, Volume, Volumes};
use super::node::{self, View};
use super::setup::MARK;
use super::ticket;
use super::tool::{zfs, zpool};
use super::tree::{self, Step};

/// The block size of volumes, of which their sizes are multiples.
pub(super) const BLOCK: u64 = 16 << 10;
/// A zpool with less free space than this counts as full: writes to volumes need space.
const FLOOR: u64 = 64 << 20;
/// How long the known free space is used. ZFS itself updates it no more often.
const FRESH: Duration = Duration::from_secs(5);

/// Disks as volumes of a zpool. A disk's file is a link to the device of its volume; every disk is a clone of its source.
///
/// Creating a disk takes two calls of `zfs`, and one every few seconds for the free space.
#[derive(Debug)]
pub struct Zvols {
    pub(super) dataset: Dataset,
    pub(super) notes: Notes,
    pub(super) home: HomeId,
    pub(super) root: PathBuf,
    /// The free space, and when it was queried.
    seen: Mutex<Option<(Instant, u64)>>,
}

impl Zvols {
    /// The volumes in `dataset` of an installation whose disks are files below `root`. Its own files are in `dir`. Does not
    /// check that the dataset exists.
    pub fn open(dataset: Dataset, root: &Path, dir: &Path) -> Result<Self, DiskError> {
        let (notes, home) = Notes::open(dir).map_err(|cause| DiskError::Io {
            action: "read who owns the volumes in",
            path: dir.to_owned(),
            cause,
        })?;
        Ok(Self { dataset, notes, home, root: root.to_owned(), seen: Mutex::new(None) })
    }

    /// Fails if the dataset is not ours or has less than this many bytes free.
    pub(super) fn ready(&self, needed: u64) -> Result<(), ZpoolError> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let free = match *seen {
            Some((at, free)) if at.elapsed() < FRESH => free,
            _ => self.look()?,
        };
        let needed = needed.saturating_add(FLOOR);
        // The free space of a full zpool is queried again the next time.
        *seen = (free >= needed)
            .then(|| seen.filter(|(_, known)| *known == free).unwrap_or((Instant::now(), free)));
        if free >= needed {
            return Ok(());
        }
        Err(ZpoolError::Full { name: self.dataset.as_str().to_owned(), free, needed })
    }

    /// Checks that the dataset is ours, creates the installation's part of it, and returns the free space.
    fn look(&self) -> Result<u64, ZpoolError> {
        let (name, part) = (self.dataset.as_str(), self.dataset.part(&self.home));
        let columns = format!("name,available,{MARK}");
        let printed =
            zfs("use", name).run(&["list", "-Hp", "-d", "1", "-t", "filesystem", "-o", &columns, name])?;
        let rows: Vec<Vec<&str>> = printed.lines().map(|line| line.split('\t').collect()).collect();
        let row = rows.iter().find(|row| row.first() == Some(&name));
        let Some([_, free, mark]) = row.map(Vec::as_slice) else {
            return Err(ZpoolError::NotOurs(name.to_owned()));
        };
        if *mark != name {
            return Err(ZpoolError::NotOurs(name.to_owned()));
        }
        if !rows.iter().any(|row| row.first() == Some(&part.as_str())) {
            zfs("make", &part).run(&["create", "-o", "canmount=off", &part])?;
        }
        Ok(free.parse().unwrap_or(0))
    }

    /// The volume of a link; `None` if there is none.
    pub(super) fn named_by(&self, link: &Path) -> io::Result<Option<Volume>> {
        match ticket::volume_of(&self.dataset, link) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            other => other,
        }
    }

    /// The volume of a disk.
    fn volume_of(&self, path: &Path) -> Result<Volume, DiskError> {
        match ticket::volume_of(&self.dataset, path) {
            Ok(Some(volume)) => Ok(volume),
            Ok(None) => {
                let reason = format!("it is no link to a volume in {}", self.dataset.as_str());
                Err(DiskError::BadDisk { path: path.to_owned(), reason })
            }
            Err(cause) => Err(DiskError::Io { action: "open the disk", path: path.to_owned(), cause }),
        }
    }

    /// The volume to clone for a source.
    fn source(&self, source: &DiskSource, size: u64) -> Result<Volume, DiskError> {
        let bad = |reason: String| DiskError::BadSource { path: source.path().to_owned(), reason };
        match source {
            DiskSource::Layer(path) => self.volume_of(path).map_err(|error| bad(error.to_string())),
            DiskSource::Raw(path) => {
                let file = File::open(path).map_err(|error| bad(error.to_string()))?;
                let metadata = file.metadata().map_err(|error| bad(error.to_string()))?;
                if !metadata.is_file() {
                    return Err(bad("it is not a regular file".to_owned()));
                }
                if metadata.len() > size {
                    return Err(DiskError::TooSmall { size, source_size: metadata.len() });
                }
                self.base_of(path, &file, &metadata)
            }
        }
    }

    /// Does everything that precedes the first call of `zfs`.
    fn begin_copy(&self, path: &Path, source: &DiskSource, size: u64) -> Result<Box<VolumeCopy>, DiskError> {
        let failed = |cause| DiskError::Io { action: "create the disk", path: path.to_owned(), cause };
        if path.symlink_metadata().is_ok() {
            return Err(DiskError::Exists(path.to_owned()));
        }
        let turn = self.notes.making().map_err(failed)?;
        let from = self.source(source, size)?;
        if !size.is_multiple_of(BLOCK) {
            return Err(DiskError::BadSize { size, unit: BLOCK });
        }
        self.ready(0)?;
        let device = node::open(&self.dataset, &from, OpenOptions::new().read(true))?;
        // Flush now, so that little is left for the pause.
        let source_size = node::write_back(&device, &from)?;
        if source_size > size {
            return Err(DiskError::TooSmall { size, source_size });
        }
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let new = self.begin(path, stem)?;
        let size = (size > source_size).then_some(size);
        Ok(Box::new(VolumeCopy { new, source: from, device, size, _turn: turn }))
    }

    /// Removes volumes without a link, and snapshots without clones.
    fn remove_nameless(&self) -> Result<(), DiskError> {
        let failed = |cause| DiskError::Io { action: "look for disks in", path: self.root.clone(), cause };
        let _turn = self.notes.removing().map_err(failed)?;
        self.forget_bases().map_err(failed)?;
        let listing = Listing::read(&self.dataset)?;
        let mut doomed = BTreeSet::new();
        for (volume, row) in listing.volumes.iter().filter(|(volume, _)| *volume.home() == self.home) {
            // A volume without our property is not ours.
            let Some(link) = &row.link else { continue };
            if !ticket::is_named(&self.dataset, &self.root, volume, link).map_err(failed)? {
                doomed.insert(volume.clone());
            }
        }
        for step in tree::plan(&listing, &self.home, &doomed) {
            match perform(&step) {
                // It is open, or a clone of it could not be removed: it is left for the next sweep.
                Err(ZpoolError::Busy { .. }) => {}
                Err(ZpoolError::Failed { .. }) if matches!(step, Step::DestroySnapshot(_)) => {}
                other => other?,
            }
        }
        Ok(())
    }
}

impl Disks for Zvols {
    fn create(&self, path: &Path, source: &DiskSource, size: u64) -> Result<(), DiskError> {
        let mut copy = self.begin_copy(path, source, size)?;
        copy.hold()?;
        copy.finish()
    }

    fn name(&self) -> &'static str {
        "zfs"
    }

    fn realm(&self) -> String {
        format!("zfs {}", self.dataset.as_str())
    }

    fn qemu_format(&self) -> &'static str {
        "raw"
    }

    fn extension(&self) -> &'static str {
        "zvol"
    }

    fn freezing(&self) -> Freezing {
        Freezing::Copy
    }

    fn parent(&self, path: &Path) -> Result<Option<DiskSource>, DiskError> {
        self.volume_of(path).map(|_| None)
    }

    /// Data of the last seconds may not be counted yet.
    fn own_bytes(&self, path: &Path) -> Result<u64, DiskError> {
        self.freed_by_removal(path, &[])
    }

    fn referenced_bytes(&self, path: &Path) -> Result<u64, DiskError> {
        Ok(self.usage_of(path)?.referenced)
    }

    fn freed_by_removal(&self, path: &Path, _children: &[PathBuf]) -> Result<u64, DiskError> {
        Ok(self.usage_of(path)?.freed_by_removal)
    }

    fn usage(&self, disks: &[(PathBuf, Vec<PathBuf>)]) -> Result<Vec<DiskUsage>, DiskError> {
        let volumes = disks.iter().map(|(path, _)| self.volume_of(path)).collect::<Result<Vec<_>, _>>()?;
        if volumes.is_empty() {
            return Ok(Vec::new());
        }
        let listing = Listing::read(&self.dataset)?;
        let one = |volume: &Volume| {
            let found = listing.freed_by_removal(volume).zip(listing.referenced(volume));
            let (freed_by_removal, referenced) = found.ok_or_else(|| ZpoolError::Unavailable {
                doing: "find",
                name: volume.as_str().to_owned(),
                said: "the volume is gone".to_owned(),
            })?;
            Ok(DiskUsage { freed_by_removal, referenced })
        };
        volumes.iter().map(one).collect()
    }

    fn collapse(&self, path: &Path, _onto: &DiskSource) -> Result<(), DiskError> {
        self.volume_of(path).map(drop)
    }

    fn prepare_copy(
        &self,
        path: &Path,
        source: &Path,
        size: u64,
    ) -> Result<Option<Box<dyn DiskCopy>>, DiskError> {
        Ok(Some(self.begin_copy(path, &DiskSource::Layer(source.to_owned()), size)?))
    }

    fn admit(&self, path: &Path, user: Option<(u32, u32)>) -> Result<(), DiskError> {
        node::admit(&self.dataset, &self.volume_of(path)?, user)
    }

    fn let_grow(&self, path: &Path, size: u64) -> Result<(), DiskError> {
        if !size.is_multiple_of(BLOCK) {
            return Err(DiskError::BadSize { size, unit: BLOCK });
        }
        let volume = self.volume_of(path)?;
        let device = node::open(&self.dataset, &volume, OpenOptions::new().read(true))?;
        if View::of(device, path)?.size() < size {
            self.ready(0)?;
            let volsize = format!("volsize={size}");
            zfs("grow", volume.as_str()).run(&["set", &volsize, volume.as_str()])?;
        }
        Ok(())
    }

    fn sweep(&self) -> Result<(), DiskError> {
        self.remove_nameless()
    }

    fn storage_status(&self) -> Result<Option<StorageStatus>, DiskError> {
        let (pool, free) = (self.dataset.pool(), self.look()?);
        let health = zpool("look at", pool).run(&["list", "-Hp", "-o", "health", pool])?;
        let (health, name) = (health.trim(), self.dataset.as_str());
        let detail = format!("{name}, the pool is {health}, {} MiB free", free >> 20);
        let advice = if health != "ONLINE" {
            Some(format!("see what is wrong with it: zpool status {pool}"))
        } else if free < FLOOR << 4 {
            Some(format!("remove snapshots or workspaces, or add a device to the pool {pool}"))
        } else {
            None
        };
        Ok(Some(StorageStatus { detail, advice }))
    }

    fn open(&self, path: &Path) -> Result<Box<dyn DiskView>, DiskError> {
        let volume = self.volume_of(path)?;
        let device = node::open(&self.dataset, &volume, OpenOptions::new().read(true))?;
        Ok(Box::new(View::of(device, path)?))
    }
}

impl Zvols {
    fn usage_of(&self, path: &Path) -> Result<DiskUsage, DiskError> {
        let all = self.usage(&[(path.to_owned(), Vec::new())])?;
        all.first().copied().ok_or_else(|| DiskError::Exists(path.to_owned()))
    }
}
