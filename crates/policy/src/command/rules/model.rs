//! What policy files consist of.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::{Category, Step};
use super::glob::Glob;

/// What happens to a command. Later ones are stricter.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// It runs.
    Allow,
    /// It runs after a checkpoint was taken.
    AllowWithCheckpoint,
    /// It runs once the owner has approved it.
    RequireApproval,
    /// It does not run.
    Deny,
}

impl Action {
    /// All actions, from the mildest to the strictest.
    pub const ALL: [Self; 4] = [Self::Allow, Self::AllowWithCheckpoint, Self::RequireApproval, Self::Deny];

    /// The name in policy files and in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::AllowWithCheckpoint => "allow_with_checkpoint",
            Self::RequireApproval => "require_approval",
            Self::Deny => "deny",
        }
    }

    /// What happens to a category for which no policy says anything.
    pub const fn built_in(category: Category) -> Self {
        match category {
            Category::ReadOnly => Self::Allow,
            Category::Mutating | Category::Destructive | Category::Interactive => Self::AllowWithCheckpoint,
            Category::Networked => Self::RequireApproval,
            Category::HostEscapeRisk => Self::Deny,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// Whose policy a file is.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// That of one vault or workspace.
    Vault,
    /// That of the user.
    User,
    /// That of the system.
    System,
}

impl Layer {
    /// The name before the colon in a decision's rule.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Vault => "vault",
            Self::User => "user",
            Self::System => "system",
        }
    }
}

/// One rule. All conditions that it has must hold; an empty list is no condition.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PolicyRule {
    /// Its name, unique in the file.
    pub name: String,
    /// What it decides.
    pub action: Action,
    /// The reason shown to the caller.
    pub reason: Option<String>,
    /// It decides only about these categories; about all if there are none.
    pub categories: Vec<Category>,
    pub(super) programs: Vec<Glob>,
    pub(super) args: Vec<Glob>,
    pub(super) paths: Vec<Glob>,
}

impl PolicyRule {
    /// Whether the rule decides about a category of a step.
    pub(super) fn decides(&self, step: &Step, category: Category) -> bool {
        let of_category = self.categories.is_empty() || self.categories.contains(&category);
        let of_program = self.programs.is_empty()
            || step
                .program
                .as_deref()
                .is_some_and(|name| self.programs.iter().any(|glob| glob.matches(name)));
        let of_args = self.args.iter().all(|glob| step.args.iter().any(|arg| glob.matches(arg)));
        let of_path = self.paths.is_empty()
            || step.paths.iter().any(|path| self.paths.iter().any(|glob| glob.matches(path)));
        of_category && of_program && of_args && of_path
    }
}

/// A policy file.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PolicyFile {
    /// Its rules in the order of the file.
    pub rules: Vec<PolicyRule>,
    /// Actions for categories about which no rule decides.
    pub defaults: Vec<(Category, Action)>,
}

/// The policies that apply to a command, the most specific first. Rules come before defaults within a file, and a file
/// before the next.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct CommandPolicies {
    layers: Vec<(Layer, PolicyFile)>,
}

impl CommandPolicies {
    /// Only what is built in.
    pub fn built_in() -> Self {
        Self::default()
    }

    /// Puts policies in their order: vault, user, system.
    pub fn new(vault: Option<PolicyFile>, user: Option<PolicyFile>, system: Option<PolicyFile>) -> Self {
        let layers = [(Layer::Vault, vault), (Layer::User, user), (Layer::System, system)];
        Self { layers: layers.into_iter().filter_map(|(layer, file)| Some((layer, file?))).collect() }
    }

    /// What is decided about one category of a step: the action, the name of the rule, and its reason.
    pub(super) fn settle(&self, step: &Step, category: Category) -> (Action, String, Option<&str>) {
        for (layer, file) in &self.layers {
            if let Some(rule) = file.rules.iter().find(|rule| rule.decides(step, category)) {
                let name = format!("{}:{}", layer.as_str(), rule.name);
                return (rule.action, name, rule.reason.as_deref());
            }
            if let Some((_, action)) = file.defaults.iter().find(|(known, _)| *known == category) {
                return (*action, format!("{}:defaults.{category}", layer.as_str()), None);
            }
        }
        (Action::built_in(category), format!("default:{category}"), None)
    }
}
