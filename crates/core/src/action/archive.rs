//! Export and import of workspaces as archives.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::about::{Outcome, action};
use super::forms::{AbsolutePath, WorkspaceReference};
use super::values::State;
use super::workspace::Size;
use crate::WorkspaceName;

/// Exports a workspace.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceExport {
    /// Id or name.
    #[schemars(with = "WorkspaceReference")]
    pub workspace_id: String,
    /// Absolute path of the file, in the host's transfer directory. An existing file is replaced.
    #[schemars(with = "AbsolutePath")]
    pub host_path: String,
}
action! { WorkspaceExport -> WorkspaceExported {
    name: "workspace_export",
    title: "Export a workspace",
    subjects: [Workspace(workspace_id)],
    routes: [Post "/v1/workspaces/{workspace_id}/export"],
    tools: [Full],
    effect: Changes,
    rate: Create,
    description: "Writes a workspace's files as they are now, its size and its labels to an archive that \
                  workspace_import reads, here or on another host. A running workspace is paused briefly. \
                  Memory, processes, variables, snapshots and port forwards are not exported. Needs the \
                  operator's permission.",
}}

/// A workspace that was exported.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct WorkspaceExported {
    /// Its id.
    pub workspace_id: String,
    /// Its name.
    pub name: String,
    /// The file.
    pub host_path: String,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Number of files, directories and links.
    pub files: u64,
    /// Duration in milliseconds.
    pub took_ms: u64,
}

/// Imports a workspace.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceImport {
    /// Absolute path of an archive that workspace_export wrote, in the host's transfer directory.
    #[schemars(with = "AbsolutePath")]
    pub host_path: String,
    /// Name of the workspace; the one in the archive if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<WorkspaceName>")]
    pub name: Option<String>,
}
action! { WorkspaceImport -> WorkspaceImported {
    name: "workspace_import",
    title: "Import a workspace",
    subjects: [],
    routes: [Post "/v1/workspaces/import"],
    tools: [Full],
    effect: Changes,
    rate: Create,
    description: "Makes a workspace from an archive that workspace_export wrote, and starts it. Its files become an \
                  image of its own (NAME-import), which stays when the workspace is destroyed. Counts against quota \
                  and limits like any other. Needs the operator's permission. A call that is cancelled leaves \
                  nothing.",
}}

/// A workspace that was imported.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct WorkspaceImported {
    /// Its id.
    pub workspace_id: String,
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: State,
    /// The image that was created from its files.
    pub base_image: String,
    /// Its size.
    pub resources: Size,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Number of files, directories and links.
    pub files: u64,
    /// Duration in milliseconds.
    pub took_ms: u64,
}

impl Outcome for WorkspaceExported {
    fn text(&self) -> String {
        let (files, size, seconds) = (self.files, self.bytes >> 20, self.took_ms / 1000);
        format!("exported {} to {}: {files} files, {size} MiB, in {seconds} s", self.name, self.host_path)
    }
}

impl Outcome for WorkspaceImported {
    fn text(&self) -> String {
        let Size { vcpus, memory_mb, disk_gb, .. } = self.resources;
        format!(
            "imported {} ({}), running {} ({} files): {vcpus} vCPU, {memory_mb} MiB memory, {disk_gb} GiB disk; labels: {}",
            self.name,
            self.workspace_id,
            self.base_image,
            self.files,
            super::workspace::in_words(&self.labels)
        )
    }
}
