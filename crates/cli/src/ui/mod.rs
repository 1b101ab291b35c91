//! What a person sees: the only place that writes to the terminal.
//!
//! Everything is written through a [`Stream`], so that tests can read what a user would.

mod error;
mod human;
mod progress;
mod stream;
mod style;
mod table;
mod tree;
mod verbs;

pub use error::{error_object, report};
pub use human::{age, age_since, bytes, counted, duration, milliseconds, vcpus};
pub use progress::{Bars, Lines, progress};
pub use stream::{Capture, Stream};
pub use style::{Paint, TOP};
pub(crate) use style::{harmless, one_line};
pub use table::Table;
pub(crate) use tree::tree;
