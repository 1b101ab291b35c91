//! What is asked for, checked before anything changes.

mod cwd;
mod environment;
mod error;
mod quoting;
mod timeout;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub use cwd::normal_cwd;
pub use environment::{Variable, parse_variable};
pub use error::RequestError;
pub use quoting::quoted;
pub use timeout::parse_timeout;

use crate::envelope::{CheckpointMode, CommandMode, RequestReport, TimeoutReport};

/// The most arguments, and the most bytes of all arguments together.
const MAX_ARGS: usize = 100_000;
const MAX_BYTES: usize = 1 << 20;

/// The command.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Invocation {
    /// A program with its arguments.
    Argv(Vec<String>),
    /// A line for a shell.
    Shell(String),
}

/// Which fork the command runs in.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Fork {
    /// A new one with a name of its own.
    Auto,
    /// The one with this name, which is made if it does not exist.
    Named(String),
}

/// A request to run one command.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Run {
    /// The vault as it was named.
    pub vault: Option<String>,
    /// The fork to run in, instead of the vault itself.
    pub fork: Option<Fork>,
    /// The command.
    pub command: Invocation,
    /// The directory in the vault, as it was given.
    pub cwd: String,
    /// Whether the command may not change the vault.
    pub readonly: bool,
    /// When a checkpoint is taken.
    pub checkpoint: CheckpointMode,
    /// The time limit; none if there is no limit.
    pub timeout: Option<Duration>,
    /// Variables for the command.
    pub env: Vec<Variable>,
    /// Whether the command reads our standard input.
    pub stdin: bool,
    /// The token of an approval.
    pub approve: Option<String>,
    /// Only judge the command.
    pub dry_run: bool,
    /// Whether output is passed on while the command runs.
    pub stream: bool,
    /// The directory at which the command sees the vault.
    pub mountpoint: Option<PathBuf>,
    /// Whether the vault stays mounted.
    pub keep_mount: bool,
}

impl Run {
    /// The time limit of a request that names none.
    pub const TIMEOUT: Duration = Duration::from_secs(300);

    /// A request with the defaults.
    pub fn new(command: Invocation) -> Self {
        Self {
            vault: None,
            fork: None,
            command,
            cwd: "/".to_owned(),
            readonly: false,
            checkpoint: CheckpointMode::Auto,
            timeout: Some(Self::TIMEOUT),
            env: Vec::new(),
            stdin: false,
            approve: None,
            dry_run: false,
            stream: false,
            mountpoint: None,
            keep_mount: false,
        }
    }

    /// Checks what can be checked without looking at anything.
    pub fn check(&self) -> Result<(), RequestError> {
        let words: &[String] = match &self.command {
            Invocation::Argv(argv) => argv,
            Invocation::Shell(line) => std::slice::from_ref(line),
        };
        if words.first().is_none_or(String::is_empty) {
            return Err(RequestError::NoCommand);
        }
        if words.len() > MAX_ARGS || words.iter().map(String::len).sum::<usize>() > MAX_BYTES {
            return Err(RequestError::TooLong { max: MAX_BYTES });
        }
        if words.iter().any(|word| word.contains('\0')) {
            return Err(RequestError::Nul { what: "argument" });
        }
        normal_cwd(&self.cwd)?;
        self.env.iter().try_for_each(Variable::check)
    }

    /// The command as one line.
    pub fn line(&self) -> String {
        match &self.command {
            Invocation::Argv(argv) => quoted(argv),
            Invocation::Shell(line) => line.clone(),
        }
    }

    /// The request as the envelope repeats it.
    pub fn report(&self) -> RequestReport {
        let (argv, command_mode) = match &self.command {
            Invocation::Argv(argv) => (argv.clone(), CommandMode::Argv),
            Invocation::Shell(line) => (vec![line.clone()], CommandMode::Shell),
        };
        RequestReport {
            vault: self.vault.clone(),
            cwd: self.cwd.clone(),
            readonly: self.readonly,
            keep_mount: self.keep_mount,
            mountpoint: self.mountpoint.as_deref().map(Path::display).map(|path| path.to_string()),
            checkpoint_mode: self.checkpoint,
            command: self.line(),
            command_mode,
            timeout: TimeoutReport(self.timeout),
            argv,
            fork: self.fork.as_ref().map(|fork| match fork {
                Fork::Auto => "auto".to_owned(),
                Fork::Named(name) => name.clone(),
            }),
            env: self.env.iter().map(|variable| variable.name.clone()).collect(),
            stdin: self.stdin,
            stream: self.stream,
            dry_run: self.dry_run,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(words: &[&str]) -> Run {
        Run::new(Invocation::Argv(words.iter().map(|word| (*word).to_owned()).collect()))
    }

    #[test]
    fn a_request_without_a_command_is_refused() {
        assert_eq!(argv(&[]).check(), Err(RequestError::NoCommand));
        assert_eq!(argv(&["", "a"]).check(), Err(RequestError::NoCommand));
        assert_eq!(Run::new(Invocation::Shell(String::new())).check(), Err(RequestError::NoCommand));
        argv(&["true"]).check().unwrap();
    }

    #[test]
    fn what_no_program_can_be_given_is_refused() {
        assert_eq!(argv(&["a\0b"]).check(), Err(RequestError::Nul { what: "argument" }));
        let long = "x".repeat(MAX_BYTES);
        assert_eq!(argv(&["echo", &long]).check(), Err(RequestError::TooLong { max: MAX_BYTES }));
        let mut outside = argv(&["true"]);
        outside.cwd = "/a/../..".to_owned();
        assert!(matches!(outside.check(), Err(RequestError::Cwd { .. })));
    }

    #[test]
    fn the_report_keeps_every_argument_apart() {
        let report = argv(&["echo", "a b", "it's"]).report();
        assert_eq!(report.argv, ["echo", "a b", "it's"]);
        assert_eq!(report.command, r#"echo 'a b' 'it'\''s'"#);
        assert_eq!(report.timeout, TimeoutReport(Some(Run::TIMEOUT)));
    }
}
