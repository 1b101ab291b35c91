//! A program with its arguments, as handlers get it.

use super::super::tools::{Entry, Found, Options, options};
use super::state::{Arg, Streams};

/// A call of a program that is in the tables.
pub(super) struct Call<'c> {
    /// The program's name without its directory.
    pub name: &'c str,
    /// The arguments behind the name.
    pub args: &'c [Arg],
    /// The rows of the tables.
    pub found: &'c Found,
    /// Standard input and output.
    pub streams: &'c Streams,
}

impl<'c> Call<'c> {
    /// The rows whose flags count: those of the subcommand come first.
    pub(super) fn entries(&self) -> Vec<&'c Entry> {
        match self.found.subcommand {
            Some(_) => vec![self.found.entry(), &self.found.tool.entry],
            None => vec![&self.found.tool.entry],
        }
    }

    /// The arguments by their role; positional arguments behind the subcommand.
    pub(super) fn options(&self) -> Options<'c> {
        self.sorted(false)
    }

    /// The same, but everything behind the first positional argument is positional.
    pub(super) fn options_first(&self) -> Options<'c> {
        self.sorted(true)
    }

    /// Flags before the subcommand are those of the program.
    fn sorted(&self, until_positional: bool) -> Options<'c> {
        let (before, behind) = self.args.split_at(self.found.consumed.min(self.args.len()));
        let mut all = options(&[&self.found.tool.entry], before, false);
        all.positional.clear();
        let mut behind = options(&self.entries(), behind, until_positional);
        for index in &mut behind.positional {
            *index += before.len();
        }
        all.append(behind);
        all
    }

    pub(super) fn text(&self, index: usize) -> &'c str {
        &self.args[index].text
    }

    /// The positional arguments as text.
    pub(super) fn positional(&self, options: &Options<'_>) -> Vec<&'c str> {
        options.positional.iter().map(|index| self.text(*index)).collect()
    }
}
