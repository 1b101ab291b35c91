//! What is wrong with a policy file.

use std::fmt;

use agentiso_core::{Code, Explain};
use serde::Serialize;

/// One mistake in a policy file.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct PolicyProblem {
    /// Line number, from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
    /// What was probably meant.
    pub suggestion: Option<String>,
}

impl fmt::Display for PolicyProblem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.line, self.message)?;
        match &self.suggestion {
            Some(suggestion) => write!(out, "; did you mean {suggestion:?}?"),
            None => Ok(()),
        }
    }
}

/// All mistakes in a policy file, in the order of their lines. Nothing of the file is applied.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{}", list(name, problems))]
pub struct PolicyProblems {
    /// The file, for the message.
    pub name: String,
    /// The mistakes; there is at least one.
    pub problems: Vec<PolicyProblem>,
}

fn list(name: &str, problems: &[PolicyProblem]) -> String {
    let lines: Vec<String> = problems.iter().map(|problem| format!("{name}:{problem}")).collect();
    lines.join("\n")
}

impl Explain for PolicyProblems {
    fn code(&self) -> Code {
        Code::InvalidConfig
    }

    fn remedy(&self) -> Option<String> {
        Some("correct the file; docs/policy.md describes its keys".to_owned())
    }
}
