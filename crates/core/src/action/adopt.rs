//! Taking over workspaces.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::about::{Outcome, action};
use super::forms::WorkspaceReference;
use super::workspace::WorkspaceBrief;

/// Takes over workspaces.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceAdopt {
    /// Id or name. Default: all workspaces without an owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<WorkspaceReference>")]
    pub workspace_id: Option<String>,
    /// Also take workspaces whose owner has been idle.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

action! { WorkspaceAdopt -> WorkspaceAdopted {
    name: "workspace_adopt",
    title: "Take workspaces over",
    subjects: [Claimed(workspace_id)],
    routes: [Post "/v1/adopt"],
    tools: [Full],
    effect: Changes,
    flags: [idempotent],
    description: "Makes this session the owner of a workspace, or of all that nobody owns. With force also of those \
                  whose owner has been idle (60 s unless configured otherwise); never of those in use. Counts \
                  against this session's quota.",
}}

/// Workspaces that were taken over.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct WorkspaceAdopted {
    /// Number of workspaces taken over.
    pub adopted_count: usize,
    /// The workspaces taken over.
    pub adopted: Vec<WorkspaceBrief>,
    /// Number of workspaces that could not be taken over.
    pub error_count: usize,
    /// Which workspaces could not be taken over, and why.
    pub errors: Vec<AdoptError>,
}

/// A workspace that could not be taken over.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct AdoptError {
    /// Its id.
    pub workspace_id: String,
    /// The reason.
    pub error: String,
}

impl Outcome for WorkspaceAdopted {
    fn text(&self) -> String {
        let names: Vec<&str> = self.adopted.iter().map(|workspace| workspace.name.as_str()).collect();
        format!("{} workspaces taken over: {}", self.adopted_count, names.join(", "))
    }
}
