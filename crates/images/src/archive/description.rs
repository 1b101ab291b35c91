//! The description of the workspace in an archive.

use std::collections::BTreeMap;

use agentiso_core::{ImageName, WorkspaceName};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::store::OciDefaults;

/// The description of a workspace. The importing installation checks the sizes against its own limits.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct WorkspaceDescription {
    /// Its name.
    pub name: WorkspaceName,
    /// The image it was created from, for information.
    pub image: ImageName,
    /// Number of vCPUs.
    pub vcpus: u32,
    /// Memory in MiB.
    pub memory_mb: u32,
    /// Size of the root file system in GiB.
    pub disk_gb: u32,
    /// Its labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// When the workspace was created.
    pub created: Timestamp,
    /// When the archive was written.
    pub exported: Timestamp,
    /// The image's defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defaults: Option<OciDefaults>,
}
