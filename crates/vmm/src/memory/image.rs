//! Memory images in files.
//!
//! ```text
//! memory/<id>/device   the state of processor and devices
//! memory/<id>/map      where every page that differs from the base is
//! memory/<id>/pack     content first written with this image; later images refer to it too
//! ```
//!
//! An image written on a parent holds only the pages whose content the parent does not have. When an image goes, its
//! pack stays for as long as another's map refers to it, without the pages nobody refers to.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use agentiso_core::MemoryId;
use rustix::fs::FallocateFlags;

use super::map::{Entry, PageMap, Place};
use super::pages::{PAGE, Pages, Run};
use super::ram::GuestRam;

const DEVICE: &str = "device";
const MAP: &str = "map";
const PACK: &str = "pack";
/// Pages moved into a guest at once: small enough to stay in the processor's cache between reading and writing.
const BATCH: u64 = 256;

/// The directory with all memory images.
#[derive(Clone, Debug)]
pub struct MemoryFiles(PathBuf);

/// One memory image.
#[derive(Debug)]
pub struct MemoryImage {
    dir: PathBuf,
    /// Where its pages are.
    pub map: PageMap,
}

/// What writing an image took.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Written {
    /// Pages that differ from the base.
    pub pages: u64,
    /// Bytes put into files.
    pub bytes: u64,
}

impl MemoryFiles {
    /// Names the directory.
    pub fn new(dir: PathBuf) -> Self {
        Self(dir)
    }

    fn dir(&self, id: MemoryId) -> PathBuf {
        self.0.join(id.to_string())
    }

    /// Writes an image. On failure nothing is left of it.
    pub fn write(
        &self,
        id: MemoryId,
        device: &[u8],
        pages: &Pages,
        guest_bytes: u64,
        parent: Option<&MemoryImage>,
    ) -> io::Result<Written> {
        let dir = self.dir(id);
        fs::create_dir_all(&dir)?;
        let written = self.write_into(&dir, id, device, pages, guest_bytes, parent);
        if written.is_err() {
            // What matters is the first error.
            let _ = fs::remove_dir_all(&dir);
        }
        written
    }

    fn write_into(
        &self,
        dir: &Path,
        id: MemoryId,
        device: &[u8],
        pages: &Pages,
        guest_bytes: u64,
        parent: Option<&MemoryImage>,
    ) -> io::Result<Written> {
        let packs = parent.map(|parent| self.open_packs(&parent.map)).transpose()?.unwrap_or_default();
        let mut map = PageMap {
            guest_pages: guest_bytes / PAGE as u64,
            packs: parent.map(|parent| parent.map.packs.clone()).unwrap_or_default(),
            entries: Vec::new(),
        };
        map.packs.push(id);
        let own = map.packs.len() - 1;
        let mut pack = BufWriter::with_capacity(1 << 20, File::create_new(dir.join(PACK))?);
        let mut next = 0;
        let mut theirs = [0; PAGE];
        for (page, content) in pages.iter() {
            let place = if is_zeros(content) {
                Place::Zeros
            } else if let Some(place) = same_in_parent(parent, &packs, page, content, &mut theirs)? {
                place
            } else {
                pack.write_all(content)?;
                next += 1;
                Place::Pack { pack: own, at: next - 1 }
            };
            map.push(page, place);
        }
        pack.flush()?;
        keep_used_packs(&mut map);
        let bytes = map.to_bytes();
        fs::write(dir.join(DEVICE), device)?;
        fs::write(dir.join(MAP), &bytes)?;
        Ok(Written { pages: pages.count(), bytes: next * PAGE as u64 + (device.len() + bytes.len()) as u64 })
    }

    /// Opens an image.
    pub fn open(&self, id: MemoryId) -> io::Result<MemoryImage> {
        let dir = self.dir(id);
        let map = PageMap::from_bytes(&fs::read(dir.join(MAP))?)?;
        Ok(MemoryImage { dir, map })
    }

    fn open_packs(&self, map: &PageMap) -> io::Result<Vec<File>> {
        map.packs.iter().map(|&pack| File::open(self.dir(pack).join(PACK))).collect()
    }

    /// Writes an image's pages into a guest that has its base and has not run yet.
    pub fn put(&self, image: &MemoryImage, ram: &GuestRam) -> io::Result<()> {
        let packs = self.open_packs(&image.map)?;
        let middle = image.map.entries.len() / 2;
        let (first, second) = image.map.entries.split_at(middle);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| put_entries(first, &packs, ram));
            let ours = put_entries(second, &packs, ram);
            other.join().unwrap_or_else(|_| Err(io::Error::other("copying guest memory failed"))).and(ours)
        })
    }

    /// Removes an image. `others` are the maps of all remaining images that refer to its pack; without any the pack
    /// goes too, else only the pages of it that none of them needs.
    pub fn remove(&self, id: MemoryId, others: &[PageMap]) -> io::Result<()> {
        let dir = self.dir(id);
        if others.is_empty() {
            return gone(fs::remove_dir_all(&dir));
        }
        gone(fs::remove_file(dir.join(DEVICE)))?;
        gone(fs::remove_file(dir.join(MAP)))?;
        self.trim(id, others)
    }

    /// Frees the pages of a pack that no map needs any more.
    pub fn trim(&self, pack: MemoryId, users: &[PageMap]) -> io::Result<()> {
        let file = match File::options().write(true).open(self.dir(pack).join(PACK)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        };
        let length = file.metadata()?.len() / PAGE as u64;
        for hole in gaps(&union(users, pack), length) {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            match rustix::fs::fallocate(&file, flags, hole.offset(), hole.bytes() as u64) {
                // Where holes cannot be made the space comes back with the last user.
                Err(rustix::io::Errno::OPNOTSUPP) => return Ok(()),
                other => other?,
            }
        }
        Ok(())
    }

    /// Bytes that removing an image would free, given the maps of the others that refer to its pack.
    pub fn freed_by_removal(&self, id: MemoryId, others: &[PageMap]) -> io::Result<u64> {
        let dir = self.dir(id);
        let size = |name: &str| fs::metadata(dir.join(name)).map_or(0, |meta| meta.blocks() * 512);
        let length = fs::metadata(dir.join(PACK))?.len() / PAGE as u64;
        let needed: u64 = length - gaps(&union(others, id), length).iter().map(|run| run.count).sum::<u64>();
        Ok((size(PACK) + size(DEVICE) + size(MAP)).saturating_sub(needed * PAGE as u64))
    }

    /// The images there are, for finding those nobody knows.
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
    /// The state of processor and devices.
    pub fn device(&self) -> PathBuf {
        self.dir.join(DEVICE)
    }

    /// Bytes of guest memory it describes.
    pub fn referenced_bytes(&self) -> u64 {
        self.map.entries.iter().map(|entry| entry.run.bytes() as u64).sum()
    }
}

fn is_zeros(page: &[u8]) -> bool {
    page.iter().all(|&byte| byte == 0)
}

/// Where the parent keeps a page, if it has the same content.
fn same_in_parent(
    parent: Option<&MemoryImage>,
    packs: &[File],
    page: u64,
    content: &[u8],
    buffer: &mut [u8; PAGE],
) -> io::Result<Option<Place>> {
    let Some(place @ Place::Pack { pack, at }) = parent.and_then(|parent| parent.map.find(page)) else {
        return Ok(None);
    };
    packs[pack].read_exact_at(buffer, at * PAGE as u64)?;
    Ok((buffer[..] == *content).then_some(place))
}

/// Drops packs that no entry refers to, so that they need not be kept.
fn keep_used_packs(map: &mut PageMap) {
    let mut used = vec![false; map.packs.len()];
    for entry in &map.entries {
        if let Place::Pack { pack, .. } = entry.place {
            used[pack] = true;
        }
    }
    let mut renumbered = vec![0; map.packs.len()];
    let mut kept = Vec::new();
    for (old, pack) in map.packs.iter().enumerate() {
        renumbered[old] = kept.len();
        if used[old] {
            kept.push(*pack);
        }
    }
    map.packs = kept;
    for entry in &mut map.entries {
        if let Place::Pack { pack, .. } = &mut entry.place {
            *pack = renumbered[*pack];
        }
    }
}

fn put_entries(entries: &[Entry], packs: &[File], ram: &GuestRam) -> io::Result<()> {
    let mut batch = Pages::default();
    let mut held = 0;
    for entry in entries {
        let mut done = 0;
        while done < entry.run.count {
            let count = (entry.run.count - done).min(BATCH - held);
            let run = Run { first: entry.run.first + done, count };
            let start = batch.content.len();
            batch.content.resize(start + run.bytes(), 0);
            if let Place::Pack { pack, at } = entry.place {
                packs[pack].read_exact_at(&mut batch.content[start..], (at + done) * PAGE as u64)?;
            }
            batch.runs.push(run);
            (held, done) = (held + count, done + count);
            if held == BATCH {
                ram.put(&batch)?;
                batch.runs.clear();
                batch.content.clear();
                held = 0;
            }
        }
    }
    ram.put(&batch)
}

/// The pages of a pack that any of the maps needs, in order and without overlap.
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

/// What lies between runs, up to `length`.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn id() -> MemoryId {
        MemoryId::from_uuid(uuid::Uuid::now_v7())
    }

    fn pages(content: &BTreeMap<u64, u8>) -> Pages {
        let runs = content.keys().map(|&first| Run { first, count: 1 }).collect();
        let content = content.values().flat_map(|&byte| [byte; PAGE]).collect();
        Pages { runs, content }
    }

    fn read(files: &MemoryFiles, id: MemoryId) -> BTreeMap<u64, u8> {
        let image = files.open(id).unwrap();
        let packs = files.open_packs(&image.map).unwrap();
        let mut found = BTreeMap::new();
        for entry in &image.map.entries {
            for inside in 0..entry.run.count {
                let mut page = [0; PAGE];
                if let Place::Pack { pack, at } = entry.place {
                    packs[pack].read_exact_at(&mut page, (at + inside) * PAGE as u64).unwrap();
                }
                assert!(page.iter().all(|&byte| byte == page[0]));
                found.insert(entry.run.first + inside, page[0]);
            }
        }
        found
    }

    fn write(
        files: &MemoryFiles,
        content: &BTreeMap<u64, u8>,
        parent: Option<MemoryId>,
    ) -> (MemoryId, Written) {
        let (id, parent) = (id(), parent.map(|parent| files.open(parent).unwrap()));
        let written = files.write(id, b"device", &pages(content), 1 << 20, parent.as_ref()).unwrap();
        (id, written)
    }

    #[test]
    fn an_image_holds_only_what_its_parent_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let files = MemoryFiles::new(dir.path().to_owned());
        let first: BTreeMap<u64, u8> = (0..100).map(|page| (page, 1)).collect();
        let mut second = first.clone();
        second.extend([(7, 2), (8, 0), (200, 3)]);
        let (a, wrote_a) = write(&files, &first, None);
        let (b, wrote_b) = write(&files, &second, Some(a));
        assert!(wrote_a.bytes >= 100 * PAGE as u64);
        assert!(wrote_b.bytes < 4 * PAGE as u64, "{wrote_b:?}");
        assert_eq!((read(&files, a), read(&files, b)), (first, second));
    }

    #[test]
    fn any_image_can_go_and_the_others_stay_whole() {
        let dir = tempfile::tempdir().unwrap();
        let files = MemoryFiles::new(dir.path().to_owned());
        let first: BTreeMap<u64, u8> = (0..64).map(|page| (page, 1)).collect();
        let mut second = first.clone();
        second.extend((0..32).map(|page| (page, 2)));
        let (a, _) = write(&files, &first, None);
        let (b, _) = write(&files, &second, Some(a));
        let map = files.open(b).unwrap().map;
        let before = files.freed_by_removal(a, std::slice::from_ref(&map)).unwrap();
        assert!((32 * PAGE as u64..33 * PAGE as u64 + 16384).contains(&before), "{before}");
        files.remove(a, std::slice::from_ref(&map)).unwrap();
        assert_eq!(read(&files, b), second);
        let pack = fs::metadata(dir.path().join(a.to_string()).join(PACK)).unwrap();
        assert_eq!(pack.blocks() * 512, 32 * PAGE as u64);
        assert!(files.open(a).is_err());
        files.remove(b, &[]).unwrap();
        files.remove(a, &[]).unwrap();
        assert!(files.list().unwrap().is_empty());
    }

    #[test]
    fn an_image_that_could_not_be_written_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let files = MemoryFiles::new(dir.path().to_owned());
        let (a, _) = write(&files, &BTreeMap::from([(0, 1)]), None);
        let parent = files.open(a).unwrap();
        fs::remove_file(dir.path().join(a.to_string()).join(PACK)).unwrap();
        let b = id();
        assert!(files.write(b, b"", &pages(&BTreeMap::from([(0, 1)])), 1 << 20, Some(&parent)).is_err());
        assert_eq!(files.list().unwrap(), [a]);
    }
}
