//! Walks over a parsed line and collects what its commands may do.
//!
//! Every command adds its categories to one set; nothing takes a category away again, so a longer line is never less
//! risky than its beginning. State of the shell that decides what later words mean is followed where it is literal:
//! the directory, variables, functions, aliases, and the text in pipes and here-documents.

mod call;
mod code;
mod containers;
mod data;
mod editors;
mod expand;
mod fields;
mod files;
mod git;
mod handlers;
mod harmless;
mod judged;
mod languages;
mod names;
mod network;
mod nodes;
mod paths;
mod printing;
mod programs;
mod scripts;
mod shells;
mod simple;
mod sql;
mod state;
mod wrappers;

pub use judged::Step;
pub use state::{Arg, Walk};
