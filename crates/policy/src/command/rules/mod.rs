//! Policies: files of rules, and the decision they lead to.

mod decision;
mod explain;
mod glob;
mod model;
mod parse;
mod problem;

pub use decision::{Decision, decide};
pub use explain::{ExplainedStep, PolicyExplanation, SettledCategory, explain};
pub use model::{Action, CommandPolicies, Layer, PolicyFile, PolicyRule};
pub use parse::{MAX_FILE_BYTES, MAX_RULES, parse_policy};
pub use problem::{PolicyProblem, PolicyProblems};
