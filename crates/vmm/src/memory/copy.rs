//! Copying a machine's memory into an image while the machine runs.
//!
//! ```text
//!   start: all private pages ─► changed pages ─► … ─► few changes
//!      │                                                  │
//!      │ few pages, or writes cannot be tracked           ▼
//!      └─────────────────────────────────────────► keep up ─► machine stops ─► the rest ─► finish
//! ```
//!
//! Pages are written to the image as they are read. Only the rest, which is read during the pause, is buffered in memory
//! until the machine runs again, and at most [`MOST_BUFFERED`] pages of it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::files::MemoryImage;
use super::pages::{self, PAGE, Pages, Run};
use super::ram::GuestRam;
use super::track::WriteTracker;
use super::writer::{ImageWriter, Written};

/// How many pages can be read in a pause that is not noticeable. Machines with fewer private pages are not copied
/// beforehand.
const LITTLE: u64 = 4096;
/// The most passes over changed pages before the machine is stopped in any case.
const PASSES: u32 = 6;
/// The interval between passes over a machine with few changes.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// Pages read at once.
const BATCH: u64 = 1024;
/// The most pages buffered in memory. Further pages are written to the image during the pause.
const MOST_BUFFERED: u64 = 16 * 1024;

/// A copy in progress.
#[derive(Debug)]
pub struct MemoryCopy {
    ram: GuestRam,
    writer: ImageWriter,
    /// Absent if the machine is copied in one pause.
    tracker: Option<WriteTracker>,
    buffer: Vec<u8>,
    /// Allocated beforehand for the rest, so that the pause does not wait for memory.
    room: Pages,
}

/// A complete copy, part of which is still buffered.
#[derive(Debug)]
pub struct CopiedMemory {
    writer: ImageWriter,
    own: Vec<Run>,
    rest: Pages,
}

impl MemoryCopy {
    /// Copies the memory of a running machine, in passes, until few pages change during a pass.
    pub fn start(ram: GuestRam, writer: ImageWriter) -> io::Result<Self> {
        let own = pages::count(&ram.own_pages()?);
        let tracker = if own <= LITTLE { None } else { tracker(&ram) };
        let expected = if tracker.is_some() { LITTLE } else { (own + own / 8 + 256).min(MOST_BUFFERED) };
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

    /// Copies changed pages until `enough` is set.
    pub fn keep_up(&mut self, enough: &AtomicBool) -> io::Result<()> {
        while self.tracker.is_some() && !enough.load(Ordering::Acquire) {
            if self.pass()? < LITTLE {
                std::thread::sleep(LOOK_AGAIN);
            }
        }
        Ok(())
    }

    /// Copies pages that changed since the last pass. Returns their number.
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

    /// Reads the remaining pages. The machine must be paused.
    pub fn take_rest(mut self) -> io::Result<CopiedMemory> {
        let (own, mut rest) = match self.tracker {
            Some(_) => self.ram.own_and_changed()?,
            None => {
                let own = self.ram.own_pages()?;
                (own.clone(), own)
            }
        };
        if pages::count(&rest) > MOST_BUFFERED {
            let (now, later) = pages::split_at(&rest, pages::count(&rest) - MOST_BUFFERED);
            self.copy(&now)?;
            rest = later;
        }
        let Self { ram, writer, room, .. } = self;
        Ok(CopiedMemory { writer, own, rest: ram.take(rest, room)? })
    }
}

impl CopiedMemory {
    /// Writes the buffered pages and completes the image.
    pub fn finish(mut self, device: &[u8]) -> io::Result<(MemoryImage, Written)> {
        self.writer.put(self.rest.runs(), self.rest.content())?;
        self.writer.finish(device, &self.own)
    }
}

/// Starts tracking writes. If that fails, all private pages are copied in one pause.
fn tracker(ram: &GuestRam) -> Option<WriteTracker> {
    match ram.track() {
        Ok(tracker) => Some(tracker),
        Err(error) => {
            tracing::debug!(%error, "cannot track writes to the guest's memory; copying it in one pause");
            None
        }
    }
}

#[cfg(test)]
#[path = "copy_tests.rs"]
mod tests;
