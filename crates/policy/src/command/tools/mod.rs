//! What common programs do: tables, and how they are read.
//!
//! A program or subcommand has effects; flags add effects, take values or make the command harmless; positional
//! arguments have kinds. What no table can say has a handler in `walk`.

mod flags;
mod load;
mod lookup;
mod model;

pub use flags::{Options, options};
pub use lookup::{Found, find};
pub use model::{Entry, Handler, Kind};
