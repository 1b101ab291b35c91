//! A command that runs in a sandbox.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::env::Environment;
use crate::spec::path;

/// A program with its arguments and surroundings.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Command {
    /// The program and its arguments. A program without a slash is searched in the `PATH` of `env`, in the sandbox.
    pub argv: Vec<OsString>,
    /// The whole environment. Nothing is inherited.
    pub env: Environment,
    /// The working directory in the sandbox.
    #[serde(with = "path::one")]
    pub cwd: PathBuf,
    /// The wall time after which the command is ended.
    pub timeout: Option<Duration>,
    /// The time between SIGTERM and SIGKILL when the command is ended by `timeout`.
    pub grace: Duration,
    /// What happens to processes that are still there when the command ends.
    pub leftovers: Leftovers,
    /// Makes standard input, which must be a terminal, the controlling terminal of the command.
    pub terminal: bool,
}

/// What happens to the descendants of a command that has ended.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Leftovers {
    /// They are killed before the end of the command is reported.
    #[default]
    End,
    /// They stay until the session ends. Only in a [`crate::Session`].
    Keep,
}

impl Command {
    /// The time between SIGTERM and SIGKILL unless given.
    pub const DEFAULT_GRACE: Duration = Duration::from_secs(2);

    /// A command in `/` with an empty environment and no time limit.
    pub fn new<A: Into<OsString>>(argv: impl IntoIterator<Item = A>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            env: Environment::default(),
            cwd: PathBuf::from("/"),
            timeout: None,
            grace: Self::DEFAULT_GRACE,
            leftovers: Leftovers::default(),
            terminal: false,
        }
    }

    /// Sets the environment.
    #[must_use]
    pub fn env(mut self, env: Environment) -> Self {
        self.env = env;
        self
    }

    /// Sets the working directory.
    #[must_use]
    pub fn cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = cwd.into();
        self
    }

    /// Limits the wall time.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}
