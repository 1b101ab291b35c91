//! Loading a memory image into a guest.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::checks::verify_pages;
use super::files::{MemoryFiles, MemoryImage};
use super::map::{Entry, Place};
use super::pages::{PAGE, Pages, Run};
use super::ram::GuestRam;

/// Pages per step: few enough to stay in the CPU cache while they are read, verified and written.
const BATCH: u64 = 256;

/// A target for pages of guest memory.
pub(super) trait Target: Sync {
    fn put(&self, pages: &Pages) -> io::Result<()>;
}

impl Target for GuestRam {
    fn put(&self, pages: &Pages) -> io::Result<()> {
        GuestRam::put(self, pages)
    }
}

impl MemoryFiles {
    /// Writes an image's pages into a guest that has its base and has not run yet. Each is verified first, if the image
    /// has checksums; a mismatch is an error of kind `InvalidData`.
    pub fn put(&self, image: &MemoryImage, ram: &GuestRam) -> io::Result<()> {
        self.put_into(image, ram)
    }

    pub(super) fn put_into(&self, image: &MemoryImage, target: &impl Target) -> io::Result<()> {
        let packs = self.open_packs(&image.map)?;
        let entries: Vec<(Entry, &[u32])> = image.map.checked_entries().collect();
        let (first, second) = entries.split_at(middle(&entries));
        std::thread::scope(|scope| {
            let other = scope.spawn(|| put_entries(first, &packs, target));
            let ours = put_entries(second, &packs, target);
            other.join().unwrap_or_else(|_| Err(io::Error::other("copying guest memory failed"))).and(ours)
        })
    }
}

/// Where to split entries so that both parts have about the same number of pages.
fn middle(entries: &[(Entry, &[u32])]) -> usize {
    let half = entries.iter().map(|(entry, _)| entry.run.count).sum::<u64>() / 2;
    let mut before = 0;
    entries
        .iter()
        .position(|(entry, _)| {
            before += entry.run.count;
            before > half
        })
        .unwrap_or(0)
}

fn put_entries(entries: &[(Entry, &[u32])], packs: &[File], target: &impl Target) -> io::Result<()> {
    let mut batch = Pages::default();
    let mut held = 0;
    for (entry, sums) in entries {
        let mut done = 0;
        while done < entry.run.count {
            let count = (entry.run.count - done).min(BATCH - held);
            let run = Run { first: entry.run.first + done, count };
            let start = batch.content.len();
            batch.content.resize(start + run.bytes(), 0);
            if let Place::Pack { pack, at } = entry.place {
                let content = &mut batch.content[start..];
                packs[pack].read_exact_at(content, (at + done) * PAGE as u64)?;
                if let Some(sums) = sums.get(done as usize..) {
                    verify_pages(content, sums, at + done)?;
                }
            }
            batch.runs.push(run);
            (held, done) = (held + count, done + count);
            if held == BATCH {
                target.put(&batch)?;
                batch.runs.clear();
                batch.content.clear();
                held = 0;
            }
        }
    }
    target.put(&batch)
}
