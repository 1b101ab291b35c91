//! The decision about a command.

use schemars::JsonSchema;
use serde::Serialize;

use super::super::{Categories, Category, Classified, Step};
use super::model::{Action, CommandPolicies};

/// What happens to a command, as it is shown in envelopes and explanations.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Decision {
    /// What happens.
    pub action: Action,
    /// All categories of the command.
    pub categories: Categories,
    /// Why it is not simply allowed.
    pub reason: Option<String>,
    /// The rule that decided: `LAYER:NAME`, or `default:CATEGORY` if no policy has one.
    pub rule: String,
}

/// One category of one step, and what is decided about it.
pub(super) struct Settled<'a> {
    pub step: &'a Step,
    pub category: Category,
    pub action: Action,
    pub rule: String,
    pub reason: Option<&'a str>,
}

/// Decides about a command. Every category of every step is settled by the first rule that matches, and the strictest
/// action of all counts: a rule that allows one program does not allow what else stands in the line.
pub fn decide(policies: &CommandPolicies, command: &Classified) -> Decision {
    let settled = settle(policies, command);
    let Some(strictest) = strictest(&settled) else {
        // An empty line has no steps.
        let rule = format!("default:{}", Category::ReadOnly);
        return Decision { action: Action::Allow, categories: command.categories, reason: None, rule };
    };
    let reason = (strictest.action != Action::Allow).then(|| match strictest.reason {
        Some(reason) => reason.to_owned(),
        None => reason_for(strictest),
    });
    Decision {
        action: strictest.action,
        categories: command.categories,
        reason,
        rule: strictest.rule.clone(),
    }
}

/// Settles every category of every step.
pub(super) fn settle<'a>(policies: &'a CommandPolicies, command: &'a Classified) -> Vec<Settled<'a>> {
    let pairs =
        command.steps.iter().flat_map(|step| step.categories.iter().map(move |category| (step, category)));
    let settled = pairs.map(|(step, category)| {
        let (action, rule, reason) = policies.settle(step, category);
        Settled { step, category, action, rule, reason }
    });
    settled.collect()
}

/// The strictest; of equal ones the most telling category, and of these the first.
fn strictest<'s, 'a>(settled: &'s [Settled<'a>]) -> Option<&'s Settled<'a>> {
    let weight = |category: Category| match category {
        Category::ReadOnly => 0,
        Category::Mutating => 1,
        Category::Interactive => 2,
        Category::Destructive => 3,
        Category::Networked => 4,
        Category::HostEscapeRisk => 5,
    };
    settled.iter().rev().max_by_key(|one| (one.action, weight(one.category)))
}

fn reason_for(settled: &Settled<'_>) -> String {
    let why = match settled.step.reason_for(settled.category) {
        Some(reason) => format!(": {reason}"),
        None => String::new(),
    };
    format!("{} is {}{why}", settled.step.command, settled.category)
}
