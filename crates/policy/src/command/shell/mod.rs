//! A bounded parser of the shell language: what POSIX defines, and what bash adds to it.
//!
//! It never fails on bad syntax: it says that the line is damaged, skips what it cannot read and reads on, so that
//! the commands behind are seen too. It does fail on lines that are too long or too deeply nested to be read.

mod ast;
mod compound;
mod cursor;
mod dollar;
mod heredoc;
mod list;
mod quote;
mod redirect;
mod simple;
mod word;

pub use ast::{Assignment, Change, List, Node, Piece, Redirect, RedirectKind, Simple, Word};
pub use cursor::{Excess, MAX_DEPTH, MAX_LENGTH};
pub use list::parse;
