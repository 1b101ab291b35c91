//! Disks for tests of what reads them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use agentiso_core::ports::{DiskView, Extent, Origin};

const BLOCK: u64 = 4096;

/// A raw image.
#[derive(Debug)]
pub struct PlainFile {
    file: File,
    size: u64,
    place: Option<u128>,
}

impl PlainFile {
    /// Opens an image that says where its bytes are kept.
    ///
    /// # Panics
    ///
    /// If it cannot be opened.
    pub fn open(path: &Path) -> Self {
        let file = File::open(path).expect("an image");
        let metadata = file.metadata().expect("metadata of an image");
        let place = u128::from(metadata.dev()) << 64 | u128::from(metadata.ino());
        Self { file, size: metadata.len(), place: Some(place) }
    }

    /// Opens an image that does not know where its bytes are kept.
    ///
    /// # Panics
    ///
    /// If it cannot be opened.
    pub fn open_unknown(path: &Path) -> Self {
        Self { place: None, ..Self::open(path) }
    }
}

impl DiskView for PlainFile {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn extent_at(&self, offset: u64) -> io::Result<Extent> {
        let length = rest(self.size, offset)?;
        let origin = self.place.map_or(Origin::Unknown, |place| Origin::Stored { place, at: offset });
        Ok(Extent { origin, length })
    }
}

/// Another disk with some of its blocks changed.
pub struct Overlaid<'a> {
    base: &'a dyn DiskView,
    changed: BTreeMap<u64, Vec<u8>>,
    place: u128,
}

impl<'a> Overlaid<'a> {
    /// A disk just like `base`.
    pub fn new(base: &'a dyn DiskView) -> Self {
        static PLACES: AtomicU64 = AtomicU64::new(0);
        // No device has this number, so no file is at such a place.
        let place = u128::MAX << 64 | u128::from(PLACES.fetch_add(1, Ordering::Relaxed));
        Self { base, changed: BTreeMap::new(), place }
    }

    /// A disk with the content of `other`, of the same size, that shares with `base` whatever is the same.
    ///
    /// # Panics
    ///
    /// If either cannot be read.
    pub fn between(base: &'a dyn DiskView, other: &dyn DiskView) -> Self {
        assert_eq!(base.size(), other.size(), "disks of one size");
        let mut overlaid = Self::new(base);
        for block in 0..base.size().div_ceil(BLOCK) {
            let (here, there) = (block_of(base, block), block_of(other, block));
            if here != there {
                overlaid.changed.insert(block, there);
            }
        }
        overlaid
    }

    /// Changes bytes.
    ///
    /// # Panics
    ///
    /// If they are not on the disk.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        for (at, byte) in (offset..).zip(bytes) {
            let block = at / BLOCK;
            let content = self.changed.entry(block).or_insert_with(|| block_of(self.base, block));
            content[(at % BLOCK) as usize] = *byte;
        }
    }
}

impl DiskView for Overlaid<'_> {
    fn size(&self) -> u64 {
        self.base.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.base.read_at(offset, buffer)?;
        let end = offset + buffer.len() as u64;
        for (block, content) in self.changed.range(offset / BLOCK..end.div_ceil(BLOCK)) {
            let (start, stop) =
                ((block * BLOCK).max(offset), (block * BLOCK + content.len() as u64).min(end));
            let within = (start - block * BLOCK) as usize..(stop - block * BLOCK) as usize;
            buffer[(start - offset) as usize..(stop - offset) as usize].copy_from_slice(&content[within]);
        }
        Ok(())
    }

    fn extent_at(&self, offset: u64) -> io::Result<Extent> {
        let mut extent = self.base.extent_at(offset)?;
        match self.changed.range(offset / BLOCK..).next() {
            Some((block, content)) if *block == offset / BLOCK => {
                extent.origin = Origin::Stored { place: self.place, at: offset };
                extent.length = block * BLOCK + content.len() as u64 - offset;
            }
            Some((block, _)) => extent.length = extent.length.min(block * BLOCK - offset),
            None => {}
        }
        Ok(extent)
    }
}

fn rest(size: u64, offset: u64) -> io::Result<u64> {
    let length = size.checked_sub(offset).filter(|length| *length > 0);
    length.ok_or_else(|| io::Error::new(io::ErrorKind::UnexpectedEof, "beyond the end of the disk"))
}

fn block_of(disk: &dyn DiskView, block: u64) -> Vec<u8> {
    let mut content = vec![0; BLOCK.min(disk.size() - block * BLOCK) as usize];
    disk.read_at(block * BLOCK, &mut content).expect("a block of a disk");
    content
}
