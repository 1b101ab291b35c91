//! What is known while a line is walked over.

use std::borrow::Cow;
use std::rc::Rc;

use super::super::Categories;
use super::super::scope::Scope;
use super::super::shell::{Excess, List, MAX_DEPTH, parse};
use super::judged::{Judged, Step};

/// Stands for text that is not known before the command runs. No argument can contain it.
pub const UNKNOWN: char = '\0';

/// How many simple commands, words and values one line may take.
const MAX_STEPS: u32 = 20_000;

/// How many bytes one line may make the walk parse again, through `eval`, `sh -c` and the like.
const MAX_REPARSED: usize = 512 * 1024;

/// How many steps one line may have: rules look at every one of them.
const MAX_KEPT: usize = 2000;

/// An argument after expansion.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Arg {
    /// Its text, with [`UNKNOWN`] for unknown parts.
    pub text: String,
    /// It may turn out to be no argument, or several.
    pub optional: bool,
    /// The shell looks for files whose names match it.
    pub is_pattern: bool,
}

impl Arg {
    pub(super) fn known(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

/// Where a command's standard input comes from.
#[derive(Clone, Debug, Default)]
pub enum Input {
    /// From the terminal, if there is one.
    #[default]
    Terminal,
    /// From a file or from a command whose output is not known. `hidden` is output of a decoder.
    Unknown {
        /// Whether it was decoded from a form that nobody can read.
        hidden: bool,
    },
    /// This text.
    Text(String),
}

/// What a command prints.
#[derive(Clone, Debug, Default)]
pub struct Output {
    /// The text, if it is known.
    pub text: Option<String>,
    /// Whether it was decoded from a form that nobody can read.
    pub hidden: bool,
}

impl Output {
    pub(super) fn known(text: impl Into<String>) -> Self {
        Self { text: Some(text.into()), hidden: false }
    }

    pub(super) fn into_input(self) -> Input {
        match self.text {
            Some(text) => Input::Text(text),
            None => Input::Unknown { hidden: self.hidden },
        }
    }
}

/// Standard input and output of a command.
#[derive(Clone, Debug, Default)]
pub struct Streams {
    /// Standard input.
    pub input: Input,
    /// Whether standard output is something else than the terminal.
    pub captured: bool,
    /// Whether standard output is a file.
    pub saved: bool,
}

/// The state of the shell.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub cwd: String,
    pub previous_cwd: Option<String>,
    pub variables: Vec<(String, String)>,
    pub functions: Vec<(String, Rc<List>)>,
    pub aliases: Vec<(String, String)>,
    /// The arguments of the function or script that is running.
    pub positional: Vec<String>,
}

/// A walk over one line.
#[derive(Debug)]
pub struct Walk<'s> {
    pub(super) scope: &'s Scope,
    pub(super) state: State,
    pub(super) found: Categories,
    pub(super) steps: Vec<Step>,
    /// Whether paths are those of this host, and not of a container or another host.
    pub(super) paths_count: bool,
    /// Whether changes of the system are changes of this host.
    pub(super) host_counts: bool,
    /// A program that needs a terminal unless its output goes to a harmless command.
    pub(super) pager_waits: bool,
    /// Texts of which the earlier commands of a pipeline make their output.
    pub(super) drafts: Vec<String>,
    pub(super) depth: u32,
    left: u32,
    reparsed: usize,
    /// Letters of programs in other languages that were read.
    pub(super) programs_read: usize,
}

impl<'s> Walk<'s> {
    /// Walks over a shell line.
    pub fn line(scope: &'s Scope, line: &str) -> (Categories, Vec<Step>) {
        let mut walk = Self::new(scope);
        let result = walk.text(line, Streams::default());
        walk.finish(result.map(|_| ()))
    }

    /// Walks over a command that is run without a shell.
    pub fn argv(scope: &'s Scope, argv: &[String]) -> (Categories, Vec<Step>) {
        let mut walk = Self::new(scope);
        let args: Vec<Arg> = argv.iter().map(|arg| Arg::known(arg.replace(UNKNOWN, " "))).collect();
        let length: usize = argv.iter().map(String::len).sum();
        let result = match length > super::super::shell::MAX_LENGTH * 16 {
            true => Err(Excess::Length),
            false => walk.command(&args, &Streams::default()).map(|_| ()),
        };
        walk.finish(result)
    }

    fn new(scope: &'s Scope) -> Self {
        Self {
            scope,
            state: State { cwd: scope.cwd.clone(), ..State::default() },
            found: Categories::READ_ONLY,
            steps: Vec::new(),
            paths_count: true,
            host_counts: true,
            pager_waits: false,
            drafts: Vec::new(),
            depth: 0,
            left: MAX_STEPS,
            reparsed: 0,
            programs_read: 0,
        }
    }

    fn finish(mut self, result: Result<(), Excess>) -> (Categories, Vec<Step>) {
        if let Err(excess) = result {
            let mut judged = Judged::default();
            judged.add(Categories::EVERY_RISK, format!("the line is not read to its end, as {excess}"));
            self.found.add(Categories::EVERY_RISK);
            self.steps.push(judged.step("the whole line"));
        }
        (self.found, self.steps)
    }

    /// Parses and walks over text that is run as shell code.
    pub(super) fn text(&mut self, text: &str, streams: Streams) -> Result<Output, Excess> {
        self.reparsed += text.len();
        if self.reparsed > MAX_REPARSED {
            return Err(Excess::Steps);
        }
        // What is not known stands as a variable without a value.
        let text = &*match text.contains(UNKNOWN) {
            true => Cow::Owned(text.replace(UNKNOWN, "${__}")),
            false => Cow::Borrowed(text),
        };
        let parsed = parse(text, self.depth)?;
        if parsed.damaged {
            let mut judged = Judged::default();
            judged.add(Categories::MUTATING, "parts of the line are not valid shell syntax");
            self.record(judged.step(text));
        }
        self.deeper(|walk| walk.list(&parsed.list, &streams))
    }

    /// Runs `walk` one level deeper.
    pub(super) fn deeper<T>(
        &mut self,
        walk: impl FnOnce(&mut Self) -> Result<T, Excess>,
    ) -> Result<T, Excess> {
        if self.depth >= MAX_DEPTH {
            return Err(Excess::Depth);
        }
        self.depth += 1;
        let result = walk(self);
        self.depth -= 1;
        result
    }

    /// Counts a step of work.
    pub(super) fn step(&mut self) -> Result<(), Excess> {
        self.left = self.left.checked_sub(1).ok_or(Excess::Steps)?;
        Ok(())
    }

    /// Runs `walk` in a subshell: changes of its state are forgotten.
    pub(super) fn subshell<T>(
        &mut self,
        walk: impl FnOnce(&mut Self) -> Result<T, Excess>,
    ) -> Result<T, Excess> {
        let state = self.state.clone();
        let result = self.deeper(walk);
        self.state = state;
        result
    }

    /// Runs `walk` for a command on another host or in a container.
    pub(super) fn elsewhere<T>(
        &mut self,
        host_counts: bool,
        walk: impl FnOnce(&mut Self) -> Result<T, Excess>,
    ) -> Result<T, Excess> {
        let before = (self.paths_count, self.host_counts);
        self.paths_count = false;
        self.host_counts &= host_counts;
        let result = self.subshell(walk);
        (self.paths_count, self.host_counts) = before;
        result
    }

    /// Keeps a step and adds its categories.
    pub(super) fn record(&mut self, mut step: Step) {
        if !self.host_counts || self.scope.is_machine() {
            step.categories = step.categories.without(Categories::HOST_ESCAPE_RISK);
        }
        self.found.add(step.categories);
        match self.steps.len() < MAX_KEPT {
            true => self.steps.push(step),
            false => self.left = 0,
        }
    }
}
