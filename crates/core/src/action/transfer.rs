//! Copying files between the host and a workspace.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::about::{Outcome, action};
use super::forms::{AbsolutePath, WorkspaceReference};
use super::values::Direction;

/// Copies files between the host and a workspace.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FileTransfer {
    /// Id or name.
    #[schemars(with = "WorkspaceReference")]
    pub workspace_id: String,
    /// `upload` (host to workspace) or `download` (workspace to host).
    pub direction: Direction,
    /// Absolute path on the host, within the transfer directory.
    #[schemars(with = "AbsolutePath")]
    pub host_path: String,
    /// Absolute path in the workspace.
    #[schemars(with = "AbsolutePath")]
    pub guest_path: String,
}
action! { FileTransfer -> FileTransferred {
    name: "file_transfer",
    title: "Copy files to or from the host",
    subjects: [Workspace(workspace_id)],
    routes: [Post "/v1/workspaces/{workspace_id}/files/transfer"],
    tools: [Standard, Full],
    effect: Destroys,
    flags: [long_running],
    description: "Copies a file or directory of any size between the host and a workspace. On the host, agents can \
                  use only the transfer directory. An existing destination file is replaced, an existing directory \
                  is not.",
}}

/// Files that were copied.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct FileTransferred {
    /// Which way they were copied.
    pub direction: Direction,
    /// Path on the host.
    pub host_path: String,
    /// Path in the workspace.
    pub guest_path: String,
    /// Number of bytes of content.
    pub bytes: u64,
    /// Number of files and directories.
    pub files: u64,
    /// Sockets, pipes and devices, which are never copied: the first 100 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<String>,
    /// Number of such files in total.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skipped_count: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Outcome for FileTransferred {
    fn text(&self) -> String {
        let (from, to) = match self.direction {
            Direction::Upload => (&self.host_path, &self.guest_path),
            Direction::Download => (&self.guest_path, &self.host_path),
        };
        let skipped = match self.skipped_count {
            0 => String::new(),
            count => format!("; {count} sockets, pipes or devices were left out"),
        };
        format!("{} bytes in {} files copied from {from} to {to}{skipped}", self.bytes, self.files)
    }
}
