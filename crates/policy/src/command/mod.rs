//! Whether a command may run: what it may do, by reading it, and what a policy says to that.
//!
//! Everything here is pure: the home directory, the workspace and the policies are given by the caller. Classification
//! is for prompts, checkpoints and records. It reads the top-level command and what it can see of others in it; the
//! sandbox is the boundary.

mod category;
mod classify;
mod rules;
mod scope;
mod shell;
mod tools;
mod walk;

pub use category::{Categories, Category};
pub use classify::{Classified, Command, classify};
pub use rules::{
    Action, CommandPolicies, Decision, ExplainedStep, Layer, MAX_FILE_BYTES, MAX_RULES, PolicyExplanation,
    PolicyFile, PolicyProblem, PolicyProblems, PolicyRule, SettledCategory, decide, explain, parse_policy,
};
pub use scope::Scope;
pub use shell::{MAX_DEPTH, MAX_LENGTH};
pub use walk::Step;
