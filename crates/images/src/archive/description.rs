//! What an archive says about its workspace.

use std::collections::BTreeMap;

use agentiso_core::{ImageName, WorkspaceName};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::store::OciDefaults;

/// What an archive says about its workspace. Whoever imports it checks the sizes against limits of their own.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct WorkspaceDescription {
    /// Its name.
    pub name: WorkspaceName,
    /// The image it started from, which the archive does not need.
    pub image: ImageName,
    /// Virtual processors.
    pub vcpus: u32,
    /// Memory in MiB.
    pub memory_mb: u32,
    /// Size of the root file system in GiB.
    pub disk_gb: u32,
    /// Its labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// When the workspace was made.
    pub created: Timestamp,
    /// When the archive was made.
    pub exported: Timestamp,
    /// What its image says about how it is run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defaults: Option<OciDefaults>,
}
