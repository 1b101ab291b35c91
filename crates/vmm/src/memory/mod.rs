//! Guest memory, accessed from outside the guest: finding the private pages of a clone, reading them, writing them into
//! another clone, and storing them in files.
//!
//! A clone maps its base (a template's memory) privately, so the pages it has written are anonymous pages of its QEMU.
//! The kernel reports which those are; neither the guest nor QEMU has to track them. From Linux 6.7 it also reports which
//! of them were written since the last query, so that a machine can be copied while it runs.
#![expect(clippy::disallowed_methods, reason = "called on blocking threads, or `in_place`")]

mod checks;
mod copy;
mod files;
#[cfg(test)]
mod image_tests;
mod inject;
mod map;
mod map_format;
mod pages;
mod ram;
mod reader;
mod scan;
mod track;
mod writer;

pub use checks::Checks;
pub use copy::{CopiedMemory, MemoryCopy};
pub use files::{MemoryFiles, MemoryImage};
pub use map::{Entry, PageMap, Place};
pub use map_format::MapError;
pub use pages::{PAGE, Pages, Run};
pub use ram::GuestRam;
pub use writer::{ImageWriter, Written};
