//! Classification of one command.

use super::walk::{Step, Walk};
use super::{Categories, Scope};

/// A command as it is asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Command<'a> {
    /// A program with its arguments, run without a shell.
    Argv(&'a [String]),
    /// A line for a shell.
    Shell(&'a str),
}

/// What a command may do, and why.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Classified {
    /// The categories of all its parts together.
    pub categories: Categories,
    /// Its parts, in the order in which they were read.
    pub steps: Vec<Step>,
}

/// Classifies a command. What is unknown, damaged or cannot be seen through is at least `mutating`; what is too long or
/// too deep to be read has every risk.
pub fn classify(scope: &Scope, command: Command<'_>) -> Classified {
    let (categories, steps) = match command {
        Command::Argv(argv) => Walk::argv(scope, argv),
        Command::Shell(line) => Walk::line(scope, line),
    };
    Classified { categories, steps }
}
