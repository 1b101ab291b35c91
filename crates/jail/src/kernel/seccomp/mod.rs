//! The filter of system calls.

mod filter;
mod rules;

pub(crate) use filter::Filter;
pub(crate) use rules::{Sockets, renames, sandbox};
