//! Changes of files: a list of operations is one change of the vault.

mod apply;
mod op;
mod paths;
mod working;

pub use op::{FileOp, NewContent, Staged};
