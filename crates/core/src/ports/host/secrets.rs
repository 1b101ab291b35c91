//! Secrets: values that workspaces use without seeing them.

use async_trait::async_trait;

use crate::{Failure, Secret, WorkspaceId};

/// A secret to store.
#[derive(Clone, Debug)]
pub struct NewSecret {
    /// Its name, which is also the variable that workspaces find its placeholder in.
    pub name: String,
    /// Its value.
    pub value: Secret<String>,
    /// The hosts that may get it: `api.example.com`, `*.example.com`. At least one.
    pub hosts: Vec<String>,
    /// The headers it may be in; every header if empty.
    pub headers: Vec<String>,
}

/// What can be shown of a secret.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SecretView {
    /// Its name.
    pub name: String,
    /// The hosts that may get it.
    pub hosts: Vec<String>,
    /// The headers it may be in; every header if empty.
    pub headers: Vec<String>,
    /// Number of workspaces that may use it.
    pub workspaces: usize,
}

/// Where secrets are kept and inserted. They never enter a workspace: it holds a placeholder.
#[async_trait]
pub trait SecretHost: Send + Sync {
    /// Stores a secret, or replaces it; says whether it replaced one. Wrong hosts, headers or values are refused with
    /// `invalid_argument`.
    async fn set_secret(&self, secret: &NewSecret) -> Result<bool, Failure>;

    /// All secrets, by name.
    async fn secrets(&self) -> Result<Vec<SecretView>, Failure>;

    /// Removes a secret, also from the workspaces that may use it; says whether there was one.
    async fn remove_secret(&self, name: &str) -> Result<bool, Failure>;

    /// Sets which secrets a workspace may use, and no others. Fails with `secret_not_found` if there is no such secret.
    async fn grant_secrets(&self, id: WorkspaceId, names: &[String]) -> Result<(), Failure>;

    /// The names of the secrets that a workspace may use.
    async fn granted_secrets(&self, id: WorkspaceId) -> Result<Vec<String>, Failure>;

    /// The variables that every command of a workspace gets, unless it sets them itself: the placeholders of its secrets,
    /// and where programs find the certificates to trust.
    async fn guest_variables(&self, id: WorkspaceId) -> Result<Vec<(String, String)>, Failure>;
}
