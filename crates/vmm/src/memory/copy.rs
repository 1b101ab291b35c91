//! Copying a machine's memory into an image while the machine runs.
//!
//! ```text
//!   start: all own pages ─► what changed meanwhile ─► … ─► little changes
//!      │                                                       │
//!      │ few pages, or writes cannot be tracked                ▼
//!      └──────────────────────────────────────────────► keep up ─► machine stops ─► the rest ─► finish
//! ```
//!
//! Pages go to the image as they are read; only the rest, which is read while the machine stands still, is held in
//! memory until the machine runs again, and of that no more than [`MOST_HELD`] pages.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::files::MemoryImage;
use super::pages::{self, PAGE, Pages, Run};
use super::ram::GuestRam;
use super::track::WriteTracker;
use super::writer::{ImageWriter, Written};

/// Pages that are read while the machine stands still without anybody noticing. Machines with fewer of their own are
/// not copied beforehand.
const LITTLE: u64 = 4096;
/// The most passes over what changed, before the machine is stopped though it changes much.
const PASSES: u32 = 6;
/// Between two looks at a machine that changes little.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// Pages read at once.
const BATCH: u64 = 1024;
/// The most pages held in memory. What is more goes to the image while the machine stands still.
const MOST_HELD: u64 = 16 * 1024;

/// A copy that is being made.
#[derive(Debug)]
pub struct MemoryCopy {
    ram: GuestRam,
    writer: ImageWriter,
    /// Absent if the machine is not copied beforehand.
    tracker: Option<WriteTracker>,
    buffer: Vec<u8>,
    /// For the rest, so that taking it does not wait for memory.
    room: Pages,
}

/// A copy that is complete, and not all written yet.
#[derive(Debug)]
pub struct CopiedMemory {
    writer: ImageWriter,
    own: Vec<Run>,
    rest: Pages,
}

impl MemoryCopy {
    /// Copies the memory of a running machine, until little of it changes while it is copied.
    pub fn start(ram: GuestRam, writer: ImageWriter) -> io::Result<Self> {
        let own = pages::count(&ram.own_pages()?);
        let tracker = if own <= LITTLE { None } else { tracker(&ram) };
        let expected = if tracker.is_some() { LITTLE } else { (own + own / 8 + 256).min(MOST_HELD) };
        let mut copy = Self { ram, writer, tracker, buffer: Vec::new(), room: Pages::with_room(expected) };
        let mut before = u64::MAX;
        for _ in 0..PASSES {
            let changed = copy.pass()?;
            if changed < LITTLE || changed > before / 2 {
                break;
            }
            before = changed;
        }
        Ok(copy)
    }

    /// Copies what changes, until it is enough.
    pub fn keep_up(&mut self, enough: &AtomicBool) -> io::Result<()> {
        while self.tracker.is_some() && !enough.load(Ordering::Acquire) {
            if self.pass()? < LITTLE {
                std::thread::sleep(LOOK_AGAIN);
            }
        }
        Ok(())
    }

    /// Copies what changed since the last pass. Returns how many pages that was.
    fn pass(&mut self) -> io::Result<u64> {
        if self.tracker.is_none() {
            return Ok(0);
        }
        let changed = self.ram.changed_pages()?;
        self.copy(&changed)?;
        Ok(pages::count(&changed))
    }

    fn copy(&mut self, runs: &[Run]) -> io::Result<()> {
        for batch in pages::batches(runs, BATCH) {
            self.buffer.resize(pages::count(&batch) as usize * PAGE, 0);
            self.ram.read(&batch, &mut self.buffer)?;
            self.writer.put(&batch, &self.buffer)?;
        }
        Ok(())
    }

    /// Takes the pages that were not copied as they are now. The machine must stand still.
    pub fn take_rest(mut self) -> io::Result<CopiedMemory> {
        let (own, mut rest) = match self.tracker {
            Some(_) => self.ram.own_and_changed()?,
            None => {
                let own = self.ram.own_pages()?;
                (own.clone(), own)
            }
        };
        if pages::count(&rest) > MOST_HELD {
            let (now, later) = pages::split_at(&rest, pages::count(&rest) - MOST_HELD);
            self.copy(&now)?;
            rest = later;
        }
        let Self { ram, writer, room, .. } = self;
        Ok(CopiedMemory { writer, own, rest: ram.take(rest, room)? })
    }
}

impl CopiedMemory {
    /// Writes what is still held, and completes the image.
    pub fn finish(mut self, device: &[u8]) -> io::Result<(MemoryImage, Written)> {
        self.writer.put(self.rest.runs(), self.rest.content())?;
        self.writer.finish(device, &self.own)
    }
}

/// Without one the machine stands still for as long as all its own pages take.
fn tracker(ram: &GuestRam) -> Option<WriteTracker> {
    match ram.track() {
        Ok(tracker) => Some(tracker),
        Err(error) => {
            tracing::debug!(%error, "writes to the guest's memory cannot be tracked; it is copied in one pause");
            None
        }
    }
}

#[cfg(test)]
#[path = "copy_tests.rs"]
mod tests;
