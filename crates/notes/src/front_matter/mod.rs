//! Front matter: YAML between two lines `---` at the beginning of a note.
//!
//! Edits replace the lines of one key and keep every other byte. Where a key begins and ends is taken from the positions
//! that a YAML parser reports, and each edit is checked by parsing the result: all other values must be as before.

mod block;
mod edit;
mod emit;
mod list;
mod yaml;

pub use block::{Block, block};
pub use edit::{FrontMatterEdit, edit_front_matter};
pub use yaml::{YamlError, parse};

pub(crate) use list::{tags_of, with_tag, without_tag};
