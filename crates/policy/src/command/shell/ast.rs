//! What a shell line consists of.

use std::rc::Rc;

/// Commands in the order in which they are written. Which operator joins them does not matter for what they may do.
pub type List = Vec<Node>;

/// A command of the shell.
#[derive(Clone, Debug)]
pub enum Node {
    /// Assignments, words and redirections.
    Simple(Simple),
    /// Commands joined by `|`. Each has its own subshell.
    Pipeline(Vec<Node>),
    /// `( … )`, `{ …; }`, and the parts of `if`, `while` and `until`.
    Group {
        /// The commands.
        body: List,
        /// Whether changes of directory and variables end with the group.
        subshell: bool,
        /// Redirections of the whole group.
        redirects: Vec<Redirect>,
    },
    /// `for` and `select`.
    For {
        /// The variable.
        name: String,
        /// The words after `in`.
        words: Vec<Word>,
        /// The commands.
        body: List,
        /// `select`, which asks the terminal.
        asks: bool,
        /// Redirections of the loop.
        redirects: Vec<Redirect>,
    },
    /// `case`.
    Case {
        /// The word and all patterns: they may contain substitutions.
        words: Vec<Word>,
        /// The commands of all branches.
        body: List,
        /// Redirections of the command.
        redirects: Vec<Redirect>,
    },
    /// The definition of a function.
    Function {
        /// Its name.
        name: String,
        /// Its commands.
        body: Rc<List>,
    },
    /// `[[ … ]]` and `(( … ))`: words that are evaluated and run nothing but their substitutions.
    Test {
        /// The words.
        words: Vec<Word>,
        /// Redirections of the command.
        redirects: Vec<Redirect>,
    },
}

/// A simple command.
#[derive(Clone, Debug, Default)]
pub struct Simple {
    /// `NAME=value` before the first word.
    pub assignments: Vec<Assignment>,
    /// The program and its arguments.
    pub words: Vec<Word>,
    /// Redirections, wherever they were written.
    pub redirects: Vec<Redirect>,
}

/// `NAME=value`.
#[derive(Clone, Debug)]
pub struct Assignment {
    /// The variable, without an index.
    pub name: String,
    /// The index, which is evaluated.
    pub index: Vec<Piece>,
    /// The value; the elements of an array, one after the other.
    pub value: Vec<Word>,
    /// `NAME+=value`.
    pub appends: bool,
}

/// A word before expansion.
#[derive(Clone, Debug, Default)]
pub struct Word {
    /// Its parts.
    pub pieces: Vec<Piece>,
}

/// A part of a word.
#[derive(Clone, Debug)]
pub enum Piece {
    /// Literal text.
    Text {
        /// Without quotes and escapes.
        text: String,
        /// Whether it was quoted, so that `~`, `*` and `{` mean themselves.
        quoted: bool,
    },
    /// `$name` and `${name…}`.
    Parameter {
        /// The name, or the special character.
        name: String,
        /// What is done with the value.
        change: Change,
        /// Whether it stands within double quotes, so that it is not split.
        quoted: bool,
    },
    /// `$( … )` and `` `…` ``.
    Command {
        /// The commands.
        body: List,
        /// Whether it stands within double quotes.
        quoted: bool,
    },
    /// `<( … )` and `>( … )`.
    Process {
        /// The commands.
        body: List,
        /// `>( … )`: they read what is written to the file.
        reads: bool,
    },
    /// `$(( … ))`: only its substitutions matter.
    Arithmetic(Vec<Piece>),
    /// The index in `${name[…]}`: evaluated, and no part of the word.
    Evaluated(Vec<Piece>),
}

/// What `${name…}` does with the value of the parameter.
#[derive(Clone, Debug)]
pub enum Change {
    /// Nothing.
    None,
    /// `${x:-word}` and `${x:=word}`: the word if there is no value.
    Default(Word),
    /// `${x:+word}`: the word if there is a value.
    Alternative(Word),
    /// `${x:offset:length}` with literal numbers.
    Slice(i64, Option<i64>),
    /// `${x/from/to}` and `${x//from/to}` with literal text.
    Replace {
        /// What is replaced.
        from: String,
        /// What it is replaced with.
        to: String,
        /// Whether every occurrence is replaced.
        all: bool,
    },
    /// `${x%pattern}` and the like: a part is cut off.
    Trim {
        /// The literal pattern.
        pattern: String,
        /// `%` and not `#`.
        from_end: bool,
        /// `%%` and `##`.
        is_longest: bool,
    },
    /// `${x@P}`: the value is expanded once more.
    Prompt,
    /// Everything else. The word has its substitutions.
    Unknown(Word),
}

/// A redirection.
#[derive(Clone, Debug)]
pub struct Redirect {
    /// The operator.
    pub kind: RedirectKind,
    /// The descriptor before the operator.
    pub descriptor: Option<u32>,
    /// The file, descriptor or text.
    pub target: Word,
}

/// The kinds of redirections.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RedirectKind {
    /// `<`.
    Read,
    /// `>`, `>|`, `&>`, and `>&` before a file.
    Write,
    /// `>>` and `&>>`.
    Append,
    /// `<>`.
    ReadWrite,
    /// `>&1`, `<&3`, `>&-`.
    Duplicate,
    /// `<<WORD` and `<<<word`: the target is the text.
    Text,
}

impl Word {
    /// A word of literal text that needs no expansion.
    pub fn literal(text: impl Into<String>) -> Self {
        Self { pieces: vec![Piece::Text { text: text.into(), quoted: true }] }
    }
}
