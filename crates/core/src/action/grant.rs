//! Sessions, and changing the owner of a workspace.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::about::{Outcome, action};
use super::forms::WorkspaceReference;

/// Gives a workspace to another session.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceGrant {
    /// Id or name of the workspace.
    #[schemars(with = "WorkspaceReference")]
    pub workspace_id: String,
    /// Id of the session that gets it. server_status returns the id of the calling session.
    pub session_id: String,
}
action! { WorkspaceGrant -> WorkspaceGranted {
    name: "workspace_grant",
    title: "Give a workspace to another session",
    subjects: [Workspace(workspace_id)],
    routes: [Post "/v1/workspaces/{workspace_id}/grant"],
    tools: [Full],
    effect: Changes,
    flags: [idempotent],
    description: "Makes another session the owner of a workspace, if its quota allows. Variables that sessions had \
                  set are cleared; those of the user stay.",
}}

/// A workspace that was given to a session.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct WorkspaceGranted {
    /// Its id.
    pub workspace_id: String,
    /// Its name.
    pub name: String,
    /// The session that owns it now.
    pub session_id: String,
    /// Name of that session's client.
    pub client: String,
}

impl Outcome for WorkspaceGranted {
    fn text(&self) -> String {
        format!("{} now belongs to session {} ({})", self.name, self.session_id, self.client)
    }
}

/// Lists sessions.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SessionList {}
action! { SessionList -> SessionListed {
    name: "session_list",
    title: "List sessions",
    subjects: [],
    routes: [Get "/v1/sessions"],
    tools: [Full],
    effect: Reads,
    flags: [idempotent],
    description: "Lists sessions with the names of their clients and the number of workspaces they own. A session sees \
                  only itself.",
}}

/// The sessions that the caller may see.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct SessionListed {
    /// Number of sessions.
    pub count: usize,
    /// The sessions, oldest first.
    pub sessions: Vec<SessionBrief>,
}

/// One session.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct SessionBrief {
    /// Its id.
    pub session_id: String,
    /// Name of its client.
    pub client: String,
    /// When it was started.
    pub created_at: String,
    /// Time of its last request.
    pub last_active_at: String,
    /// Whether its client is connected.
    pub connected: bool,
    /// Number of workspaces it owns.
    pub workspaces: u64,
}

impl Outcome for SessionListed {
    fn text(&self) -> String {
        let line = |one: &SessionBrief| {
            let connected = if one.connected { ", connected" } else { "" };
            format!(
                "{} {}: {} workspaces, last active {}{connected}",
                one.session_id, one.client, one.workspaces, one.last_active_at
            )
        };
        let lines: Vec<String> = self.sessions.iter().map(line).collect();
        if lines.is_empty() { "there are no sessions".to_owned() } else { lines.join("\n") }
    }
}
