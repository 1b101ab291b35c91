//! What is kept.

use std::collections::BTreeMap;

use agentiso_core::{Secret, WorkspaceId};
use serde::{Deserialize, Serialize};

/// A secret as it is kept.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct StoredSecret {
    /// Its value.
    pub value: Secret<String>,
    /// The hosts that may get it.
    pub hosts: Vec<String>,
    /// The headers it may be in; every header if empty.
    #[serde(default)]
    pub headers: Vec<String>,
}

/// The certificate authority of a workspace.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Authority {
    /// What the guest trusts, in PEM.
    pub certificate: String,
    /// Its private key, in PEM.
    pub key: Secret<String>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Contents {
    pub(crate) secrets: BTreeMap<String, StoredSecret>,
    pub(crate) workspaces: BTreeMap<WorkspaceId, Workspace>,
}

/// What one workspace has.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Workspace {
    /// The placeholder of each secret it may use.
    #[serde(default)]
    pub(crate) placeholders: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) authority: Option<Authority>,
}
