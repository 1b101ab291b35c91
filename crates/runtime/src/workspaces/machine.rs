//! What the database stores about a running machine, and the machine's directory.
#![expect(clippy::disallowed_methods, reason = "creating and removing run `in_place`")]

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use agentiso_blocking::in_place;
use agentiso_core::{Code, Failure};
use agentiso_vmm::{MachineRecord, User};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::intent::MachineDirName;

/// A running machine, which needs no process of ours.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct MachineState {
    /// How to reconnect to it.
    pub record: MachineRecord,
    /// Its directory.
    #[serde(rename = "berth")]
    pub dir: MachineDirName,
    /// The key that a host must have to restore its memory.
    pub restore_key: String,
    /// Which card it has on the router, if it has a network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card: Option<String>,
}

impl MachineState {
    /// Encodes it for the database.
    pub fn to_value(&self) -> Result<Value, Failure> {
        serde_json::to_value(self).map_err(|error| Failure::new(Code::Internal, error.to_string()))
    }

    /// Decodes it.
    pub fn from_value(value: &Value) -> Result<Self, Failure> {
        serde_json::from_value(value.clone()).map_err(|error| {
            Failure::new(
                Code::DataDamaged,
                format!("the stored record of a running machine cannot be understood: {error}"),
            )
        })
    }
}

impl MachineDirName {
    /// The directory's path.
    pub fn path(&self, workspaces: &Path) -> PathBuf {
        workspaces.join(self.workspace.to_string()).join(self.machine.to_string())
    }

    /// Creates the directory, owned by `user` if QEMU runs as another user.
    pub fn create(&self, workspaces: &Path, user: Option<&User>) -> io::Result<PathBuf> {
        in_place(|| self.create_blocking(workspaces, user))
    }

    fn create_blocking(&self, workspaces: &Path, user: Option<&User>) -> io::Result<PathBuf> {
        let path = self.path(workspaces);
        let parent = workspaces.join(self.workspace.to_string());
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&parent)?;
        if user.is_some() {
            // The parent inherits QEMU's group from the directory of all workspaces.
            agentiso_images::access::share_directory(&parent)?;
        }
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        if let Some((uid, gid)) = user.map(User::owner) {
            std::os::unix::fs::chown(&path, Some(uid), Some(gid))?;
        }
        Ok(path)
    }

    /// Removes the directory, and the workspace's directory if it is empty then.
    pub fn remove(&self, workspaces: &Path) -> io::Result<()> {
        in_place(|| self.remove_blocking(workspaces))
    }

    fn remove_blocking(&self, workspaces: &Path) -> io::Result<()> {
        match fs::remove_dir_all(self.path(workspaces)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // Fails, and should, while another machine of the workspace has a directory in it.
        let _ = fs::remove_dir(workspaces.join(self.workspace.to_string()));
        Ok(())
    }
}
