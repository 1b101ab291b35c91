//! Guest memory, from outside: which pages a clone has made its own, reading them, writing them into another
//! clone, and keeping them in files.
//!
//! A clone maps its base (a template's memory) privately, so exactly the pages it wrote since are anonymous pages of
//! its QEMU. The kernel tells which those are; nothing in the guest or in QEMU has to keep count. On Linux 6.7 and later
//! it also tells which of them were written to since the last time, so that a machine can be copied while it runs.
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
