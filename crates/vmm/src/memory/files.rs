//! Memory images in files.
//!
//! ```text
//! memory/<id>/device   the state of CPU and devices
//! memory/<id>/map      the location of every page that differs from the base, and checksums of all three files
//! memory/<id>/pack     pages first written with this image; later images may refer to them
//! ```
//!
//! An image with a parent stores only pages whose content the parent does not have. When an image is removed, its pack
//! stays for as long as another map refers to it, without unreferenced pages.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

use agentiso_core::MemoryId;
use rustix::fs::FallocateFlags;

use super::checks::verify_device;
use super::map::PageMap;
use super::map_format::is_unverifiable;
use super::pages::{PAGE, Run};

pub(super) const DEVICE: &str = "device";
pub(super) const MAP: &str = "map";
pub(super) const PACK: &str = "pack";

/// The directory with all memory images.
#[derive(Clone, Debug)]
pub struct MemoryFiles(PathBuf);

/// One memory image.
#[derive(Debug)]
pub struct MemoryImage {
    dir: PathBuf,
    /// The locations of its pages.
    pub map: PageMap,
}

impl MemoryFiles {
    /// For a directory, which need not exist.
    pub fn new(dir: PathBuf) -> Self {
        Self(dir)
    }

    pub(super) fn dir(&self, id: MemoryId) -> PathBuf {
        self.0.join(id.to_string())
    }

    /// Opens an image.
    pub fn open(&self, id: MemoryId) -> io::Result<MemoryImage> {
        let dir = self.dir(id);
        let map = PageMap::from_bytes(&fs::read(dir.join(MAP))?)?;
        Ok(MemoryImage { dir, map })
    }

    pub(super) fn open_packs(&self, map: &PageMap) -> io::Result<Vec<File>> {
        map.packs.iter().map(|&pack| File::open(self.dir(pack).join(PACK))).collect()
    }

    /// Removes an image. `others` are the maps of all remaining images that refer to its pack: if there are none, the pack
    /// is removed too, otherwise only its unreferenced pages.
    pub fn remove(&self, id: MemoryId, others: &[PageMap]) -> io::Result<()> {
        let dir = self.dir(id);
        if others.is_empty() {
            return gone(fs::remove_dir_all(&dir));
        }
        gone(fs::remove_file(dir.join(DEVICE)))?;
        gone(fs::remove_file(dir.join(MAP)))?;
        self.trim(id, others)
    }

    /// Frees the pages of a pack that no map refers to.
    pub fn trim(&self, pack: MemoryId, users: &[PageMap]) -> io::Result<()> {
        let file = match File::options().write(true).open(self.dir(pack).join(PACK)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        };
        punch(&file, &union(users, pack))
    }

    /// Bytes that removing an image would free, given the maps of the others that refer to its pack.
    pub fn freed_by_removal(&self, id: MemoryId, others: &[PageMap]) -> io::Result<u64> {
        let dir = self.dir(id);
        let size = |name: &str| fs::metadata(dir.join(name)).map_or(0, |meta| meta.blocks() * 512);
        let length = fs::metadata(dir.join(PACK))?.len() / PAGE as u64;
        let needed: u64 = length - gaps(&union(others, id), length).iter().map(|run| run.count).sum::<u64>();
        Ok((size(PACK) + size(DEVICE) + size(MAP)).saturating_sub(needed * PAGE as u64))
    }

    /// The number of images without checksums, which an earlier version wrote.
    pub fn count_unverifiable(&self) -> io::Result<usize> {
        let mut count = 0;
        for id in self.list()? {
            let mut start = [0; 8];
            let read = File::open(self.dir(id).join(MAP)).and_then(|map| map.read_exact_at(&mut start, 0));
            // Packs of removed images have no map, and a damaged map is reported when it is used.
            if read.is_ok() && is_unverifiable(start) {
                count += 1;
            }
        }
        Ok(count)
    }

    /// All images and remaining packs.
    pub fn list(&self) -> io::Result<Vec<MemoryId>> {
        let entries = match fs::read_dir(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other?,
        };
        let mut found = Vec::new();
        for entry in entries {
            if let Some(id) = entry?.file_name().to_str().and_then(|name| uuid::Uuid::parse_str(name).ok()) {
                found.push(MemoryId::from_uuid(id));
            }
        }
        Ok(found)
    }
}

impl MemoryImage {
    pub(super) fn new(dir: PathBuf, map: PageMap) -> Self {
        Self { dir, map }
    }

    /// Reads the state of CPU and devices, and verifies its checksum if the image has one.
    pub fn device(&self) -> io::Result<Vec<u8>> {
        let device = fs::read(self.dir.join(DEVICE))?;
        if let Some(checks) = &self.map.checks {
            verify_device(&device, &checks.device)?;
        }
        Ok(device)
    }

    /// Whether it has checksums. Images written by earlier versions have none and are restored unverified.
    pub fn is_verifiable(&self) -> bool {
        self.map.checks.is_some()
    }

    /// Bytes of guest memory it describes.
    pub fn referenced_bytes(&self) -> u64 {
        self.map.entries.iter().map(|entry| entry.run.bytes() as u64).sum()
    }
}

/// Frees the pages of a pack that are not in `used`, which is in ascending order.
pub(super) fn punch(pack: &File, used: &[Run]) -> io::Result<()> {
    let length = pack.metadata()?.len() / PAGE as u64;
    for hole in gaps(used, length) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(pack, flags, hole.offset(), hole.bytes() as u64) {
            // Without hole punching the space is freed with the whole pack.
            Err(rustix::io::Errno::OPNOTSUPP) => return Ok(()),
            other => other?,
        }
    }
    Ok(())
}

/// The pages of a pack that any of the maps refers to, in order and without overlap.
fn union(maps: &[PageMap], pack: MemoryId) -> Vec<Run> {
    let mut all: Vec<Run> = maps.iter().flat_map(|map| map.pages_of(pack)).collect();
    all.sort_by_key(|run| run.first);
    let mut merged: Vec<Run> = Vec::new();
    for run in all {
        match merged.last_mut() {
            Some(last) if last.first + last.count >= run.first => {
                last.count = last.count.max(run.first + run.count - last.first);
            }
            _ => merged.push(run),
        }
    }
    merged
}

/// The gaps between runs, up to `length`.
fn gaps(runs: &[Run], length: u64) -> Vec<Run> {
    let mut holes = Vec::new();
    let mut at = 0;
    for run in runs {
        if run.first > at {
            holes.push(Run { first: at, count: run.first.min(length) - at });
        }
        at = at.max(run.first + run.count);
    }
    if at < length {
        holes.push(Run { first: at, count: length - at });
    }
    holes
}

fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
