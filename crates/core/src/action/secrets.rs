//! Secrets: stored on the host, inserted by the egress proxy.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::about::{Outcome, action};
use super::forms::{
    HeaderNames, HostPatterns, MAX_SECRET_VALUE, MAX_WORKSPACE_SECRETS, SecretName, WorkspaceReference,
};
use crate::Secret;

/// Stores a secret.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SecretSet {
    /// Name of the secret, and of the variable that workspaces find its placeholder in.
    #[schemars(with = "SecretName")]
    pub name: String,
    /// The value: visible ASCII characters and spaces.
    #[schemars(length(min = 1, max = MAX_SECRET_VALUE), regex(pattern = "^[!-~]([ -~]*[!-~])?$"))]
    pub value: Secret<String>,
    /// Hosts that may get it: `api.example.com`, or `*.example.com` for every name below it.
    #[schemars(with = "HostPatterns")]
    pub hosts: Vec<String>,
    /// Headers it may be in. Default: every header.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "HeaderNames")]
    pub headers: Vec<String>,
}
action! { SecretSet -> SecretStored {
    name: "secret_set",
    title: "Store a secret",
    subjects: [],
    routes: [Put "/v1/secrets/{name}"],
    tools: [],
    effect: Changes,
    flags: [idempotent],
    description: "Stores a secret on the host, encrypted, or replaces it. Only the operator may. Workspaces never see it: \
                  they send a placeholder, which the egress proxy replaces towards the secret's hosts.",
}}

/// A secret that was stored.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct SecretStored {
    /// Its name.
    pub name: String,
    /// The hosts that may get it.
    pub hosts: Vec<String>,
    /// Whether it replaced a secret of that name.
    pub replaced: bool,
}

impl Outcome for SecretStored {
    fn text(&self) -> String {
        let verb = if self.replaced { "replaced" } else { "stored" };
        format!("{verb} {} for {}", self.name, self.hosts.join(", "))
    }
}

/// Lists secrets.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SecretList {}
action! { SecretList -> SecretListed {
    name: "secret_list",
    title: "List secrets",
    subjects: [],
    routes: [Get "/v1/secrets"],
    tools: [],
    effect: Reads,
    flags: [idempotent],
    description: "Lists the names of the secrets, their hosts and how many workspaces may use them. Never a value. Only the \
                  operator may.",
}}

/// The secrets.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct SecretListed {
    /// Number of secrets.
    pub count: usize,
    /// The secrets, by name.
    pub secrets: Vec<SecretBrief>,
}

/// What is shown of a secret.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct SecretBrief {
    /// Its name.
    pub name: String,
    /// The hosts that may get it.
    pub hosts: Vec<String>,
    /// The headers it may be in; every header if absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<String>,
    /// Number of workspaces that may use it.
    pub workspaces: usize,
}

impl Outcome for SecretListed {
    fn text(&self) -> String {
        let line = |one: &SecretBrief| {
            format!("{}: {} ({} workspaces)", one.name, one.hosts.join(", "), one.workspaces)
        };
        let lines: Vec<String> = self.secrets.iter().map(line).collect();
        if lines.is_empty() { "there are no secrets".to_owned() } else { lines.join("\n") }
    }
}

/// Removes a secret.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SecretRemove {
    /// Name of the secret.
    #[schemars(with = "SecretName")]
    pub name: String,
}
action! { SecretRemove -> SecretRemoved {
    name: "secret_remove",
    title: "Remove a secret",
    subjects: [],
    routes: [Delete "/v1/secrets/{name}"],
    tools: [],
    effect: Destroys,
    flags: [idempotent],
    description: "Removes a secret. Workspaces that could use it cannot any more. Only the operator may.",
}}

/// The result of removing a secret.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct SecretRemoved {
    /// Its name.
    pub name: String,
    /// Whether there was one.
    pub removed: bool,
}

impl Outcome for SecretRemoved {
    fn text(&self) -> String {
        match self.removed {
            true => format!("removed {}", self.name),
            false => format!("there was no secret {}", self.name),
        }
    }
}

/// Sets which secrets a workspace may use.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SecretGrant {
    /// Id or name of the workspace.
    #[schemars(with = "WorkspaceReference")]
    pub workspace_id: String,
    /// Names of the secrets it may use from now on; empty for none.
    #[schemars(with = "Vec<SecretName>", length(max = MAX_WORKSPACE_SECRETS))]
    pub secrets: Vec<String>,
}
action! { SecretGrant -> SecretsGranted {
    name: "secret_grant",
    title: "Let a workspace use secrets",
    subjects: [Workspace(workspace_id)],
    routes: [Put "/v1/workspaces/{workspace_id}/secrets"],
    tools: [],
    effect: Changes,
    flags: [idempotent],
    description: "Sets which secrets a workspace may use, and no others. Its commands get a variable for each, with a \
                  placeholder that the egress proxy replaces. Forks do not inherit them. Only the operator may.",
}}

/// The secrets that a workspace may use.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct SecretsGranted {
    /// Id of the workspace.
    pub workspace_id: String,
    /// Names of the secrets.
    pub secrets: Vec<String>,
}

impl Outcome for SecretsGranted {
    fn text(&self) -> String {
        match self.secrets.is_empty() {
            true => "the workspace may use no secret".to_owned(),
            false => format!("the workspace may use {}", self.secrets.join(", ")),
        }
    }
}
