//! The rows of the tables.

use super::super::Categories;

/// A program.
#[derive(Debug)]
pub struct Tool {
    /// What it does by itself, and its global flags.
    pub entry: Entry,
    /// Its subcommands: their words joined by `/`, and what they do. `-` stands for no subcommand, `*` for any other.
    pub subcommands: Vec<(String, Entry)>,
}

/// What a program or one of its subcommands does.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    /// Effects without any flag.
    pub effect: Categories,
    /// Flags with a meaning for us.
    pub flags: Vec<FlagRule>,
    /// Kinds of the positional arguments; the last one repeats.
    pub args: Vec<Kind>,
    /// What to do beyond the table.
    pub handler: Option<Handler>,
    /// Single-dash words are whole flags, as with `find` and `java`.
    pub long_dashes: bool,
    /// Flags behind `--` count as well, as with `cargo fmt -- --check`.
    pub past_dashes: bool,
    /// Without arguments the program only prints something.
    pub bare_is_harmless: bool,
    /// Flags with which the first positional argument has the second kind already: `grep -e PATTERN FILE`.
    pub first_is_given_by: Vec<String>,
    /// Effects of more than a number of positional arguments: `hostname NAME`.
    pub with_more: Option<(usize, Categories)>,
    /// Effects of fewer than a number of positional arguments.
    pub with_fewer: Option<(usize, Categories)>,
    /// Effects of an argument with `=` in it: `sysctl NAME=VALUE`.
    pub with_setting: Categories,
}

/// One or several spellings of a flag.
#[derive(Clone, Debug)]
pub struct FlagRule {
    /// The spellings, with dashes.
    pub names: Vec<String>,
    /// The kind of its value, if it has one.
    pub value: Option<Kind>,
    /// Effects it adds.
    pub adds: Categories,
    /// Effects that it adds whatever other flags leave.
    pub insists: Categories,
    /// The effects that it leaves of the row's own: none if the command then only shows something.
    pub leaves: Option<Categories>,
}

/// What an argument or the value of a flag is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Text without an effect.
    Text,
    /// A path that is read, if it looks like one.
    Read,
    /// A path of a program that writes.
    Write,
    /// A file that is written; writing to most devices changes nothing.
    Output,
    /// The directory in which the rest happens.
    Directory,
    /// A shell command line.
    Shell,
    /// A program in another language.
    Code,
    /// SQL.
    Sql,
    /// A program for `sed`.
    Sed,
    /// A program for `awk`.
    Awk,
}

/// Behaviour that no table describes. The functions are in `walk::handlers`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Handler {
    /// Runs its arguments as a command, after this many positional arguments.
    Wrap(usize),
    /// Runs its arguments as a command with more arguments from standard input.
    Xargs,
    /// Prints its arguments.
    Echo,
    /// Prints its arguments by a format.
    Printf,
    /// Copies standard input.
    Cat,
    /// Decodes base64.
    Base64,
    /// Decodes something else that we do not follow.
    Decode,
    /// Reverses lines.
    Reverse,
    /// Translates characters.
    Translate,
    /// A shell.
    Shell,
    /// Joins its arguments and runs them.
    Eval,
    /// Runs a file in the present shell.
    Source,
    /// Changes the directory.
    Cd,
    /// Sets variables.
    Declare,
    /// Sets or moves the positional parameters.
    Positional,
    /// Defines aliases.
    Alias,
    /// Runs a command on a signal.
    Trap,
    /// Reads a line from the terminal.
    Ask,
    /// Finds files and runs commands on them.
    Find,
    /// `fd`: finds files and runs a command on them.
    FindSimple,
    /// An editor or debugger with commands of its own in its arguments.
    Editor,
    /// An interpreter: its script, code or terminal.
    Interpreter,
    /// A pager or another program that only needs a terminal if its output is one.
    Pager,
    /// A client of a database.
    Database,
    /// A client of a cloud: the verb decides.
    Cloud,
    /// Copies files between hosts or locally.
    Remote,
    /// Runs a command on another host.
    Ssh,
    /// Transfers a URL.
    Curl,
    /// Copies blocks.
    Dd,
    /// Archives.
    Tar,
    /// Archives of object files.
    Archive,
    /// Copies files.
    Copy,
    /// Mounts file systems, also of other hosts.
    Mount,
    /// Runs its input later.
    Later,
    /// Makes keys, and asks for their passwords.
    Keygen,
    /// Is networked if an argument is a URL.
    Local,
    /// Runs or changes containers.
    Container,
    /// `make` and its targets.
    Make,
    /// `cmake` and its targets.
    Cmake,
    /// `git` beyond its tables.
    Git,
    /// Runs scripts of a package.
    Scripts,
    /// Finds the path of a program.
    Which,
    /// Another program whose name is the first argument.
    Multicall,
    /// Prints a part of a path.
    Dirname,
    /// Prints the working directory.
    Pwd,
}
