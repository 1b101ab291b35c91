//! Guest memory, from outside: which pages a clone has made its own, reading them, writing them into another
//! clone, and keeping them in files.
//!
//! A clone maps its base (a template's memory) privately, so exactly the pages it wrote since are anonymous pages of
//! its QEMU. The kernel tells which those are; nothing in the guest or in QEMU has to keep count.

mod image;
mod map;
mod pages;
mod ram;
mod scan;

pub use image::{MemoryFiles, MemoryImage, Written};
pub use map::{Entry, MapError, PageMap, Place};
pub use pages::{PAGE, Pages, Run};
pub use ram::GuestRam;
