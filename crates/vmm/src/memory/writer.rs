//! Writing a memory image while its pages arrive.
//!
//! ```text
//!   create ─► put, put again, … ─► finish: map and device state written, unused slots freed
//!      └────────── dropped before it is finished: everything is removed ──────────┘
//! ```
//!
//! Pages can be written in any order and repeatedly: the last content counts. So a machine's memory can be copied while
//! it runs, and changed pages are written again. Only the location and checksum of each page are kept in memory.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use agentiso_blocking::in_place;
use agentiso_core::MemoryId;

use super::checks::{Checks, device_digest, page_sum};
use super::files::{DEVICE, MAP, MemoryFiles, MemoryImage, PACK, punch};
use super::map::{PageMap, Place};
use super::pages::{PAGE, Run};

/// The size of a written image.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Written {
    /// Pages that differ from the base.
    pub pages: u64,
    /// Bytes written to files.
    pub bytes: u64,
}

/// A memory image in progress.
#[derive(Debug)]
pub struct ImageWriter {
    id: MemoryId,
    dir: PathBuf,
    pack: File,
    parent: Option<(MemoryImage, Vec<File>)>,
    pages: Vec<Stored>,
    /// Unused slots of the pack.
    free: Vec<u32>,
    /// The first slot that was never used.
    next: u32,
    finished: bool,
}

/// The state of a guest page.
#[derive(Clone, Copy, Debug)]
struct Stored {
    slot: u32,
    sum: u32,
}

/// The page was not written yet.
const ABSENT: u32 = u32::MAX;
/// The page is all zeros.
const ZEROS: u32 = u32::MAX - 1;
/// The parent has the same content.
const PARENT: u32 = u32::MAX - 2;
const LAST_SLOT: u32 = u32::MAX - 3;

impl ImageWriter {
    /// Starts an image with an optional parent.
    pub fn create(
        files: &MemoryFiles,
        id: MemoryId,
        guest_bytes: u64,
        parent: Option<MemoryImage>,
    ) -> io::Result<Self> {
        let parent = match parent {
            Some(parent) => {
                let packs = files.open_packs(&parent.map)?;
                Some((parent, packs))
            }
            None => None,
        };
        let dir = files.dir(id);
        fs::create_dir_all(&dir)?;
        let pack = match File::options().read(true).write(true).create_new(true).open(dir.join(PACK)) {
            Ok(pack) => pack,
            Err(error) => {
                // Report the first error.
                let _ = fs::remove_dir_all(&dir);
                return Err(error);
            }
        };
        let pages = vec![Stored { slot: ABSENT, sum: 0 }; (guest_bytes / PAGE as u64) as usize];
        Ok(Self { id, dir, pack, parent, pages, free: Vec::new(), next: 0, finished: false })
    }

    /// Writes pages, replacing earlier content.
    pub fn put(&mut self, runs: &[Run], content: &[u8]) -> io::Result<()> {
        let numbers = runs.iter().flat_map(|run| run.first..run.first + run.count);
        // Pages that are adjacent in both the content and the pack are written together.
        let mut pending: Option<(u32, std::ops::Range<usize>)> = None;
        let mut theirs = [0; PAGE];
        for (index, page) in numbers.enumerate() {
            let bytes = index * PAGE..(index + 1) * PAGE;
            let Some(slot) = self.place(page, &content[bytes.clone()], &mut theirs)? else { continue };
            match &mut pending {
                Some((first, range))
                    if range.end == bytes.start && *first as usize + range.len() / PAGE == slot as usize =>
                {
                    range.end = bytes.end;
                }
                _ => {
                    if let Some((first, range)) = pending.replace((slot, bytes)) {
                        self.pack.write_all_at(&content[range], u64::from(first) * PAGE as u64)?;
                    }
                }
            }
        }
        if let Some((first, range)) = pending {
            self.pack.write_all_at(&content[range], u64::from(first) * PAGE as u64)?;
        }
        Ok(())
    }

    /// Chooses the location of a page. Returns its slot if it must be written.
    fn place(&mut self, page: u64, content: &[u8], theirs: &mut [u8; PAGE]) -> io::Result<Option<u32>> {
        let number = page as usize;
        let before = self
            .pages
            .get(number)
            .ok_or_else(|| io::Error::other("a page lies outside of the guest's memory"))?;
        let own = (before.slot <= LAST_SLOT).then_some(before.slot);
        let elsewhere = if is_zeros(content) {
            Some(Stored { slot: ZEROS, sum: 0 })
        } else if self.parent_has(page, content, theirs)? {
            Some(Stored { slot: PARENT, sum: page_sum(content) })
        } else {
            None
        };
        if let Some(stored) = elsewhere {
            self.free.extend(own);
            self.pages[number] = stored;
            return Ok(None);
        }
        let slot = match own.or_else(|| self.free.pop()) {
            Some(slot) => slot,
            None if self.next > LAST_SLOT => return Err(io::Error::other("the memory image is too large")),
            None => {
                self.next += 1;
                self.next - 1
            }
        };
        self.pages[number] = Stored { slot, sum: page_sum(content) };
        Ok(Some(slot))
    }

    /// Whether the parent has the same content for a page.
    fn parent_has(&self, page: u64, content: &[u8], theirs: &mut [u8; PAGE]) -> io::Result<bool> {
        let Some((parent, packs)) = &self.parent else { return Ok(false) };
        let Some(Place::Pack { pack, at }) = parent.map.find(page) else { return Ok(false) };
        packs[pack].read_exact_at(theirs, at * PAGE as u64)?;
        Ok(theirs[..] == *content)
    }

    /// Completes the image. `own` are the pages that differ from the base, all of which must have been written; other
    /// written pages are dropped.
    pub fn finish(mut self, device: &[u8], own: &[Run]) -> io::Result<(MemoryImage, Written)> {
        let map = self.map(device, own)?;
        // Never write a map that could not be read back.
        map.check()?;
        let used: Vec<Run> = map.pages_of(self.id);
        let used_pages: u64 = used.iter().map(|run| run.count).sum();
        if used_pages < u64::from(self.next) {
            punch(&self.pack, &used)?;
        }
        let bytes = map.to_bytes();
        fs::write(self.dir.join(DEVICE), device)?;
        fs::write(self.dir.join(MAP), &bytes)?;
        self.finished = true;
        let pages = own.iter().map(|run| run.count).sum();
        let written =
            Written { pages, bytes: used_pages * PAGE as u64 + (device.len() + bytes.len()) as u64 };
        Ok((MemoryImage::new(self.dir.clone(), map), written))
    }

    fn map(&self, device: &[u8], own: &[Run]) -> io::Result<PageMap> {
        let parent = self.parent.as_ref().map(|(parent, _)| &parent.map);
        let mut packs = parent.map(|parent| parent.packs.clone()).unwrap_or_default();
        packs.push(self.id);
        let ours = packs.len() - 1;
        let mut sums = Vec::new();
        let mut map = PageMap { guest_pages: self.pages.len() as u64, packs, ..PageMap::default() };
        for page in own.iter().flat_map(|run| run.first..run.first + run.count) {
            let missing = || io::Error::other(format!("page {page} of the guest's memory was not copied"));
            let stored = self.pages.get(page as usize).ok_or_else(missing)?;
            let place = match stored.slot {
                ABSENT => return Err(missing()),
                ZEROS => Place::Zeros,
                PARENT => parent.and_then(|parent| parent.find(page)).ok_or_else(missing)?,
                slot => Place::Pack { pack: ours, at: u64::from(slot) },
            };
            if place != Place::Zeros {
                sums.push(stored.sum);
            }
            map.push(page, place);
        }
        keep_used_packs(&mut map);
        map.checks = Some(Checks { device: device_digest(device), pages: sums });
        Ok(map)
    }
}

impl Drop for ImageWriter {
    fn drop(&mut self) {
        if !self.finished {
            // After a failure, the recovery of the operation removes the directory.
            let _ = in_place(|| fs::remove_dir_all(&self.dir));
        }
    }
}

fn is_zeros(page: &[u8]) -> bool {
    const ZERO_PAGE: [u8; PAGE] = [0; PAGE];
    *page == ZERO_PAGE
}

/// Removes packs that no entry refers to.
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
