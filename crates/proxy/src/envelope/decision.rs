//! The policy's decision.

use agentiso_policy::command::{Action, Category, Decision};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the policy decided.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct DecisionReport {
    /// What happens to the command.
    pub action: Action,
    /// What the command may do, in a fixed order. Empty if it was refused before it was judged.
    pub categories: Vec<Category>,
    /// Why it is not simply allowed.
    pub reason: Option<String>,
    /// The rule that decided: `LAYER:NAME`, `default:CATEGORY` if no policy has one, or `none` if the command was
    /// refused before it was judged.
    pub rule: String,
}

impl DecisionReport {
    /// For a request that is refused before it is judged.
    pub fn none(reason: impl Into<String>) -> Self {
        Self {
            action: Action::Deny,
            categories: Vec::new(),
            reason: Some(reason.into()),
            rule: "none".to_owned(),
        }
    }
}

impl From<&Decision> for DecisionReport {
    fn from(decision: &Decision) -> Self {
        Self {
            action: decision.action,
            categories: decision.categories.iter().collect(),
            reason: decision.reason.clone(),
            rule: decision.rule.clone(),
        }
    }
}
