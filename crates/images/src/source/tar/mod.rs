//! Tar archives: old, ustar, pax and GNU, with long names, extended attributes and sparse files.
//!
//! Read here rather than by a crate because a hostile archive decides how large its own headers are, and
//! because pax records may hold newlines (capabilities do) that line-wise parsers trip over.

mod members;
mod pax;
mod reader;
mod source;
mod sparse;

pub(crate) use members::{Member, MemberKind};
pub use pax::parse_pax;
pub(crate) use reader::TarReader;
pub use source::TarSource;
pub(crate) use source::stream_tar;
pub(super) use source::{Counted, attributes, entry_kind};
