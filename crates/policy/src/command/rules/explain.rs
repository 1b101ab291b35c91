//! The explanation of a decision.

use schemars::JsonSchema;
use serde::Serialize;

use super::super::{Categories, Category, Command, Scope, classify};
use super::decision::{Decision, decide, settle};
use super::model::{Action, CommandPolicies};

/// Why a command is decided about as it is: every step, and the decision.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct PolicyExplanation {
    /// The version of this form.
    pub schema_version: u32,
    /// Always `policy_explanation`.
    pub kind: &'static str,
    /// The command as it was given.
    pub command: ExplainedCommand,
    /// The directories the command may use.
    pub workspace: Vec<String>,
    /// The directory in which it starts.
    pub cwd: String,
    /// The parts of the command, in the order in which they were read.
    pub steps: Vec<ExplainedStep>,
    /// The decision, as in an execution's envelope.
    pub decision: Decision,
}

/// The command as it was given.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExplainedCommand {
    /// A program with its arguments.
    Argv(Vec<String>),
    /// A line for a shell.
    Shell(String),
}

/// One part of a command.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct ExplainedStep {
    /// The part after expansion; `…` stands for what is not known.
    pub command: String,
    /// The program, if it is one.
    pub program: Option<String>,
    /// Its categories.
    pub categories: Categories,
    /// Why it has them.
    pub reasons: Vec<String>,
    /// Paths it names, resolved.
    pub paths: Vec<String>,
    /// What is decided about each category.
    pub settled: Vec<SettledCategory>,
}

/// What is decided about a category of a step.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct SettledCategory {
    /// The category.
    pub category: Category,
    /// What is decided.
    pub action: Action,
    /// The rule that decided.
    pub rule: String,
}

/// Classifies a command, decides about it, and shows every step.
pub fn explain(policies: &CommandPolicies, scope: &Scope, command: Command<'_>) -> PolicyExplanation {
    let classified = classify(scope, command);
    let decision = decide(policies, &classified);
    let settled = settle(policies, &classified);
    let steps = classified.steps.iter().map(|step| ExplainedStep {
        command: step.command.clone(),
        program: step.program.clone(),
        categories: step.categories,
        reasons: step.reasons.iter().map(|(_, reason)| reason.clone()).collect(),
        paths: step.paths.clone(),
        settled: settled
            .iter()
            .filter(|one| std::ptr::eq(one.step, step))
            .map(|one| SettledCategory { category: one.category, action: one.action, rule: one.rule.clone() })
            .collect(),
    });
    PolicyExplanation {
        schema_version: 1,
        kind: "policy_explanation",
        command: match command {
            Command::Argv(argv) => ExplainedCommand::Argv(argv.to_vec()),
            Command::Shell(line) => ExplainedCommand::Shell(line.to_owned()),
        },
        workspace: scope.workspace.clone(),
        cwd: scope.cwd.clone(),
        steps: steps.collect(),
        decision,
    }
}
