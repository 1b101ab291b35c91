//! What is where in a markdown text. Everything here is linear in the length of the text and keeps byte ranges, so that
//! an edit replaces those bytes and no others.

mod blocks;
mod inline;
mod links;
mod sections;
mod tags;

pub(crate) use links::encode;
pub use links::{Link, LinkKind, links};
pub(crate) use sections::join;
pub use sections::{SectionEdit, SectionError, edit_section};
pub use tags::{is_tag, tags};

pub use blocks::{Heading, Outline, outline};
