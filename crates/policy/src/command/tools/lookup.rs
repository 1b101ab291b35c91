//! Finds the rows for a command.

use std::sync::Arc;

use super::super::walk::Arg;
use super::flags::options;
use super::load::TOOLS;
use super::model::{Entry, Tool};

/// The rows for a command.
#[derive(Clone, Debug)]
pub struct Found {
    /// The program.
    pub tool: Arc<Tool>,
    /// The index of its subcommand's row.
    pub subcommand: Option<usize>,
    /// How many of the arguments are global flags and the words of the subcommand.
    pub consumed: usize,
    /// Whether the program has subcommands and this one is not known.
    pub is_strange: bool,
}

impl Found {
    /// The row that decides.
    pub fn entry(&self) -> &Entry {
        match self.subcommand {
            Some(index) => &self.tool.subcommands[index].1,
            None => &self.tool.entry,
        }
    }

    /// The words of the subcommand as the table has them.
    pub fn subcommand(&self) -> Option<&str> {
        self.subcommand.map(|index| self.tool.subcommands[index].0.as_str())
    }
}

/// Finds the program by its name, and its subcommand by its arguments.
pub fn find(program: &str, args: &[Arg]) -> Option<Found> {
    let tool = named(program)?;
    if tool.subcommands.is_empty() {
        return Some(Found { tool, subcommand: None, consumed: 0, is_strange: false });
    }
    let index_of = |name: &str| tool.subcommands.iter().position(|(known, _)| known == name);
    // Some have flags that work like subcommands: `dotnet --info`.
    if let Some(index) =
        args.first().filter(|arg| arg.text.starts_with('-')).and_then(|arg| index_of(&arg.text))
    {
        return Some(Found { tool, subcommand: Some(index), consumed: 1, is_strange: false });
    }
    let global = options(&[&tool.entry], args, true);
    let words: Vec<(usize, &str)> = global
        .positional
        .iter()
        .map(|index| (*index, args[*index].text.as_str()))
        // `cargo +nightly build`.
        .filter(|(_, word)| !word.starts_with(['-', '+']))
        .take(3)
        .collect();
    let mut best = None;
    let mut path = String::new();
    for (position, word) in &words {
        if !path.is_empty() {
            path.push('/');
        }
        path.push_str(word);
        if let Some(index) = index_of(&path) {
            best = Some((index, position + 1));
        }
    }
    let (subcommand, consumed, is_strange) = match (best, words.first()) {
        (Some((index, consumed)), _) => (Some(index), consumed, false),
        (None, Some((position, word))) => {
            // A word that may be absent may leave the program without a subcommand.
            let is_missing = word.contains('\0');
            (index_of("*"), if is_missing { 0 } else { *position }, true)
        }
        (None, None) => (index_of("-"), args.len(), false),
    };
    Some(Found { tool, subcommand, consumed, is_strange })
}

/// Finds a program by its name, with or without a version: `python3.12`, `gcc-13`.
fn named(program: &str) -> Option<Arc<Tool>> {
    if let Some(tool) = TOOLS.get(program) {
        return Some(Arc::clone(tool));
    }
    let plain = program.strip_suffix(".exe").unwrap_or(program);
    let unversioned = plain.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    let unversioned = unversioned.trim_end_matches('-');
    let is_versioned = unversioned.len() < program.len() && !unversioned.is_empty();
    if let Some(tool) = TOOLS.get(plain).or_else(|| is_versioned.then(|| TOOLS.get(unversioned)).flatten()) {
        return Some(Arc::clone(tool));
    }
    // `mkfs.ext4`, `fsck.vfat`, `mount.nfs`, and cross compilers.
    let family =
        plain.split('.').next().filter(|family| matches!(*family, "mkfs" | "fsck" | "mount" | "umount"));
    let cross = plain
        .rsplit('-')
        .next()
        .filter(|name| matches!(*name, "gcc" | "g++" | "ld" | "ar" | "objdump" | "readelf"));
    TOOLS.get(family.or(cross)?).map(Arc::clone)
}
