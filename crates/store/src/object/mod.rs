//! The formats of objects. Each starts with four bytes of magic and a version, and is bounded when it is read.

mod attributes;
mod codec;
mod directory;
mod recipe;

pub use attributes::Attributes;
pub use directory::{Directory, DirectoryObject, Page, PageRef};
pub use recipe::{Recipe, Segment};
